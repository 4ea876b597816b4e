"""The GPU's operations on sliding windows, over images and over channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..context import ExecutionContext
from ..protocol import Shape
from ..window import Window
from .formula_kernels import FormulaKernels


class MeanOrMaximum:
    """MAX or AVE over x (N, C, H, W) → y (N, C, OH, OW), or both channels_last.

    x, y: the shapes as N×C×H×W. index (like y, unused for AVE): each winner's place, of int32 in its plane, of uint8 in
    its window.
    """

    def __init__(self, device: FormulaKernels, method: str, x: Shape, y: Shape, window: Window, last: bool = True):
        images = x[:2] if last else (x[0] * x[1], 1)
        geometry = *images, *x[2:], *y[2:], *_pairs(window)
        self._indexed, each = method == "MAX", 4 if images[1] % 4 == 0 else 1
        self._forward = device.kernel("windows", "pool_forward", math.prod(y) // each, *geometry)
        self._backward = device.kernel("windows", "pool_backward", math.prod(x) // each, *geometry)

    def _by_type(self, index) -> tuple:
        bytes_ = self._indexed and index.dtype == np.uint8
        return index if bytes_ else None, index if self._indexed and not bytes_ else None

    def forward(self, x, y, index) -> None:
        self._forward(x, y, *self._by_type(index))

    def backward(self, dy, index, dx) -> None:
        self._backward(dy, *self._by_type(index), dx)


class StochasticPooling(MeanOrMaximum):
    """x (N, C, H, W) → y (N, C, OH, OW). With ``stream`` (which layer) a winner with probability x / Σx, drawn as
    Dropout draws; without it what to expect, Σx² / Σx, which has no backward and no index (Zeiler and Fergus 2013)."""

    def __init__(
        self,
        device: FormulaKernels,
        x: Shape,
        y: Shape,
        window: Window,
        stream: int | None = None,
        context: ExecutionContext | None = None,
    ):
        super().__init__(device, "MAX", x, y, window, last=False)
        self._inputs: Any = context.input_buffer if context else None
        self._n, geometry = x[0], (x[0] * x[1], *x[2:], *y[2:], *_pairs(window))
        word = np.uint32((stream or 0) & 0xFFFFFFFF)
        self._draw = device.kernel("windows", "stochastic_pool_forward", math.prod(y), word, x[1], *geometry)

    def forward(self, x, y, index) -> None:
        drawn = (index, *self._inputs.random_key(self._n)) if self._inputs else (None, None, np.uint32(0))
        self._draw(x, y, *drawn)


def _pairs(window: Window) -> tuple[int, ...]:
    return *window.kernel, *window.stride, *window.pad


class LRN:
    """See interfaces.LRN. scale is never 16-bit; y must not alias x."""

    RUN = 16  # channels per thread where neighbouring ones are far apart in memory
    REACH = 32  # of windows over the channels of a row, as in windows.cu

    def __init__(self, device: FormulaKernels, n: int, c: int, p: int, size: int, alpha: float, beta: float, k: float):
        rows, run = p == 1 and size <= 1 + self.REACH, 1 if p == 1 else self.RUN
        kind, tail = ("lrn_rows", (n, c)) if rows else ("lrn", (run, n, c, p))
        threads = math.ceil(n * c / 4) if rows else n * math.ceil(c / run) * p
        share, factor = float(alpha / size), float(2 * alpha * beta / size)
        self._forward = device.kernel("windows", f"{kind}_forward", threads, size, share, float(k), float(beta), *tail)
        self._backward = device.kernel("windows", f"{kind}_backward", threads, size, factor, float(beta), *tail)

    def forward(self, x, scale, y) -> None:
        self._forward(x, scale, y)

    def backward(self, x, y, scale, dy, dx) -> None:
        self._backward(x, y, scale, dy, dx)


class Im2col:
    """See interfaces.Im2col."""

    def __init__(self, device: FormulaKernels, x: Shape, window: Window):
        planes, y = x[0] * x[1], window.outputs(x[2:])
        tail = planes, *x[2:], *y, *_pairs(window), *window.dilation
        self._forward = device.kernel("windows", "im2col", planes * math.prod((*window.kernel, *y)), *tail)
        self._backward = device.kernel("windows", "col2im", math.prod(x), *tail)

    def forward(self, x, columns) -> None:
        self._forward(x, columns)

    def backward(self, dcolumns, dx) -> None:
        self._backward(dcolumns, dx)
