"""Maximum: the highest value of each heat map."""

from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class Maximum(ArrayLayer):
    """Column, row and value of the greatest value of each map, the first of equal ones: x (N, C, H, W), y (N, C, 1, 3).
    No gradient. As in CMU-Perceptual-Computing-Lab/caffe_rtpose, src/caffe/layers/maximum_layer.cpp, where maps without
    a value above 0 have the place 0, 0."""

    couples_samples = False
    needs_images = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        return [(*bottoms[0][:2], 1, 3)]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        flat = x[0].reshape(*x[0].shape[:2], -1)
        indices = flat.argmax(2)
        rows = [indices % x[0].shape[3], indices // x[0].shape[3], flat.max(2)]
        return xp.stack([row.astype(flat.dtype) for row in rows], -1)[:, :, None]
