"""Trains projects of `caffelite new` on small sets of pictures with several seeds; prints median and worst accuracy.

Each run goes on to its end. What early_stop would have made of it follows from its tests: the best accuracy until
that many tests in a row were no better, and the share of the iterations until then.

Example:
  python tools/measure_new.py --data DATASETS --seeds 8
  python tools/measure_new.py --data DATASETS --seeds 8 --patience 3 5 8 --sets turned uneven
  python tools/measure_new.py --data DATASETS --set warmup_iter=0 --sets cifar shapes
  python tools/measure_new.py --data DATASETS --finetune
  python tools/measure_new.py --data DATASETS --sets cifar --new net cifar10_resnet --finetune --others 5000

A set has 5 classes of 48 training and 60 test pictures; "uneven" has 96 to 6 of a class to train, and "turned" files
that are transparent in places or turned by EXIF. DATASETS holds cifar10-jpg.tar.gz (train/CLASS/FILE,
test/CLASS/FILE) and mnist/ with its four files. Fine-tuning starts from a net of the same kind, trained on the other
five classes of CIFAR-10, MNIST or the digits.
"""

import argparse
import gzip
import os
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

CLASSES, TRAIN, TEST = 5, 48, 60
Pictures = tuple[np.ndarray, np.ndarray]  # N×H×W×C, labels


def mnist(data: Path, first: int) -> tuple[Pictures, Pictures]:
    def read(name: str) -> Pictures:
        pixels = gzip.decompress((data / f"mnist/{name}-images-idx3-ubyte.gz").read_bytes())
        labels = gzip.decompress((data / f"mnist/{name}-labels-idx1-ubyte.gz").read_bytes())
        images = np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 28, 28, 1)
        return images, np.frombuffer(labels, np.uint8, offset=8) - np.uint8(first)

    return read("train"), read("t10k")


def digits(data: Path, first: int) -> tuple[Pictures, Pictures]:
    from sklearn.datasets import load_digits

    small, labels = load_digits(return_X_y=True)
    images = np.stack([cv2.resize(one, (28, 28)) for one in (small.reshape(-1, 8, 8) * 15).astype(np.uint8)])[..., None]
    order = np.argsort(labels, kind="stable")
    test = np.zeros(len(labels), bool)
    for label in range(10):
        test[order[labels[order] == label][:TEST]] = True
    labels = labels - first
    return (images[~test], labels[~test]), (images[test], labels[test])


def cifar(data: Path, first: int) -> tuple[Pictures, Pictures]:
    parts: dict[str, tuple[list, list]] = {"train": ([], []), "test": ([], [])}
    with tarfile.open(data / "cifar10-jpg.tar.gz") as archive:
        names = sorted({member.name.split("/")[1] for member in archive if member.name.count("/") == 2})
        for member in archive:
            if member.isfile():
                part, name, _ = member.name.split("/")
                images, labels = parts[part]
                content = np.frombuffer(archive.extractfile(member).read(), np.uint8)
                images.append(cv2.imdecode(content, cv2.IMREAD_COLOR))
                labels.append(names.index(name) - first)
    train, test = ((np.stack(images), np.array(labels)) for images, labels in parts.values())
    return train, test


def drawn(draw: Callable[[np.random.Generator, int], np.ndarray]) -> tuple[Pictures, Pictures]:
    made = []
    for seed, count in ((1, TRAIN), (2, TEST)):
        rng, labels = np.random.default_rng(seed), np.repeat(np.arange(CLASSES), count)
        made.append((np.stack([draw(rng, label) for label in labels]), labels))
    return made[0], made[1]


