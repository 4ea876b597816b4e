"""The CPU's memory: NumPy arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .awake import AwakeCores
from .kernels import channels_last

LINE = 64  # bytes of a cache line
Make = Callable[[int, DTypeLike], np.ndarray]


def _aligned(make: Make, shape: tuple[int, ...] | int, dtype: DTypeLike) -> np.ndarray:
    """An array that starts on a cache line, so that no vector lies in two of them."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = make(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype).reshape(shape)


class Memory:
    """Allocates arrays and copies them. dtype: of arrays where no other is given."""

    dtype: np.dtype[Any]
    threads: int  # of kernels
    active_threads: int  # that operations use at present
    cores: AwakeCores
    _workspace: np.ndarray

    def empty(self, shape: tuple[int, ...] | int, dtype: DTypeLike | None = None) -> np.ndarray:
        return _aligned(np.empty, shape, dtype or self.dtype)

    def zeros(self, shape: tuple[int, ...] | int, dtype: DTypeLike | None = None) -> np.ndarray:
        return _aligned(np.zeros, shape, dtype or self.dtype)

    def view(self, raw: np.ndarray, offset: int, shape: tuple[int, ...], dtype: DTypeLike | None = None) -> np.ndarray:
        """An array over bytes of ``raw`` from ``offset``."""
        dtype = np.dtype(dtype or self.dtype)
        count = int(np.prod(shape, dtype=np.int64))
        return raw[offset : offset + count * dtype.itemsize].view(dtype).reshape(shape)

    def upload(self, array: np.ndarray, host: np.ndarray) -> None:
        array[...] = host

    def download(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        np.copyto(target, source)

    def assign(self, source: np.ndarray, target: np.ndarray) -> None:
        """target = source; both may be views that do not overlap; source is broadcast."""
        np.copyto(target, source)

    def transpose(self, source: np.ndarray, target: np.ndarray) -> None:
        """target (N, B, A) = source (N, A, B) with its last axes swapped."""
        channels_last.transpose(source, target)

    def copy_into(self, source: np.ndarray, target: np.ndarray, start: int) -> None:
        """target[:, start : start + S] = source, of target (R, T) and source (R, S)."""
        channels_last.copy_into(source, target, start)

    def fill(self, array: np.ndarray, value: float) -> None:
        array.fill(value)

    @staticmethod
    def to_float32(array: np.ndarray) -> np.ndarray:
        """A float32 copy of a bfloat16 array."""
        return (array.astype(np.uint32) << 16).view(np.float32)

    def workspace(self, count: int, dtype: DTypeLike | None = None) -> np.ndarray:
        """Scratch memory that all operations share, valid until the operation returns."""
        dtype = np.dtype(dtype or self.dtype)
        return self.space(count * dtype.itemsize)[: count * dtype.itemsize].view(dtype)

    def space(self, size: int) -> np.ndarray:
        """The workspace as bytes, at least ``size`` of them."""
        if self._workspace.nbytes < size:
            self._workspace = self.empty(size, np.uint8)
        return self._workspace
