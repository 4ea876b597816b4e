"""caffelite dataset mnist"""

from __future__ import annotations

from pathlib import Path

import click

from ... import inputs
from ...errors import CaffeliteError, Where
from . import making

MNIST_MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
# name: (md5 of the .gz that the mirrors hold, md5 of what is in it)
MNIST_FILES = {
    "train-images-idx3-ubyte": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
    "train-labels-idx1-ubyte": ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
    "t10k-images-idx3-ubyte": ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
    "t10k-labels-idx1-ubyte": ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
}


@click.command(short_help="MNIST's images as databases")
@click.option(
    "--from",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder that holds the four MNIST files, .gz or not; else they are downloaded.",
)
@making.out
@making.force
def mnist(folder: Path | None, out: Path, force: bool) -> None:
    """MNIST: mnist_train_lmdb (60,000 images of 28×28) and mnist_test_lmdb (10,000), checksums verified.

    Example: caffelite dataset mnist --from ~/Downloads --out data
    """
    names = making.free(out, force, "mnist_train_lmdb", "mnist_test_lmdb")
    files = {name: _read_mnist(folder, name) if folder else _download(name) for name in MNIST_FILES}
    for name, part in zip(names, ("train", "t10k"), strict=True):
        making.write(name, _idx(files[f"{part}-images-idx3-ubyte"]), _idx(files[f"{part}-labels-idx1-ubyte"]), force)


def _idx(content: bytes):
    """An array from the IDX format: two zeros, type 8 (uint8), number of axes, each axis as a big-endian int32, then
    the bytes."""
    import numpy as np

    axes = content[3]
    shape = np.frombuffer(content, ">i4", axes, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _read_mnist(folder: Path, name: str) -> bytes:
    packed, plain = folder / f"{name}.gz", folder / name
    path = plain if plain.is_file() else packed
    try:
        content = inputs.read(path, inputs.IMAGE)
    except OSError as mistake:
        where = Where(str(folder))
        raise CaffeliteError(
            "an MNIST file is missing", where=where, expected=f"{name} or {name}.gz", found=inputs.reason(mistake)
        ) from None
    return making.verified(path, making.unpacked(path, content) if path == packed else content, MNIST_FILES[name][1])


def _download(name: str) -> bytes:
    remedy = "get the four files by other means and give their folder with --from"
    urls = [f"{mirror}/{name}.gz" for mirror in MNIST_MIRRORS]
    return making.unpacked(name, making.download(urls, MNIST_FILES[name][0], remedy))
