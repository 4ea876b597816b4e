"""The GPU's operations on sliding windows, over images and over channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..context import ExecutionContext
from ..window import Window
from .formula_kernels import FormulaKernels


class Pooling:
    """x (N, C, H, W) → y (N, C, OH, OW); index (int32, like y): each winner's place in its plane.

    method: "MAX", "AVE" (index unused), or "STOCHASTIC": with ``stream`` (which layer) a winner with probability x /
    Σx, drawn as Dropout draws; without it what to expect, Σx² / Σx, which has no backward and no index (Zeiler and
    Fergus 2013).
    """

    def __init__(
        self,
        device: FormulaKernels,
        method: str,
        x: tuple[int, ...],
        y: tuple[int, ...],
        window: Window,
        stream: int | None = None,
        context: ExecutionContext | None = None,
    ):
        drawn = context is not None and method == "STOCHASTIC"
        self._inputs: Any = context.input_buffer if context else None
        self._n, self._indexed = x[0], method != "AVE"
        geometry = (
            x[0] * x[1],
            *x[2:],
            *y[2:],
            *(v for pair in (window.kernel, window.stride, window.pad) for v in pair),
        )
        size = max(math.prod(x), math.prod(y))
        kinds = {"MAX": "max", "AVE": "average", "STOCHASTIC": "stochastic" if drawn else "expected"}
        self._drawn, self._named = drawn, drawn or method == "MAX"  # whether forward stores the selected positions
        extra = (np.uint32((stream or 0) & 0xFFFFFFFF), x[1]) if drawn else ()
        self._forward = device.kernel(
            "windows", f"{kinds[method]}_pool_forward", math.prod(y), *extra, *geometry, size=size
        )
        back = "max_pool_backward" if self._indexed else "average_pool_backward"
        self._backward = device.kernel("windows", back, math.prod(x), *geometry, size=size)

    def forward(self, x, y, index) -> None:
        key = self._inputs.random_key(self._n) if self._drawn else ()
        self._forward(*((x, y, index, *key) if self._named else (x, y)))

    def backward(self, dy, index, dx) -> None:
        self._backward(*((dy, index, dx) if self._indexed else (dy, dx)))


class ChannelsLastPooling:
    """MAX or AVE over x (N, H, W, C) → y (N, OH, OW, C); index (uint8 or int32, like y): each winner's place in its
    window.

    x, y: the shapes as N×C×H×W.
    """

    def __init__(self, device: FormulaKernels, method: str, x: tuple[int, ...], y: tuple[int, ...], window: Window):
        self._indexed, size = method == "MAX", max(math.prod(x), math.prod(y))
        geometry = *x, *y[2:], *(v for pair in (window.kernel, window.stride, window.pad) for v in pair)
        kind, each = "max" if self._indexed else "average", 4 if x[1] % 4 == 0 else 1
        self._forward = device.kernel(
            "windows", f"{kind}_pool_last_forward", math.prod(y) // each, *geometry, size=size
        )
        self._backward = device.kernel(
            "windows", f"{kind}_pool_last_backward", math.prod(x) // each, *geometry, size=size
        )

    def _places(self, index) -> tuple:
        return () if not self._indexed else (index, None) if index.dtype == np.uint8 else (None, index)

    def forward(self, x, y, index) -> None:
        self._forward(x, y, *self._places(index))

    def backward(self, dy, index, dx) -> None:
        self._backward(dy, *self._places(index), dx)


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

    def __init__(self, device: FormulaKernels, x: tuple[int, ...], window: Window):
        planes, pixels, y = x[0] * x[1], math.prod(x), window.outputs(x[2:])
        tail = planes, *x[2:], *y, *(v for pair in window for v in pair)
        threads = planes * math.prod(window.kernel) * math.prod(y)
        self._forward = device.kernel("windows", "im2col", threads, *tail, size=pixels)
        self._backward = device.kernel("windows", "col2im", pixels, *tail, size=threads)

    def forward(self, x, columns) -> None:
        self._forward(x, columns)

    def backward(self, dcolumns, dx) -> None:
        self._backward(dcolumns, dx)
