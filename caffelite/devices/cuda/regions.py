"""The GPU's pooling over boxes of feature maps."""

from __future__ import annotations

import math

from ..protocol import Shape
from .formula_kernels import FormulaKernels
from .operations import Labels

METHODS = "MAX", "POSITION", "ALIGN"


class RegionPooling(Labels):
    """y (R, C', PH, PW) of the boxes rois (R, 5) of x (N, C, H, W); see ``interfaces.RegionPooling``."""

    def __init__(self, device: FormulaKernels, method: str, x: Shape, y: Shape, scale: float, pad: float = 0):
        super().__init__(device)
        fixed = METHODS.index(method), *x, *y, float(scale), float(pad)
        self._forward = device.kernel("regions", "region_pool_forward", math.prod(y), *fixed)
        self._backward = device.kernel("regions", "region_pool_backward", math.prod(x), *fixed)

    def forward(self, x, rois, y, index) -> None:
        self._forward(x, rois, y, index, self._first, self._come, self.bad)

    def backward(self, dy, rois, index, dx) -> None:
        self._backward(dy, rois, index, dx)
