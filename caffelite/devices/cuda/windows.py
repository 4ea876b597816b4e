"""The GPU's operations on sliding windows, over images and over channels."""

import math
from typing import Any

import numpy as np

from .. import ops
from ..window import Window
from .formula_kernels import FormulaKernels
from .registry import implements


class MeanOrMaximum:
    """indices: of int32 in a plane, of uint8 in a window."""

    def __init__(self, device: FormulaKernels, op: ops.Pooling):
        x, y = op.x, op.y
        images = x[:2] if op.channels_last else (x[0] * x[1], 1)
        geometry = *images, *x[2:], *y[2:], *_pairs(op.window)
        self._indexed, each = op.method != "AVE", 4 if images[1] % 4 == 0 else 1
        self._forward = device.kernel("windows", "pool_forward", math.prod(y) // each, *geometry)
        self._backward = device.kernel("windows", "pool_backward", math.prod(x) // each, *geometry)

    def _by_type(self, indices) -> tuple:
        bytes_ = self._indexed and indices.dtype == np.uint8
        return indices if bytes_ else None, indices if self._indexed and not bytes_ else None

    def forward(self, x, y, indices) -> None:
        self._forward(x, y, *self._by_type(indices))

    def backward(self, dy, indices, dx) -> None:
        self._backward(dy, *self._by_type(indices), dx)


class StochasticPooling(MeanOrMaximum):
    def __init__(self, device: FormulaKernels, op: ops.Pooling):
        super().__init__(device, op)
        x, y = op.x, op.y
        self._inputs: Any = op.context.input_buffer if op.context else None
        self._n, geometry = x[0], (x[0] * x[1], *x[2:], *y[2:], *_pairs(op.window))
        word = np.uint32(op.layer_key & 0xFFFFFFFF)
        self._draw = device.kernel("windows", "stochastic_pool_forward", math.prod(y), word, x[1], *geometry)

    def forward(self, x, y, indices) -> None:
        drawn = (indices, *self._inputs.random_key(self._n)) if self._inputs else (None, None, np.uint32(0))
        self._draw(x, y, *drawn)


@implements(ops.Pooling)
def pooling(device: FormulaKernels, op: ops.Pooling) -> MeanOrMaximum:
    return StochasticPooling(device, op) if op.method == "STOCHASTIC" else MeanOrMaximum(device, op)


def _pairs(window: Window) -> tuple[int, ...]:
    return *window.kernel, *window.stride, *window.pad


@implements(ops.LRN)
class LRN:
    """Rows (P = 1) by a kernel that shares what windows share, in 0.4 to 0.7 of the other's time on an H200; its shared
    memory limits the windows."""

    RUN, REACH = 16, 32  # as in windows.cu

    def __init__(self, device: FormulaKernels, op: ops.LRN):
        n, c, p, size, alpha, beta, k = op.n, op.c, op.p, op.size, op.alpha, op.beta, op.k
        rows = p == 1 and size <= 1 + self.REACH
        kind, tail = ("lrn_rows", (n, c)) if rows else ("lrn", (n, c, p))
        threads = math.ceil(n * c / 4) if rows else n * math.ceil(c / self.RUN) * p
        share, factor = float(alpha / size), float(2 * alpha * beta / size)
        self._forward = device.kernel("windows", f"{kind}_forward", threads, size, share, float(k), float(beta), *tail)
        self._backward = device.kernel("windows", f"{kind}_backward", threads, size, factor, float(beta), *tail)

    def forward(self, x, scale, y) -> None:
        self._forward(x, scale, y)

    def backward(self, x, y, scale, dy, dx) -> None:
        self._backward(x, y, scale, dy, dx)


@implements(ops.Im2col)
class Im2col:
    def __init__(self, device: FormulaKernels, op: ops.Im2col):
        x, window = op.x, op.window
        planes, y = x[0] * x[1], window.outputs(x[2:])
        tail = planes, *x[2:], *y, *_pairs(window), *window.dilation
        self._forward = device.kernel("windows", "im2col", planes * math.prod((*window.kernel, *y)), *tail)
        self._backward = device.kernel("windows", "col2im", math.prod(x), *tail)

    def forward(self, x, columns) -> None:
        self._forward(x, columns)

    def backward(self, dcolumns, dx) -> None:
        self._backward(dcolumns, dx)
