"""The GPU's pooling over boxes of feature maps."""

from __future__ import annotations

import math

from .formula_kernels import FormulaKernels
from .operations import Labels


class RegionPooling(Labels):
    """y (R, C', PH, PW) of the boxes rois (R, 5) of x (N, C, H, W); see ``interfaces.RegionPooling``."""

    def __init__(
        self,
        device: FormulaKernels,
        method: str,
        x: tuple[int, ...],
        y: tuple[int, ...],
        scale: float,
        pad: float = 0,
    ):
        super().__init__(device, None)
        name, size = method.lower(), max(math.prod(x), math.prod(y), 5 * y[0])
        fixed = (*x, *y, float(scale), *((float(pad),) if method == "ALIGN" else ()))
        self.method = method
        self._report = device.kernel("regions", "report", y[0], x[0], y[0], size=size)
        self._note = device.kernel("selection", "note", 1)
        self._forward = device.kernel("regions", f"{name}_forward", math.prod(y), *fixed, size=size)
        self._backward = device.kernel("regions", f"{name}_backward", math.prod(x), *fixed, size=size)

    def forward(self, x, rois, y, index) -> None:
        self._report(rois, self._first)
        self._note(self._first, self.bad)
        self._forward(x, rois, y, *((index,) if self.method == "MAX" else ()))

    def backward(self, dy, rois, index, dx) -> None:
        self._backward(dy, rois, *((index,) if self.method == "MAX" else ()), dx)
