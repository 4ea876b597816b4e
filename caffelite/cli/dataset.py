"""`caffelite dataset`: makes the data sets that the shipped nets train on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from caffelite.errors import CaffeliteError, Where, missing_extra

MNIST_MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
# name: (md5 of the .gz that the mirrors hold, md5 of what is in it)
MNIST_FILES = {
    "train-images-idx3-ubyte": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
    "train-labels-idx1-ubyte": ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
    "t10k-images-idx3-ubyte": ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
    "t10k-labels-idx1-ubyte": ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
}

_out = click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=".", show_default=True, help="Folder to write into.")
_force = click.option("--force", is_flag=True, help="Replace what is already there.")


@click.group()
def dataset() -> None:
    """Make a data set that a shipped net trains on.

    Example: caffelite dataset digits
    """


@dataset.command()
@_out
@_force
def digits(out: Path, force: bool) -> None:
    """Handwritten digits without a download: digits_train_lmdb (1437 images) and digits_test_lmdb (360).

    They are scikit-learn's 8×8 digits, enlarged to 20×20 and centred in 28×28 as MNIST's are.

    Example: caffelite dataset digits --out data
    """
    import numpy as np

    names = _free(out, force, "digits_train_lmdb", "digits_test_lmdb")
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise missing_extra("scikit-learn", "digits", "dataset digits") from None
    from scipy.ndimage import zoom

    small, labels = load_digits(return_X_y=True)
    large = zoom(small.reshape(-1, 8, 8) * (255 / 16), (1, 2.5, 2.5), order=1, mode="nearest", grid_mode=True)
    images = np.pad(large.clip(0, 255).round().astype(np.uint8), ((0, 0), (4, 4), (4, 4)))
    # Every fifth image of the list sorted by class: each class gives its fifth to the test set.
    chosen = np.zeros(len(labels), bool)
    chosen[np.argsort(labels, kind="stable")[::5]] = True
    for name, part in zip(names, (~chosen, chosen), strict=True):
        _write(name, images[part], labels[part], force)


@dataset.command()
@click.option(
    "--from",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder that holds the four MNIST files, .gz or not; else they are downloaded.",
)
@_out
@_force
def mnist(folder: Path | None, out: Path, force: bool) -> None:
    """MNIST: mnist_train_lmdb (60,000 images of 28×28) and mnist_test_lmdb (10,000), checksums verified.

    Example: caffelite dataset mnist --from ~/Downloads --out data
    """
    names = _free(out, force, "mnist_train_lmdb", "mnist_test_lmdb")
    files = {name: _read_mnist(folder, name) if folder else _download(name) for name in MNIST_FILES}
    for name, part in zip(names, ("train", "t10k"), strict=True):
        _write(name, _idx(files[f"{part}-images-idx3-ubyte"]), _idx(files[f"{part}-labels-idx1-ubyte"]), force)


@dataset.command()
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed draws other points.")
@_out
@_force
def blobs(seed: int, out: Path, force: bool) -> None:
    """Two classes of points for logistic regression: logreg_train.h5 (8000 rows) and logreg_test.h5 (2000), each with its .txt list.

    `data` holds N×4 points, one Gaussian cloud a class; `label` holds N zeros and ones.

    Example: caffelite dataset blobs --out data
    """
    import numpy as np

    from caffelite.data.writers import write_hdf5

    names = _free(out, force, "logreg_train.h5", "logreg_test.h5", "logreg_train.txt", "logreg_test.txt")
    random = np.random.default_rng(seed)
    for name, rows in zip(names, (8000, 2000), strict=False):
        labels = np.arange(rows) % 2
        points = random.standard_normal((rows, 4)) + np.where(labels[:, None], 1, -1) * np.array([1.0, 0.5, 0.25, 0.0])
        write_hdf5(name, {"data": points, "label": labels}, force=force)
        click.echo(f"wrote {name} and {name.with_suffix('.txt').name}: {rows} rows", err=True)


def _free(out: Path, force: bool, *names: str) -> list[Path]:
    from caffelite.data.writers import check_free

    paths = [out / name for name in names]
    check_free(paths, force)
    return paths


def _write(path: Path, images, labels, force: bool) -> None:
    from caffelite.data.writers import write_lmdb

    samples = zip(images[:, None], labels.tolist(), strict=True)
    written = write_lmdb(path, samples, len(labels), progress=True, force=force)
    click.echo(f"wrote {path}: {written} images of {images.shape[1]}×{images.shape[2]}", err=True)


def _idx(content: bytes):
    """An array from the IDX format: two zeros, type 8 (uint8), number of axes, each axis as a big-endian int32, then the bytes."""
    import numpy as np

    axes = content[3]
    shape = np.frombuffer(content, ">i4", axes, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _read_mnist(folder: Path, name: str) -> bytes:
    packed, plain = folder / f"{name}.gz", folder / name
    path = plain if plain.is_file() else packed
    try:
        content = path.read_bytes()
    except OSError as mistake:
        where = Where(str(folder))
        raise CaffeliteError("an MNIST file is missing", where=where, expected=f"{name} or {name}.gz", found=mistake.strerror) from None
    return _verified(path, _unpacked(path, content) if path == packed else content, MNIST_FILES[name][1])


def _unpacked(path: Path | str, content: bytes) -> bytes:
    import gzip
    import zlib

    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as mistake:
        raise CaffeliteError(f"damaged gzip file: {mistake}", where=Where(str(path)), remedy="fetch the file again") from None


def _verified(path: Path | str, content: bytes, expected: str) -> bytes:
    import hashlib

    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        where = Where(str(path))
        raise CaffeliteError("wrong checksum", where=where, expected=f"md5 {expected}", found=found, remedy="fetch the file again")
    return content


def _download(name: str) -> bytes:
    failures = []
    for mirror in MNIST_MIRRORS:
        url = f"{mirror}/{name}.gz"
        try:
            return _unpacked(url, _verified(url, b"".join(_chunks(url)), MNIST_FILES[name][0]))
        except CaffeliteError as mistake:
            failures.append(str(mistake))
        except OSError as mistake:
            failures.append(f"{url}: {mistake}")
    raise CaffeliteError(
        f"cannot download {name}.gz: " + " | ".join(failures), remedy="get the four files by other means and give their folder with --from"
    )


def _chunks(url: str) -> Iterator[bytes]:
    import urllib.request

    from tqdm import tqdm

    with urllib.request.urlopen(url, timeout=30) as answer:
        size = int(answer.headers.get("Content-Length") or 0) or None
        with tqdm(desc=url.rsplit("/", 1)[1], total=size, unit="B", unit_scale=True, disable=None) as bar:
            while chunk := answer.read(1 << 16):
                bar.update(len(chunk))
                yield chunk
