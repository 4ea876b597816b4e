"""The header of NumPy's .npy files, read as data: no pickle, and no code."""

import ast
from io import FileIO
from typing import IO, Literal

import numpy as np

MOST_HEADER = 1 << 16  # bytes
MOST_AXES = 32


def header(file: IO[bytes] | FileIO) -> tuple[np.dtype, tuple[int, ...], Literal["C", "F"], int]:
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
        content = ast.literal_eval(text.decode("latin1").strip())
        descr, shape, fortran = content["descr"], content["shape"], content["fortran_order"]
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