def shape(rng: np.random.Generator, kind: int) -> np.ndarray:
    """A circle, cross, square, triangle or bar in a random color on noise."""
    image = rng.integers(0, 130, (32, 32, 3), np.uint8)
    x, y, r = (int(value) for value in rng.integers((12, 12, 6), (20, 20, 11)))
    color = [int(value) for value in rng.integers(70, 200, 3)]
    lines = {
        1: [[(x - r, y - r), (x + r, y + r)], [(x - r, y + r), (x + r, y - r)]],
        2: [[(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r), (x - r, y - r)]],
        3: [[(x - r, y + r), (x + r, y + r), (x, y - r), (x - r, y + r)]],
        4: [[(x - r, y), (x + r, y)]],
    }
    if kind == 0:
        cv2.circle(image, (x, y), r, color, 2)
    for line in lines.get(kind, []):
        cv2.polylines(image, [np.array(line, np.int32)], False, color, 2)
    return image


def stripes(rng: np.random.Generator, kind: int) -> np.ndarray:
    """Stripes of one of five widths at any angle, under noise."""
    y, x = np.mgrid[:32, :32]
    angle, length = rng.uniform(0, np.pi), 3 * 1.45**kind
    wave = 45 * np.sin(2 * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / length + rng.uniform(0, 2 * np.pi))
    noisy = 128 + wave[..., None] * rng.uniform(0.3, 1, 3) + rng.normal(0, 40, (32, 32, 3))
    return np.clip(noisy, 0, 255).astype(np.uint8)


def png(path: Path, image: np.ndarray) -> None:
    cv2.imwrite(str(path.with_suffix(".png")), image)


def turned(path: Path, image: np.ndarray) -> None:
    """Every second picture as a PNG whose corners are transparent above random colors, the others as a JPEG that is
    stored on its side, with the EXIF that says so."""
    from PIL import Image

    if int(path.name) % 2:
        side, exif = Image.fromarray(np.rot90(image)[..., ::-1]), Image.Exif()
        exif[0x0112] = 6
        side.save(path.with_suffix(".jpg"), quality=95, exif=exif)
        return
    y, x = np.mgrid[-1 : 1 : image.shape[0] * 1j, -1 : 1 : image.shape[1] * 1j]
    inside = (x * x + y * y < 1.3)[..., None]
    hidden = np.random.default_rng(int(path.name)).integers(0, 256, image.shape, np.uint8)
    png(path, np.dstack([np.where(inside, image, hidden), 255 * inside.astype(np.uint8)]))


class PictureSet(NamedTuple):
    """load: the pictures and labels to train and to test, of labels from a first one on. counts: training pictures of
    each class. encode: writes a picture to a path, whose suffix it adds."""

    load: Callable[[Path, int], tuple[Pictures, Pictures]]
    counts: tuple[int, ...] = (TRAIN,) * CLASSES
    encode: Callable[[Path, np.ndarray], None] = png


SETS = {
    "cifar": PictureSet(cifar),
    "mnist": PictureSet(mnist),
    "digits": PictureSet(digits),
    "shapes": PictureSet(lambda data, first: drawn(shape)),
    "stripes": PictureSet(lambda data, first: drawn(stripes)),
    "turned": PictureSet(lambda data, first: drawn(shape), encode=turned),
    "uneven": PictureSet(mnist, (96, 48, 24, 12, 6)),
}


def write(folder: Path, parts: tuple[Pictures, Pictures], counts: tuple[int, ...], encode: Callable = png) -> None:
    """train/CLASS/FILE and test/CLASS/FILE of the labels 0 to 4. counts: training pictures of each class."""
    for name, most, (images, labels) in zip(("train", "test"), (counts, (TEST,) * CLASSES), parts, strict=True):
        for label in range(CLASSES):
            place = folder / name / f"class{label}"
            place.mkdir(parents=True)
            for i, image in enumerate(images[labels == label][: most[label]]):
                encode(place / f"{i:03}", image)


def caffelite(folder: Path, *words: object) -> str:
    """What a command writes."""
    command = [sys.executable, "-c", "from caffelite.cli import main; main()", *map(str, words)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[3:])}\n{done.stderr[-2000:]}")
    return done.stdout + done.stderr


