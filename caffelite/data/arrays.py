"""Samples from arrays in files: IDX, as MNIST has it, and NumPy's .npy and .npz."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .. import inputs
from ..errors import CaffeliteError, Where
from . import npy
from .database import EXACT_LABELS
from .rows import Rows, opened
from .samples import Check, Samples

IDX = {
    8: ">u1",
    9: ">i1",
    11: ">i2",
    12: ">i4",
    13: ">f4",
    14: ">f8",
}  # the third byte of the file → the type of its numbers


def holds_arrays(path: Path) -> bool:
    """Whether a file is IDX, .npy or .npz, by its first bytes."""
    if not path.is_file():
        return False
    head = _head(path, 6)
    idx = head[:2] == b"\0\0" and len(head) > 3 and head[2] in IDX and 0 < head[3] <= 4
    return head == b"\x93NUMPY" or head[:4] == b"PK\3\4" and path.suffix == ".npz" or idx


class Arrays(Samples[np.ndarray]):
    """Images N×H×W, N×C×H×W, or rows N×D as images D×1×1; uint8 stays, other dtypes become float32. Labels: N integers,
    else 0.

    Arrays that are too large for memory are read from the file on request. Those of a .npz are decompressed when more
    than the first image is needed.
    """

    def __init__(self, images: Path, labels: Path | None):
        self.path = images
        self._images: Rows | npy.Packed | np.ndarray = _load(images, "data")
        try:
            self._look(labels)
        except BaseException:
            self.close()
            raise

    def _look(self, labels: Path | None) -> None:
        images, shape = self.path, self._images.shape
        if len(shape) not in (2, 3, 4) or not math.prod(shape):
            raise Where(str(images)).error("no images", expected="N×H×W, N×C×H×W or N×D", found=_times(shape))
        self._shape = {2: (*shape[1:], 1, 1), 3: (1, *shape[1:]), 4: shape[1:]}[len(shape)]
        self.length = shape[0]
        labels_read = None
        if labels or images.suffix == ".npz":
            labels_read = _read_labels(labels or images, self.length, missing=not labels)
        self._labels = np.zeros(self.length, np.float32) if labels_read is None else labels_read
        self.first = self._taken(slice(0, 1))[0]

    def _taken(self, indices: slice | np.ndarray) -> np.ndarray:
        with _damage_reported(self.path):
            images = self._images[indices]
        images = images.reshape(len(images), *self._shape)
        return images if images.dtype == np.uint8 else images.astype(np.float32)

    def load_all(self, most: int, check: Check) -> tuple[np.ndarray, np.ndarray] | None:
        return (self._taken(slice(None)), self._labels) if self.first.nbytes * self.length <= most else None

    def read(self, indices: np.ndarray) -> Sequence[np.ndarray]:
        return list(self._taken(indices))

    def image(self, number: int, content: np.ndarray) -> tuple[np.ndarray, int]:
        return content, self._labels[number]

    def error(self, number: int, content: np.ndarray, what: str) -> CaffeliteError:
        return CaffeliteError(f"image {number}: {what}", where=Where(str(self.path)))

    def labels(self, most: int) -> np.ndarray:
        return self._labels.astype(np.float64)

    def close(self) -> None:
        if isinstance(self._images, (Rows, npy.Packed)):
            self._images.close()
        self._images = np.empty(0)


def _read_labels(path: Path, length: int, missing: bool) -> np.ndarray | None:
    """The labels of ``length`` images, float32; None where the file has none and they may be ``missing``."""
    where, labels = Where(str(path)), _find(path, "label") if missing else _load(path, "label")
    if labels is None:
        return None
    try:
        if math.prod(labels.shape) != length or labels.shape[:1] != (length,) and length != 1:
            raise where.error("the labels do not fit the images", expected=length, found=_times(labels.shape))
        with _damage_reported(path):
            values = np.asarray(labels[:] if labels.shape else labels, np.float64).reshape(-1)
    finally:
        if isinstance(labels, (Rows, npy.Packed)):
            labels.close()
    wrong = np.flatnonzero((values != np.floor(values)) | (np.abs(values) > EXACT_LABELS))
    if wrong.size:
        raise where.error(f"label {wrong[0]} is not an integer that float32 represents exactly", found=values[wrong[0]])
    return values.astype(np.float32)


@contextmanager
def _damage_reported(path: Path) -> Iterator[None]:
    """Raises errors of reading as CaffeliteError with the name of the file."""
    where = Where(str(path))
    try:
        yield
    except npy.DAMAGE as mistake:
        said = inputs.reason(mistake) or type(mistake).__name__
        raise where.error(f"cannot read the arrays: {said}", expected="IDX, .npy or .npz") from None
    except MemoryError:
        raise where.error("not enough memory for the arrays", remedy="save them as .npy in C order") from None


def _load(path: Path, name: str) -> Rows | npy.Packed | np.ndarray:
    """As `_find`. Errors besides: the .npz has no array of the name."""
    array = _find(path, name)
    if array is None:
        raise Where(str(path)).error(f'no array "{name}"', found=", ".join(npy.names(path)) or "none")
    return array


def _find(path: Path, name: str) -> Rows | npy.Packed | np.ndarray | None:
    """The array of a file, of a .npz the one of a name; None where it has none of that name. Errors: the file cannot be
    read; no numbers."""
    where = Where(str(path))
    array: Rows | npy.Packed | np.ndarray | None
    with _damage_reported(path):
        inputs.check(path)
        if path.suffix == ".npz":
            array = npy.of_npz(path, name)
            if array is None:
                return None
        else:
            array = npy.read(path) if path.suffix == ".npy" else _idx(path)
    if array.dtype.kind not in "uifb":
        if isinstance(array, (Rows, npy.Packed)):
            array.close()
        raise where.error("no numbers", found=array.dtype)
    return array


def _idx(path: Path) -> Rows | np.ndarray:
    """The array of an IDX file: two zeros, the type, the number of axes, each axis as 4 bytes, the numbers; highest
    bytes first."""
    head = _head(path, 4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in IDX:
        raise ValueError(
            "not an IDX file; packed files must be unpacked" if head[:2] == b"\x1f\x8b" else "not an IDX file"
        )
    axes = head[3]
    sides = _head(path, 4 + 4 * axes)[4:]
    if len(sides) != 4 * axes:
        raise ValueError("the file is cut short")
    dtype, shape = np.dtype(IDX[head[2]]), tuple(np.frombuffer(sides, ">u4").tolist())
    needed = 4 + 4 * axes + dtype.itemsize * math.prod(shape)
    if path.stat().st_size != needed:
        raise ValueError(f"{path.stat().st_size} bytes instead of {needed}")
    return opened(path, dtype, 4 + 4 * axes, shape)


def _head(path: Path, count: int) -> bytes:
    with inputs.open_file(path) as file:
        return file.read(count)


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))
