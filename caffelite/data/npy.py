"""Reads NumPy's files, .npy and .npz, with numbers only: no pickle, and no array that is larger than its file."""

from __future__ import annotations

import ast
import math
import zipfile
import zlib
from io import FileIO
from pathlib import Path
from typing import IO, Literal

import numpy as np

from .. import inputs
from .rows import Rows, opened

MOST_HEADER = 1 << 16  # bytes
MOST_AXES = 32
# What damaged files raise; RuntimeError: a member with a password, NotImplementedError: packed by a method that Python
# lacks
DAMAGE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, OverflowError)


def read(path: Path) -> Rows | np.ndarray:
    """The array of a .npy; its rows are read on request. Errors: DAMAGE, MemoryError."""
    with inputs.open_file(path) as file:
        dtype, shape, order, start = _header(file)
    return opened(path, dtype, start, shape, order)


def names(path: Path) -> list[str]:
    """Of the arrays in a .npz."""
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


class Packed:
    """An array of a .npz, known by its header: `packed[numbers]` decompresses it, `packed[0:1]` its first row alone.

    Errors: DAMAGE, MemoryError, at once or by the time of a read.
    """

    def __init__(self, path: Path, entry: zipfile.ZipInfo):
        self._path, self._entry = path, entry
        self._values: np.ndarray | None = None
        with zipfile.ZipFile(path) as archive, archive.open(entry) as file:
            self.dtype, self.shape, self._order, self._start = _header(file)
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
        with zipfile.ZipFile(self._path) as archive, archive.open(self._entry) as file:
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
    with zipfile.ZipFile(path) as archive:
        packed = next((entry for entry in archive.infolist() if entry.filename in (name, f"{name}.npy")), None)
    return Packed(path, packed) if packed else None


def _header(file: IO[bytes] | FileIO) -> tuple[np.dtype, tuple[int, ...], Literal["C", "F"], int]:
    """Type, shape, order and where the numbers start. Errors: ValueError."""
    magic = file.read(8)
    if magic[:6] != b"\x93NUMPY" or len(magic) < 8:
        raise ValueError("not a .npy array")
    wide = 2 if magic[6] == 1 else 4
    size = int.from_bytes(file.read(wide), "little")
    if size > MOST_HEADER:
        raise ValueError(f"a header of {size} bytes")
    text = file.read(size)
    try:
        header = ast.literal_eval(text.decode("latin1").strip())
        descr, shape, fortran = header["descr"], header["shape"], header["fortran_order"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        raise ValueError("a header that is not understood") from None
    valid = isinstance(shape, tuple) and all(type(side) is int and 0 <= side < 1 << 62 for side in shape)
    if not valid or len(shape) > MOST_AXES or not isinstance(fortran, bool):
        raise ValueError(f"the shape {str(shape)[:60]}")
    try:
        dtype = np.dtype(descr if isinstance(descr, str) else "V")
    except (TypeError, ValueError, SyntaxError):
        raise ValueError(f"the type {str(descr)[:60]}") from None
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError("objects, not numbers")
    return dtype, shape, "F" if fortran else "C", 8 + wide + size
