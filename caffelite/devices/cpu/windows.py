"""The CPU's operations on sliding windows, over images and over channels."""

from __future__ import annotations

import math

import numpy as np

from ..context import ExecutionContext
from ..window import Window
from .kernels import channels_last, lrn, pooling, unfolding
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


class LRN:
    """y = x · scale^-beta, scale = k + alpha / size · Σ x² over ``size`` channels around each of x (N, C, P)
    (Krizhevsky et al. 2012)."""

    def __init__(self, device: Memory, n: int, c: int, p: int, size: int, alpha: float, beta: float, k: float):
        real = device.dtype.type
        self._device, self._shape, self._size, self._beta = device, (n, c, p), size, real(beta)
        self._share, self._k, self._factor = real(alpha / size), real(k), real(2 * alpha * beta / size)

    def forward(self, x, scale, y) -> None:
        """scale: like x, kept for backward; y may be x."""
        x, scale, y = (a.reshape(self._shape) for a in (x, scale, y))
        lrn.lrn_forward(x, scale, y, self._size, self._share, self._k, self._beta)

    def backward(self, x, y, scale, dy, dx) -> None:
        """dx must not alias another array."""
        arrays = (a.reshape(self._shape) for a in (x, y, scale, dy, dx))
        lrn.lrn_backward(*arrays, self._size, self._factor, self._beta)


class ChannelsLastLRN(LRN):
    """LRN of x (N, C): each position's channels in one run of memory."""

    def _space(self) -> np.ndarray:
        threads, width = self._device.threads, self._shape[1] + self._size
        return self._device.workspace(threads * 2 * width).reshape(threads, 2, width)

    def forward(self, x, scale, y) -> None:
        """scale: like x, kept for backward; y may be x."""
        x, scale, y = (a.reshape(self._shape[:2]) for a in (x, scale, y))
        channels_last.lrn_forward(x, scale, y, self._size, self._share, self._k, self._beta, self._space())

    def backward(self, x, y, scale, dy, dx) -> None:
        """dx must not alias another array."""
        arrays = (a.reshape(self._shape[:2]) for a in (x, y, scale, dy, dx))
        channels_last.lrn_backward(*arrays, self._size, self._factor, self._beta, self._space())


class Im2col:
    """x (N, C, H, W) → columns (N, C·kh·kw, OH, OW): the inputs of each window, 0 outside the image."""

    def __init__(self, x: tuple[int, ...], y: tuple[int, ...], window: Window):
        planes = math.prod(x[:2])
        self._x, self._columns, self._window = (planes, *x[2:]), (planes, *window.kernel, *y), window

    def forward(self, x, columns) -> None:
        unfolding.im2col(x.reshape(self._x), columns.reshape(self._columns), *self._window)

    def backward(self, dcolumns, dx) -> None:
        unfolding.col2im(dcolumns.reshape(self._columns), dx.reshape(self._x), *self._window)
