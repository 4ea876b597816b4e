"""Pooling of images on the CPU."""

from __future__ import annotations

import numpy as np

from ..context import ExecutionContext
from ..window import Window
from .kernels import pooling
from .memory import Memory


class Pooling:
    """x (N, C, H, W) → y (N, C, OH, OW); index (int32, like y): each winner's place in its plane.

    method: "MAX", "AVE" (index unused), or "STOCHASTIC": with ``stream`` (which layer) a winner with probability x /
    Σx, drawn as Dropout draws; without it what to expect, Σx² / Σx, which has no backward and no index (Zeiler and
    Fergus 2013).
    """

    def __init__(
        self,
        device: Memory,
        method: str,
        x: tuple[int, ...],
        y: tuple[int, ...],
        window: Window,
        stream: int | None = None,
        context: ExecutionContext | None = None,
    ):
        self._method, self._stream, self._sizes = method, stream or 0, x[:2]
        self._inputs = context.input_buffer if context else None
        planes = x[0] * x[1]
        self._x, self._y = (planes, *x[2:]), (planes, *y[2:])
        self._window = window.kernel, window.stride, window.pad

    def forward(self, x, y, index) -> None:
        x, y = x.reshape(self._x), y.reshape(self._y)
        if self._method == "MAX":
            pooling.max_pool_forward(x, y, index.reshape(self._y), *self._window)
        elif self._method == "AVE":
            pooling.average_pool_forward(x, y, *self._window)
        elif self._inputs is None:
            pooling.expected_pool_forward(x, y, *self._window, x.dtype.type(np.finfo(np.float32).tiny))
        else:
            low, high, iteration, sample = self._inputs.random_key(self._sizes[0])
            args = np.uint64(low), np.uint64(high), self._stream & 0xFFFFFFFF, iteration, sample
            pooling.stochastic_pool_forward(x, y, index.reshape(self._y), self._sizes[1], *self._window, *args)

    def backward(self, dy, index, dx) -> None:
        dy, dx = dy.reshape(self._y), dx.reshape(self._x)
        if self._method == "AVE":
            pooling.average_pool_backward(dy, dx, *self._window)
        else:
            pooling.max_pool_backward(dy, index.reshape(self._y), dx)
