"""The CPU's conversion of pixels to a net's input."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .. import ops
from .kernels import pixels as kernels
from .memory import Memory
from .registry import implements

SMALL = 1 << 17  # numbers: one thread computes fewer sooner than several threads start


@implements(ops.Preprocess)
class Preprocess:
    deep = False

    def __init__(self, device: Memory, op: ops.Preprocess):
        self._out, self._scale = op.out, np.float32(op.scale)
        mean = np.zeros((op.out[1], 1, 1)) if op.mean is None else op.mean
        self._mean = np.ascontiguousarray(mean, np.float32)
        self._kernel = kernels.preprocess_parallel if math.prod(op.out) > SMALL else kernels.preprocess
        self._pixels = self._picks = np.empty(0)

    def host_buffer(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        return np.empty(shape, dtype)

    def wait(self) -> None:
        """Returns at once: the last ``forward`` has finished."""

    def set_batch(self, which: int, pixels: np.ndarray, picks: np.ndarray, resident: bool = False) -> None:
        self._pixels, self._picks = pixels, picks

    def signature(self) -> tuple[Any, ...]:
        return ()

    def forward(self, out: np.ndarray, fields: Sequence[Any] = (), tops: Sequence[np.ndarray] = ()) -> None:
        for field, top in zip(fields, tops, strict=True):
            field.copy_to(top)
        cut = self._pixels.shape[2:] != self._out[2:]
        self._kernel(self._pixels, self._picks, cut, self._mean, self._scale, out.reshape(self._out))
