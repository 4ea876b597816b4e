"""Reads NumPy's files, .npy and .npz, with numbers only: no pickle, and no array that is larger than its file."""

from __future__ import annotations

import ast
import math
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

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


def of_npz(path: Path, name: str) -> np.ndarray | None:
    """An array of a .npz, None where it has none of the name. Errors: DAMAGE."""
    with zipfile.ZipFile(path) as archive:
        found = next((entry for entry in archive.infolist() if entry.filename in (name, f"{name}.npy")), None)
        if found is None:
            return None
        with archive.open(found) as file:
            dtype, shape, order, start = _header(file)
            if found.file_size != start + dtype.itemsize * math.prod(shape):
                raise ValueError(
                    f'"{name}" has {found.file_size} bytes instead of {start + dtype.itemsize * math.prod(shape)}'
                )
            values = np.empty(math.prod(shape), dtype)
            left = memoryview(values).cast("B") if values.size else memoryview(b"")
            while left:
                part = file.read(min(len(left), 1 << 24))
                if not part:
                    raise ValueError(f'"{name}" is cut short')
                left[: len(part)] = part
                left = left[len(part) :]
    return values.reshape(shape, order=order)


def _header(file: BinaryIO) -> tuple[np.dtype, tuple[int, ...], str, int]:
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
    whole = isinstance(shape, tuple) and all(type(side) is int and 0 <= side < 1 << 62 for side in shape)
    if not whole or len(shape) > MOST_AXES or not isinstance(fortran, bool):
        raise ValueError(f"the shape {str(shape)[:60]}")
    try:
        dtype = np.dtype(descr if isinstance(descr, str) else "V")
    except (TypeError, ValueError, SyntaxError):
        raise ValueError(f"the type {str(descr)[:60]}") from None
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError("objects, not numbers")
    return dtype, shape, "F" if fortran else "C", 8 + wide + size