class Curve(NamedTuple):
    """The tests of a run, (iteration, accuracy), and its seconds."""

    tests: list[tuple[int, float]]
    seconds: float

    def stopped(self, patience: int) -> tuple[float, float]:
        """(accuracy, share of the iterations) of a run that ends when ``patience`` tests in a row are no better."""
        best, improved = 0.0, 0
        for index, (iteration, accuracy) in enumerate(self.tests):
            if accuracy > best:
                best, improved = accuracy, index
            if 0 < patience <= index - improved:
                return best, iteration / self.tests[-1][0]
        return best, 1.0


def train(folder: Path, name: str, fields: list[str]) -> Curve:
    settings = [word for field in ["early_stop=0", *fields] for word in ("-set", field)]
    start = time.monotonic()
    log = caffelite(folder, "train", "-solver", f"{name}/solver.prototxt", "-record", "none", *settings)
    tests = re.findall(r"Iteration (\d+), Testing net|Test net output #\d+: accuracy = (\S+)", log)
    iterations = [int(iteration) for iteration, _ in tests if iteration]
    accuracies = [float(accuracy) for _, accuracy in tests if accuracy]
    return Curve(list(zip(iterations, accuracies, strict=True)), time.monotonic() - start)


def base(folder: Path, data: Path, name: str, most: int, more: list[str]) -> list[str]:
    """The -weights of a net that has learned the other five classes. most: training pictures of each. more: words for
    caffelite new."""
    write(folder / "others", SETS[name].load(data, CLASSES), (most,) * CLASSES)
    caffelite(folder, "new", "base", "others", *more)
    train(folder, "base", [])
    return ["-weights", next((folder / "base").glob("*.caffemodel")).relative_to(folder).as_posix()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("CAFFELITE_DATA"), help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, default=8, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--set", dest="fields", action="append", default=[], metavar="FIELD=VALUE", help="of the solver"
    )
    parser.add_argument("--new", nargs="+", default=[], metavar="WORD", help="more words for caffelite new, without -")
    parser.add_argument("--finetune", action="store_true", help="start from trained weights")
    parser.add_argument(
        "--others", type=int, default=200, metavar="N", help="pictures of each class that was learned before"
    )
    parser.add_argument("--patience", type=int, nargs="+", default=[4, 6, 8, 10], metavar="TESTS", help="to compare")
    given = parser.parse_args()
    more = [f"-{word}" if i % 2 == 0 else word for i, word in enumerate(given.new)]
    print("set: median and worst accuracy of the whole run; with early_stop, and the median share of the iterations")
    for name in given.sets:
        curves: list[Curve] = []
        with tempfile.TemporaryDirectory() as made:
            folder, of = Path(made), SETS[name]
            write(folder / "pictures", of.load(given.data, 0), of.counts, of.encode)
            weights = base(folder, given.data, name, given.others, more) if given.finetune else []
            for seed in range(given.first, given.first + given.seeds):
                said = caffelite(folder, "new", f"seed{seed}", "pictures", "-seed", seed, *weights, *more)
                forecast = re.search(r"Time: .*?about (\S+)", said)
                curves.append(train(folder, f"seed{seed}", given.fields))
                tests = " ".join(f"{accuracy:.3f}" for _, accuracy in curves[-1].tests)
                took = f"{curves[-1].seconds:.0f} s, forecast {forecast and forecast[1]}"
                print(f"  {name} seed {seed}: {took}; tests {tests}", file=sys.stderr, flush=True)
        print(f"{name}: {summary(curves, 0)}; " + "; ".join(f"{n}: {summary(curves, n)}" for n in given.patience))
        sys.stdout.flush()


def summary(curves: list[Curve], patience: int) -> str:
    """Median and worst accuracy, and the median share of the iterations where a run may end early."""
    scores, shares = zip(*(curve.stopped(patience) for curve in curves), strict=True)
    share = f", {statistics.median(shares):.0%}" if patience else ""
    return f"{statistics.median(scores):.3f}, {min(scores):.3f}{share}"


if __name__ == "__main__":
    main()
