"""Samples from arrays in files: IDX, as MNIST has it, and NumPy's .npy and .npz, with numbers only: no pickle, and no
array that is larger than its file.

Rows are read on request, without a memory map: a mapped file that shrinks would kill the process.
"""

import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Literal

import numpy as np

from .. import inputs
from ..errors import CaffeliteError, Where, closed_on_failure
from . import npy
from .database import EXACT_LABELS
from .samples import Check, Samples


class Rows:
    """Rows of a C-ordered array that starts at an offset of a file: `rows[numbers]` or `rows[start:stop]` reads them.

    Errors: OSError where the file cannot be read, ValueError where it is shorter than the array, at once or by the time
    of a read.
    """

    def __init__(self, path: Path, dtype: np.dtype, start: int, shape: tuple[int, ...]):
        self.dtype, self.shape, self._start = dtype, shape, start
        self._row = dtype.itemsize * math.prod(shape[1:])
        self._file = inputs.open_file(path)
        size = os.fstat(self._file.fileno()).st_size
        if size < start + self._row * shape[0]:
            self.close()
            raise ValueError(f"{size} bytes instead of {start + self._row * shape[0]}")

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, indices: slice | np.ndarray) -> np.ndarray:
        if isinstance(indices, slice):
            first, stop, _ = indices.indices(len(self))
            rows = np.empty((max(0, stop - first), *self.shape[1:]), self.dtype)
            self._read(rows, first)
            return rows
        rows = np.empty((len(indices), *self.shape[1:]), self.dtype)
        # Adjacent rows in the file are read at once.
        begins = [0, *(np.flatnonzero(np.diff(indices) != 1) + 1).tolist(), len(indices)]
        for begin, end in zip(begins[:-1], begins[1:], strict=True):
            self._read(rows[begin:end], int(indices[begin]) if end > begin else 0)
        return rows

    def _read(self, out: np.ndarray, first: int) -> None:
        left, offset = out.reshape(-1).view(np.uint8).data, self._start + first * self._row
        while left:
            count = os.preadv(self._file.fileno(), [left], offset)
            if not count:
                raise ValueError("the file has become shorter since it was opened")
            left, offset = left[count:], offset + count

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        self._file.close()


def opened(
    path: Path, dtype: np.dtype, start: int, shape: tuple[int, ...], order: Literal["C", "F"] = "C"
) -> Rows | np.ndarray:
    """An array in a file: its rows, or all of it where it has none or is in Fortran's order ("F"). Errors: as for
    `Rows`; MemoryError."""
    if not math.prod(shape):
        return np.empty(shape, dtype)
    if order == "C" and shape:
        return Rows(path, dtype, start, shape)
    with closing(Rows(path, dtype, start, (math.prod(shape),))) as flat:
        return flat[:].reshape(shape, order=order)


# What damaged files raise; RuntimeError: a member with a password, NotImplementedError: packed by a method that Python
# lacks
DAMAGE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, OverflowError)


def read(path: Path) -> Rows | np.ndarray:
    """The array of a .npy; its rows are read on request. Errors: DAMAGE, MemoryError."""
    with inputs.open_file(path) as file:
        dtype, shape, order, start = npy.header(file)
    return opened(path, dtype, start, shape, order)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """A .npz to read. Errors: OSError; zipfile.BadZipFile."""
    with BufferedReader(inputs.open_file(path)) as file, zipfile.ZipFile(file) as archive:
        yield archive


