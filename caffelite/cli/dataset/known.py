"""`caffelite dataset` digits, mnist, cifar10, blobs, shapes, words and motions: sets that are downloaded, or drawn."""

from pathlib import Path

import click

from ... import inputs
from ...errors import CaffeliteError, Where, missing_extra
from .. import imaging
from ..options import Whole
from ..output import say

TRAINED = 4000  # images of the train set, written and printed


@click.command(short_help="Digits, without a download")
@imaging.out
@imaging.force
def digits(out: Path, force: bool) -> None:
    """Creates digits without a download: digits_train_lmdb (4000 images) and digits_test_lmdb (360 handwritten ones).

    The handwritten digits are scikit-learn's 8×8 images, enlarged to 20×20 and centered in 28×28 like MNIST's. 1437 of
    them are in the training set, with 2563 printed digits that are drawn here, so a net learns both.

    Example: caffelite dataset digits --out data
    """
    import numpy as np

    from ...data.drafts import together
    from ...drawn import digits as drawing

    names = imaging.free(out, force, "digits_train_lmdb", "digits_test_lmdb")
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
    printed, printed_labels = drawing.digits(TRAINED - int(np.count_nonzero(~chosen)))
    learned = np.concatenate([images[~chosen], printed])
    learned_labels = np.concatenate([labels[~chosen], printed_labels])
    mixed = np.random.default_rng(0).permutation(TRAINED)
    with together(names, force) as drafts:
        imaging.write(drafts[names[0]], learned[mixed], learned_labels[mixed])
        imaging.write(drafts[names[1]], images[chosen], labels[chosen])


DOWNLOAD = 1 << 28  # bytes; CIFAR-10 has 170 million
MNIST_BYTES = 64 << 20  # more than any of its files has
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
@imaging.out
@imaging.force
def mnist(folder: Path | None, out: Path, force: bool) -> None:
    """MNIST: mnist_train_lmdb (60,000 images of 28×28) and mnist_test_lmdb (10,000), checksums verified.

    Example: caffelite dataset mnist --from ~/Downloads --out data
    """
    from ...data.drafts import together

    names = imaging.free(out, force, "mnist_train_lmdb", "mnist_test_lmdb")
    files = {name: _read_mnist(folder, name) if folder else _download(name) for name in MNIST_FILES}
    with together(names, force) as drafts:
        for name, subset in zip(names, ("train", "t10k"), strict=True):
            images, labels = (_idx(files[f"{subset}-{kind}-ubyte"]) for kind in ("images-idx3", "labels-idx1"))
            imaging.write(drafts[name], images, labels)


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
        what = "an MNIST file is missing"
        raise Where(str(folder)).error(what, expected=f"{name} or {name}.gz", found=inputs.reason(mistake)) from None
    return verified(path, unpacked(path, content) if path == packed else content, MNIST_FILES[name][1])


def _download(name: str) -> bytes:
    remedy = "get the four files by other means and give their folder with --from"
    urls = [f"{mirror}/{name}.gz" for mirror in MNIST_MIRRORS]
    return unpacked(name, download(urls, MNIST_FILES[name][0], remedy))


CIFAR10_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR10_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"


@click.command(short_help="CIFAR-10's images as databases")
@click.option(
    "--from",
    "origin",
    type=click.Path(path_type=Path),
    help="Archive or folder to take the images from; else it is downloaded.",
)
@imaging.out
@imaging.force
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
    from ...data.drafts import together
    from ...data.mean import compute_mean
    from ...data.writers import write_mean

    train, test, mean = imaging.free(out, force, "cifar10_train_lmdb", "cifar10_test_lmdb", "mean.binaryproto")
    files = Files(origin) if origin else Files(download([CIFAR10_URL], CIFAR10_MD5), CIFAR10_URL)
    batches, subsets = cifar.find(files), splits(files)
    if not batches and not subsets:
        expected = "CIFAR-10's own files, or image files as train/CLASS/FILE and test/CLASS/FILE"
        raise Where(files.where).error("not CIFAR-10", expected=expected)
    with together((train, test, mean), force) as drafts:
        if batches:
            for path, names in ((train, cifar.TRAIN), (test, cifar.TEST)):
                imaging.write(drafts[path], *cifar.read(files, [batches[name] for name in names]), digits=5)
        elif subsets:
            for path, subset in zip((train, test), subsets, strict=True):
                imaging.write_classes(drafts[path], subset, cifar.CLASSES)
        result = compute_mean(drafts[train], progress=True)
        write_mean(drafts[mean], result.image)
    say(
        f"wrote {mean}: mean of {result.count} images; mean_value: "
        f"{', '.join(f'{value:g}' for value in result.channels)}",
        err=True,
    )


@click.command(short_help="Points of two classes, as HDF5")
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Seed of the points.")
@imaging.out
@imaging.force
def blobs(seed: int, out: Path, force: bool) -> None:
    """Two classes of points for logistic regression: logreg_train.h5 (8000 rows) and logreg_test.h5 (2000), each with
    its .txt list.

    `data` holds N×4 points, one Gaussian cloud a class; `label` holds N zeros and ones.

    Example: caffelite dataset blobs --out data
    """
    import numpy as np

    from ...data.drafts import together
    from ...data.writers import fill_hdf5

    names = imaging.free(out, force, "logreg_train.h5", "logreg_test.h5", "logreg_train.txt", "logreg_test.txt")
    random = np.random.default_rng(seed)
    counts = dict(zip(names, (8000, 2000), strict=False))
    with together(names, force) as drafts:
        for name, rows in counts.items():
            labels = np.arange(rows) % 2
            points = random.standard_normal((rows, 4))
            points += np.where(labels[:, None], 1, -1) * np.array([1.0, 0.5, 0.25, 0.0])
            fill_hdf5(drafts, name, {"data": points, "label": labels})
    for name, rows in counts.items():
        say(f"wrote {name} and {name.with_suffix('.txt').name}: {rows} rows", err=True)


