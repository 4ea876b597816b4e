"""The CPU's pooling over boxes of feature maps."""

from __future__ import annotations

import numpy as np

from .kernels import regions


class RegionPooling:
    """y (R, C', PH, PW) of the boxes rois (R, 5) of x (N, C, H, W); see ``interfaces.RegionPooling``."""

    def __init__(
        self,
        dtype: np.dtype,
        method: str,
        x: tuple[int, ...],
        y: tuple[int, ...],
        scale: float,
        pad: float = 0,
    ):
        self.method, self._x, self._y = method, x, y
        self._scale, self._pad = dtype.type(scale), dtype.type(pad)
        self.bad = np.zeros(1, np.int64)

    def forward(self, x, rois, y, index) -> None:
        x, rois, y = x.reshape(self._x), rois.reshape(-1, 5), y.reshape(self._y)
        regions.report(rois, len(x), self.bad)
        if self.method == "MAX":
            regions.max_forward(x, rois, y, index.reshape(self._y), self._scale)
        elif self.method == "POSITION":
            regions.position_forward(x, rois, y, self._scale)
        else:
            regions.align_forward(x, rois, y, self._scale, self._pad)

    def backward(self, dy, rois, index, dx) -> None:
        dy, rois, dx = dy.reshape(self._y), rois.reshape(-1, 5), dx.reshape(self._x)
        if self.method == "MAX":
            regions.max_backward(dy, rois, index.reshape(self._y), dx)
        elif self.method == "POSITION":
            regions.position_backward(dy, rois, dx, self._scale)
        else:
            regions.align_backward(dy, rois, dx, self._scale, self._pad)
