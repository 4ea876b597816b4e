"""A GPU's memory: arrays of its backend, and a workspace for each of its streams."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..dtypes import BFLOAT16
from ..traits import LITTLE_WORK
from ..types import Array, Shape
from .interface import Backend, Convolutions
from .streams import Fork

FORKS = 2  # additional streams for small layers: gradients of weights, of bias, of the bottom


class Memory:
    """Allocates arrays and copies them. dtype: of arrays where no other is given. half_dtype: of 16-bit numbers."""

    backend: Backend
    dtype: np.dtype[Any]
    half_dtype: np.dtype[Any]
    eager: str  # the option or variable that disables graph capture; empty: none
    generation = 0  # counts the moves of memory that grows: captured graphs of an older generation are void
    capturing = False
    engine: Convolutions
    graphs: weakref.WeakSet[Any]  # all captured ones
    _workspace: Array
    _forks: list[tuple[Fork, Array]]  # each with its workspace

    def empty(self, shape: Shape | int, dtype: DTypeLike | None = None) -> Array:
        return self.backend.empty(shape, np.dtype(dtype or self.dtype))

    def zeros(self, shape: Shape | int, dtype: DTypeLike | None = None) -> Array:
        array = self.empty(shape, dtype)
        self.backend.fill(array, 0)
        return array

    def view(self, raw: Array, offset: int, shape: Shape, dtype: DTypeLike | None = None) -> Array:
        """An array over bytes of ``raw`` from ``offset``, which must satisfy the dtype's alignment. BFLOAT16 means
        ``half_dtype``."""
        dtype = np.dtype(dtype or self.dtype)
        return self.backend.view(raw, offset, shape, self.half_dtype if dtype == BFLOAT16 else dtype)

    def upload(self, array: Array, host: np.ndarray) -> None:
        host = np.ascontiguousarray(np.broadcast_to(host, array.shape), array.dtype)
        self.backend.upload(array, host)

    def uploaded(self, values: np.ndarray) -> Array:
        """An array with these values."""
        array = self.empty(values.shape, values.dtype)
        self.upload(array, values)
        return array

    def download(self, array: Array) -> np.ndarray:
        """A copy on the host, when all queued operations have finished."""
        return self.backend.download(array)

    def copy(self, source: Array, target: Array) -> None:
        assert source.size == target.size and source.dtype == target.dtype, (source.shape, target.shape)
        self.backend.copy(source, target)

    def fill(self, array: Array, value: float) -> None:
        self.backend.fill(array, value)

    def assign(self, source: Array, target: Array) -> None:
        """target = source; both may be views that do not overlap; source is broadcast."""
        self.backend.assign(source, target)

    def workspace(self, count: int, dtype: DTypeLike | None = None) -> Array:
        """Scratch memory that all operations share, valid until the operation returns."""
        dtype = np.dtype(dtype or self.dtype)
        if self._workspace.nbytes < count * dtype.itemsize:
            self._workspace = self.empty(count * dtype.itemsize, np.uint8)
            self.generation += 1
        return self.view(self._workspace, 0, (count,), dtype)

    def synchronize(self) -> None:
        """Returns when all operations have finished."""
        self.backend.synchronize()

    def run_concurrently(self, work: int, *functions: Callable[[], None]) -> None:
        """Queues operations that do not depend on each other. work: multiply-adds of each; those that are too small to
        fill the GPU run concurrently, on separate streams."""
        aside = functions[:-1][:FORKS] if work <= 2 * LITTLE_WORK else ()
        for i, function in enumerate(aside):
            fork, space = self._forks[i]
            main, self._workspace = self._workspace, space
            try:
                with fork:
                    function()
            finally:
                self._forks[i], self._workspace = (fork, self._workspace), main
        for function in functions[len(aside) :]:
            function()
        for fork, _ in self._forks[: len(aside)]:
            fork.join()


def pitch(array: Array) -> int:
    """The distance of the pixels of an array (N, H, W, C), in numbers, where it is a slice of wider rows; else 0."""
    if array.flags.c_contiguous:
        return 0
    return next(array.strides[axis] for axis in (2, 1, 0) if array.shape[axis] > 1) // array.dtype.itemsize
