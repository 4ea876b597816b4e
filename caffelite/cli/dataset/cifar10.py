"""caffelite dataset cifar10"""

from __future__ import annotations

from pathlib import Path

import click

from ...errors import CaffeliteError, Where
from . import making

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
MD5 = "c32a1d4ab5d03f1284b67883e8d87530"


@click.command(short_help="CIFAR-10's images as databases")
@click.option(
    "--from",
    "origin",
    type=click.Path(path_type=Path),
    help="Archive or folder to take the images from; else it is downloaded.",
)
@making.out
@making.force
def cifar10(origin: Path | None, out: Path, force: bool) -> None:
    """CIFAR-10: cifar10_train_lmdb (50,000 images of 32×32), cifar10_test_lmdb (10,000), and the first one's
    mean.binaryproto.

    --from takes the official archive, binary or python, or its files: the records come in its order, under the keys
    00000 and on. It also takes an archive or a folder of image files, train/CLASS/FILE and test/CLASS/FILE: these are
    mixed, keys as convert_imageset's. Channels are blue, green, red in either case, as the shipped nets have them;
    Caffe's own example keeps red, green, blue.

    Example: caffelite dataset cifar10 --from cifar-10-python.tar.gz --out data
    """
    from ...data import cifar
    from ...data.archive import Files, splits
    from ...data.mean import compute_mean
    from ...data.writers import together, write_mean

    train, test, mean = making.free(out, force, "cifar10_train_lmdb", "cifar10_test_lmdb", "mean.binaryproto")
    files = Files(origin) if origin else Files(making.download([URL], MD5), URL)
    batches, parts = cifar.find(files), splits(files)
    if not batches and not parts:
        expected = "CIFAR-10's own files, or image files as train/CLASS/FILE and test/CLASS/FILE"
        raise CaffeliteError("not CIFAR-10", where=Where(files.where), expected=expected)
    with together((train, test, mean), force):
        if batches:
            for path, names in ((train, cifar.TRAIN), (test, cifar.TEST)):
                making.write(path, *cifar.read(files, [batches[name] for name in names]), force, digits=5)
        elif parts:
            for path, part in zip((train, test), parts, strict=True):
                making.write_classes(path, part, cifar.CLASSES, force)
        found = compute_mean(train, progress=True)
        write_mean(mean, found.image)
    click.echo(
        f"wrote {mean}: mean of {found.count} images; mean_value: "
        f"{', '.join(f'{value:g}' for value in found.channels)}",
        err=True,
    )
