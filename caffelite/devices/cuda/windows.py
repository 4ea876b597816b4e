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
        self._indexed, size = method == "MAX", max(math.prod(x), math.prod(y))
        images = x[:2] if last else (x[0] * x[1], 1)
        geometry = *images, *x[2:], *y[2:], *_pairs(window)
        each = 4 if images[1] % 4 == 0 else 1
        self._forward, self._backward = (
            device.kernel("windows", f"pool_{way}", math.prod(shape) // each, *geometry, size=size)
            for way, shape in (("forward", y), ("backward", x))
        )

    def _places(self, index) -> tuple:
        bytes_ = self._indexed and index.dtype == np.uint8
        return index if bytes_ else None, index if self._indexed and not bytes_ else None

    def forward(self, x, y, index) -> None:
        self._forward(x, y, *self._places(index))

    def backward(self, dy, index, dx) -> None:
        self._backward(dy, *self._places(index), dx)


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
        drawn, size = (np.uint32((stream or 0) & 0xFFFFFFFF), x[1]), max(math.prod(x), math.prod(y))
        self._draw = device.kernel("windows", "stochastic_pool_forward", math.prod(y), *drawn, *geometry, size=size)

    def forward(self, x, y, index) -> None:
        drawn = (index, *self._inputs.random_key(self._n)) if self._inputs else (None, None, np.uint32(0))
        self._draw(x, y, *drawn)


def _pairs(window: Window) -> tuple[int, ...]:
    return tuple(v for pair in (window.kernel, window.stride, window.pad) for v in pair)


class LRN:
    """See interfaces.LRN. scale is never 16-bit; y must not alias x."""

    RUN = 16  # channels per thread where neighbouring ones are far apart in memory

    def __init__(self, device: FormulaKernels, n: int, c: int, p: int, size: int, alpha: float, beta: float, k: float):
        count, beta, run = n * c * p, float(beta), 1 if p == 1 else self.RUN
        threads, shape = n * math.ceil(c / run) * p, (run, n, c, p)
        self._forward = device.kernel(
            "windows", "lrn_forward", threads, size, float(alpha / size), float(k), beta, *shape, size=count
        )
        self._backward = device.kernel(
            "windows", "lrn_backward", threads, size, float(2 * alpha * beta / size), beta, *shape, size=count
        )

    def forward(self, x, scale, y) -> None:
        self._forward(x, scale, y)

    def backward(self, x, y, scale, dy, dx) -> None:
        self._backward(x, y, scale, dy, dx)


class Im2col:
    """See interfaces.Im2col."""

    def __init__(self, device: FormulaKernels, x: Shape, window: Window):
        planes, pixels, y = x[0] * x[1], math.prod(x), window.outputs(x[2:])
        tail = planes, *x[2:], *y, *(v for pair in window for v in pair)
        threads = planes * math.prod(window.kernel) * math.prod(y)
        self._forward = device.kernel("windows", "im2col", threads, *tail, size=pixels)
        self._backward = device.kernel("windows", "col2im", pixels, *tail, size=threads)

    def forward(self, x, columns) -> None:
        self._forward(x, columns)

    def backward(self, dcolumns, dx) -> None:
        self._backward(dcolumns, dx)