def names(path: Path) -> list[str]:
    """Of the arrays in a .npz."""
    with _archive(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


class Packed:
    """An array of a .npz, known by its header: `packed[numbers]` decompresses it, `packed[0:1]` its first row alone.

    Errors: DAMAGE, MemoryError, at once or by the time of a read.
    """

    def __init__(self, path: Path, entry: zipfile.ZipInfo):
        self._path, self._entry = path, entry
        self._values: np.ndarray | None = None
        with _archive(path) as archive, archive.open(entry) as file:
            self.dtype, self.shape, self._order, self._start = npy.header(file)
        inputs.check_unpacked(entry.file_size, path.stat().st_size)
        needed = self._start + self.dtype.itemsize * math.prod(self.shape)
        if entry.file_size != needed:
            raise ValueError(f'"{entry.filename}" has {entry.file_size} bytes instead of {needed}')

    def __getitem__(self, indices: slice | np.ndarray) -> np.ndarray:
        if self._values is None and self._order == "C" and self.shape and isinstance(indices, slice):
            if indices == slice(0, 1):
                count = min(1, self.shape[0])
                return self._read(count * math.prod(self.shape[1:])).reshape(count, *self.shape[1:])
        return self._all()[indices] if self.shape else self._all()

    def _all(self) -> np.ndarray:
        if self._values is None:
            self._values = self._read(math.prod(self.shape)).reshape(self.shape, order=self._order)
        return self._values

    def _read(self, count: int) -> np.ndarray:
        """The first ``count`` numbers."""
        values = np.empty(count, self.dtype)
        left = values.data.cast("B") if count else memoryview(b"")
        with _archive(self._path) as archive, archive.open(self._entry) as file:
            file.read(self._start)
            while left:
                chunk = file.read(min(len(left), 1 << 24))
                if not chunk:
                    raise ValueError(f'"{self._entry.filename}" is cut short')
                left[: len(chunk)] = chunk
                left = left[len(chunk) :]
        return values

    def close(self) -> None:
        """Frees the array."""
        self._values = None


def of_npz(path: Path, name: str) -> Packed | None:
    """An array of a .npz, None where it has none of the name. Errors: DAMAGE."""
    with _archive(path) as archive:
        packed = next((entry for entry in archive.infolist() if entry.filename in (name, f"{name}.npy")), None)
    return Packed(path, packed) if packed else None


def read_all(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a .npz by name. Errors: DAMAGE, MemoryError."""
    with _archive(path) as archive:
        entries = archive.infolist()
    inputs.check_unpacked(sum(entry.file_size for entry in entries), path.stat().st_size)
    return {entry.filename.removesuffix(".npy"): Packed(path, entry)[:] for entry in entries}


# The third byte of the file → the type of its numbers.
IDX = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


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
        self._images: Rows | Packed | np.ndarray = _load(images, "data")
        with closed_on_failure(self):
            self._look(labels)

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
        return Where(str(self.path)).error(f"image {number}: {what}")

    def labels(self, most: int) -> np.ndarray:
        return self._labels.astype(np.float64)

    def close(self) -> None:
        if isinstance(self._images, (Rows, Packed)):
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
        if isinstance(labels, (Rows, Packed)):
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
    except DAMAGE as mistake:
        said = inputs.reason(mistake) or type(mistake).__name__
        raise where.error(f"cannot read the arrays: {said}", expected="IDX, .npy or .npz") from None
    except MemoryError:
        raise where.error("not enough memory for the arrays", remedy="save them as .npy in C order") from None


def _load(path: Path, name: str) -> Rows | Packed | np.ndarray:
    """As `_find`. Errors besides: the .npz has no array of the name."""
    array = _find(path, name)
    if array is None:
        raise Where(str(path)).error(f'no array "{name}"', found=", ".join(names(path)) or "none")
    return array


def _find(path: Path, name: str) -> Rows | Packed | np.ndarray | None:
    """The array of a file, of a .npz the one of a name; None where it has none of that name. Errors: the file cannot be
    read; no numbers."""
    where = Where(str(path))
    array: Rows | Packed | np.ndarray | None
    with _damage_reported(path):
        inputs.check(path)
        if path.suffix == ".npz":
            array = of_npz(path, name)
            if array is None:
                return None
        else:
            array = read(path) if path.suffix == ".npy" else _idx(path)
    if array.dtype.kind not in "uifb":
        if isinstance(array, (Rows, Packed)):
            array.close()
        raise where.error("no numbers", found=array.dtype)
    return array


def _idx(path: Path) -> Rows | np.ndarray:
    """The array of an IDX file: two zeros, the type, the number of axes, each axis as 4 bytes, the numbers; highest
    bytes first."""
    head = _head(path, 4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in IDX:
        what = "not an IDX file; packed files must be unpacked" if head[:2] == b"\x1f\x8b" else "not an IDX file"
        raise ValueError(what)
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
