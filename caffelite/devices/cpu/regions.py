"""The CPU's pooling over boxes of feature maps."""

import numpy as np

from .. import detection_ops
from .kernels import regions
from .memory import Memory
from .registry import implements


@implements(detection_ops.RegionPooling)
class RegionPooling:
    def __init__(self, device: Memory, op: detection_ops.RegionPooling):
        self.method, self._x, self._y = op.method, op.x, op.y
        self._scale, self._pad = device.dtype.type(op.scale), device.dtype.type(op.pad)
        self.bad = np.zeros(1, np.int64)

    def forward(self, x, rois, y, indices) -> None:
        x, rois, y = x.reshape(self._x), rois.reshape(-1, 5), y.reshape(self._y)
        regions.report(rois, len(x), self.bad)
        if self.method == "MAX":
            regions.max_forward(x, rois, y, indices.reshape(self._y), self._scale, self._pad)
        elif self.method == "POSITION":
            regions.position_forward(x, rois, y, self._scale)
        else:
            regions.align_forward(x, rois, y, self._scale, self._pad)

    def backward(self, dy, rois, indices, dx) -> None:
        dy, rois, dx = dy.reshape(self._y), rois.reshape(-1, 5), dx.reshape(self._x)
        if self.method == "MAX":
            regions.max_backward(dy, rois, indices.reshape(self._y), dx)
        elif self.method == "POSITION":
            regions.position_backward(dy, rois, dx, self._scale)
        else:
            regions.align_backward(dy, rois, dx, self._scale, self._pad)
