"""Reads rows of an array in a file on request, without a memory map: a mapped file that shrinks would kill the
process."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Literal

import numpy as np

from .. import inputs


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
    flat = Rows(path, dtype, start, (math.prod(shape),))
    try:
        return flat[:].reshape(shape, order=order)
    finally:
        flat.close()