@click.command(short_help="Shapes to detect and segment, without a download")
@click.option("--images", type=Whole(1), default=2000, show_default=True, help="Images of the train set.")
@click.option("--test_images", type=Whole(1), default=500, show_default=True, help="Images of the test set.")
@click.option(
    "--size", type=click.IntRange(32, 2048), default=128, show_default=True, help="Height and width, in pixels."
)
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Seed of the images.")
@imaging.out
@imaging.force
def shapes(images: int, test_images: int, size: int, seed: int, out: Path, force: bool) -> None:
    """A detection and segmentation set without a download: textured circles, squares, triangles, stars and crosses on
    textured ground, 1 to 5 an image, in the folder shapes.

    The folder has images/ and masks/ as PNG (a mask's value is the label of a pixel, 0 is the ground), boxes as PASCAL
    VOC XML in annotations/ and as COCO JSON in train.json and test.json, lists of images and annotations in train.txt
    and test.txt, lists of images and masks in train_masks.txt and test_masks.txt, the classes in labels.txt and
    labelmap.prototxt. Paths in the lists are relative to the folder.

    Example: caffelite dataset shapes --out data
    """
    from ...drawn import shapes as drawing

    path = out / "shapes"
    drawing.write(path, {"train": images, "test": test_images}, size, seed, force=force)
    say(f"wrote {path}: {images} images to train and {test_images} to test, of {size}×{size}", err=True)


@click.command(short_help="Lines of text, without a download")
@click.option("--lines", type=Whole(1), default=4000, show_default=True, help="Lines to train on.")
@click.option("--test_lines", type=Whole(1), default=500, show_default=True, help="Lines to test on.")
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Seed of the lines.")
@imaging.out
@imaging.force
def words(lines: int, test_lines: int, seed: int, out: Path, force: bool) -> None:
    """Lines of text without a download: words of 3 to 6 letters as images of 24×96, words_train.h5 and words_test.h5,
    and their lists for HDF5Data.

    The files have data (N, 1, 24, 96), about -1 to 1, and label (N, 6): 1 to 26 for a to z, 0 after the last.

    Example: caffelite dataset words --out data
    """
    from ...drawn import words as drawing

    imaging.write_drawn(out, "words", drawing.datasets, {"train": lines, "test": test_lines}, seed, force)


@click.command(short_help="Pairs of images with their optical flow")
@click.option("--pairs", type=Whole(1), default=2000, show_default=True, help="Pairs to train on.")
@click.option("--test_pairs", type=Whole(1), default=200, show_default=True, help="Pairs to test on.")
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Seed of the pairs.")
@imaging.out
@imaging.force
def motions(pairs: int, test_pairs: int, seed: int, out: Path, force: bool) -> None:
    """Optical flow without a download: textured shapes that move by up to 5 pixels over a ground that moves, as pairs
    of images of 48×48, motions_train.h5 and motions_test.h5, and their lists for HDF5Data.

    The files have first and second (N, 1, 48, 48), about -1 to 1, and flow (N, 2, 48, 48), in pixels to the right and
    down.

    Example: caffelite dataset motions --out data
    """
    from ...drawn import motions as drawing

    imaging.write_drawn(out, "motions", drawing.datasets, {"train": pairs, "test": test_pairs}, seed, force)


# downloads


def unpacked(path: Path | str, content: bytes) -> bytes:
    import gzip
    import io
    import zlib

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            unpacked = file.read(MNIST_BYTES + 1)
            if len(unpacked) > MNIST_BYTES:
                raise OSError(f"it holds more than {MNIST_BYTES} bytes")
            return unpacked
    except (OSError, EOFError, zlib.error) as mistake:
        raise Where(str(path)).error(f"damaged gzip file: {mistake}", remedy="fetch the file again") from None


def verified(path: Path | str, content: bytes, expected: str) -> bytes:
    import hashlib

    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if digest != expected:
        what = "wrong checksum"
        raise Where(str(path)).error(what, expected=f"md5 {expected}", found=digest, remedy="fetch the file again")
    return content


def download(urls: list[str], md5: str, remedy: str = "get it by other means and name it with --from") -> bytes:
    """The content of the first address that has it, checksum verified."""
    failures = []
    for url in urls:
        try:
            return verified(url, _content(url), md5)
        except CaffeliteError as mistake:
            failures.append(str(mistake))
        except OSError as mistake:
            failures.append(f"{url}: {mistake}")
    raise CaffeliteError(f"cannot download {urls[0].rsplit('/', 1)[1]}: {' | '.join(failures)}", remedy=remedy)


def _content(url: str) -> bytes:
    import io

    from ...data.download import receive
    from ...progress import bar as progress_bar

    content, before = io.BytesIO(), 0
    with progress_bar(None, name=url.rsplit("/", 1)[1], unit="B", unit_scale=True) as bar:

        def show(done: int, total: int | None) -> None:
            nonlocal before
            bar.update(done - before)
            before = done

        receive(url, content, DOWNLOAD, show)
    return content.getvalue()
