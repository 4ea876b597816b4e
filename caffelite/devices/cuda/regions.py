"""The GPU's pooling over boxes of feature maps."""

import math

from .. import detection_ops
from .formula_kernels import FormulaKernels
from .operations import Labels
from .registry import implements

METHODS = "MAX", "POSITION", "ALIGN"


@implements(detection_ops.RegionPooling)
class RegionPooling(Labels):
    def __init__(self, device: FormulaKernels, op: detection_ops.RegionPooling):
        super().__init__(device)
        fixed = METHODS.index(op.method), *op.x, *op.y, float(op.scale), float(op.pad)
        self._forward = device.kernel("regions", "region_pool_forward", math.prod(op.y), *fixed)
        self._backward = device.kernel("regions", "region_pool_backward", math.prod(op.x), *fixed)

    def forward(self, x, rois, y, indices) -> None:
        self._forward(x, rois, y, indices, self._first, self._come, self.bad)

    def backward(self, dy, rois, indices, dx) -> None:
        self._backward(dy, rois, indices, dx)
