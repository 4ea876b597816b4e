"""Arrays in files as samples: IDX, as MNIST's, and NumPy's .npy and .npz."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from caffelite import inputs
from caffelite.data import npy
from caffelite.data.database import EXACT_LABELS
from caffelite.data.samples import Check, Samples
from caffelite.errors import CaffeliteError, Where

IDX = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}  # the third byte of the file → the type of its numbers


class Arrays(Samples):
    """Images N×H×W, N×C×H×W, or rows N×D as images D×1×1; uint8 stays, other numbers become float32. Labels: N whole numbers, else 0.

    Where they are larger than memory should hold they are read from the file as they are needed (not those of a .npz).
    """

    def __init__(self, images: Path, labels: Path | None):
        self.path = images
        self._images, given = _load(images, "data"), None
        if labels:
            given = _load(labels, "label")
        elif images.suffix == ".npz":
            given = _load(images, "label", missing=True)
        shape = self._images.shape
        if len(shape) not in (2, 3, 4) or not math.prod(shape):
            raise CaffeliteError("no images", where=Where(str(images)), expected="N×H×W, N×C×H×W or N×D", found=_times(shape))
        full = {2: (*shape, 1, 1), 3: (shape[0], 1, *shape[1:]), 4: shape}[len(shape)]
        self._images = self._images.reshape(full)
        self.length = len(self._images)
        self._labels = np.zeros(self.length, np.float32) if given is None else _checked(given, self.length, labels or images)
        self.first = self._taken(slice(0, 1))[0]

    def _taken(self, numbers: slice | np.ndarray) -> np.ndarray:
        images = np.asarray(self._images[numbers])
        return images if images.dtype == np.uint8 else images.astype(np.float32)

    def whole(self, most: int, check: Check) -> tuple[np.ndarray, np.ndarray] | None:
        return (self._taken(slice(None)), self._labels) if self.first.nbytes * self.length <= most else None

    def read(self, numbers: np.ndarray) -> Sequence[np.ndarray]:
        return self._taken(numbers)

    def image(self, number: int, content: np.ndarray) -> tuple[np.ndarray, int]:
        return content, self._labels[number]

    def bad(self, number: int, content: np.ndarray, what: str) -> CaffeliteError:
        return CaffeliteError(f"image {number}: {what}", where=Where(str(self.path)))

    def labels(self, most: int) -> np.ndarray:
        return self._labels.astype(np.float64)

    def close(self) -> None:
        self._images = None


def _checked(labels: np.ndarray, length: int, path: Path) -> np.ndarray:
    where, values = Where(str(path)), labels.reshape(len(labels), -1) if labels.ndim else labels.reshape(1, -1)
    if len(values) != length or values.shape[1] != 1:
        raise CaffeliteError("the labels do not fit the images", where=where, expected=length, found=_times(labels.shape))
    values = np.asarray(values[:, 0], np.float64)
    wrong = np.flatnonzero((values != np.floor(values)) | (np.abs(values) > EXACT_LABELS))
    if wrong.size:
        what = f"label {wrong[0]} is no whole number that float32 holds"
        raise CaffeliteError(what, where=where, found=values[wrong[0]])
    return values.astype(np.float32)


def _load(path: Path, name: str, missing: bool = False) -> np.ndarray | None:
    where = Where(str(path))
    try:
        inputs.check(path)
        if path.suffix == ".npz":
            array = npy.of_npz(path, name)
            if array is None:
                if missing:
                    return None
                raise CaffeliteError(f'no array "{name}"', where=where, found=", ".join(npy.names(path)) or "none")
        else:
            array = npy.read(path) if path.suffix == ".npy" else _idx(path)
    except npy.DAMAGE as mistake:
        said = inputs.reason(mistake) or type(mistake).__name__
        raise CaffeliteError(f"cannot read the arrays: {said}", where=where, expected="IDX, .npy or .npz") from None
    if array.dtype.kind not in "uifb":
        raise CaffeliteError("no numbers", where=where, found=array.dtype)
    return array


def _idx(path: Path) -> np.ndarray:
    """A view of an IDX file: two zeros, the type, the number of axes, each axis as 4 bytes, the numbers; highest bytes first."""
    head = _head(path, 4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in IDX:
        raise ValueError("not an IDX file; packed files must be unpacked" if head[:2] == b"\x1f\x8b" else "not an IDX file")
    axes = head[3]
    sides = _head(path, 4 + 4 * axes)[4:]
    if len(sides) != 4 * axes:
        raise ValueError("the file is cut short")
    dtype, shape = np.dtype(IDX[head[2]]), tuple(np.frombuffer(sides, ">u4").tolist())
    needed = 4 + 4 * axes + dtype.itemsize * math.prod(shape)
    if path.stat().st_size != needed:
        raise ValueError(f"{path.stat().st_size} bytes instead of {needed}")
    return np.memmap(path, dtype, "r", 4 + 4 * axes, shape) if math.prod(shape) else np.empty(shape, dtype)


def _head(path: Path, count: int) -> bytes:
    with inputs.open_file(path) as file:
        return file.read(count)


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))
