"""The GPU's correlation of two images."""

import math

import numpy as np

from .. import ops
from .formula_kernels import FormulaKernels
from .registry import implements


@implements(ops.Correlation)
class Correlation:
    """Sums are of the net's dtype."""

    def __init__(self, device: FormulaKernels, op: ops.Correlation):
        (images, channels, *size), (_, shifts, *tops) = op.x, op.y
        geometry = op.subtract, op.kernel, *op.first, op.stride, channels, *size, images, shifts, *tops
        self._shifts = device.uploaded(np.array(op.shifts, np.int32).reshape(-1))
        self._forward = device.kernel("correlation", "correlation_forward", math.prod(op.y), *geometry)
        self._first, self._second = (
            device.kernel("correlation", "correlation_backward", math.prod(op.x), second, *geometry)
            for second in (False, True)
        )

    def forward(self, a, b, y) -> None:
        self._forward(a, b, self._shifts, y)

    def backward(self, a, b, dy, da, db) -> None:
        if da is not None:
            self._first(a, b, self._shifts, dy, da)
        if db is not None:
            self._second(b, a, self._shifts, dy, db)
