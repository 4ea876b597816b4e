"""SpatialProduct: maps weighted by pixel."""

import math
from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class SpatialProduct(ArrayLayer):
    """y = x · w, w the same for all channels: x, y (N, C, P...), w (N, 1, P...); both get gradients. Errors: w of
    another size. Source: Chen et al., DeepLab, as in gramuah/weakly-supervised-segmentation and aharley/segaware
    caffe/src/caffe/layers/spatial_product_layer.cpp."""

    bottoms = (2, 2)
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, c, *pixels = (*bottoms[0], 1, 1)[: max(2, len(bottoms[0]))]
        size = math.prod(pixels)
        require.fits(self, bottoms, 1, math.prod(bottoms[1]) == n * size, f"{n}×1×{size} weights")
        self.split = n, c, size
        return [bottoms[0]]

    def _weights(self, w: Any) -> Any:
        return w.reshape(-1, 1, self.split[2])

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return (x[0].reshape(-1, *self.split[1:]) * self._weights(x[1])).reshape(x[0].shape)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        above, images = (blob.reshape(-1, *self.split[1:]) for blob in (dy[0], x[0]))
        return (above * self._weights(x[1])).reshape(x[0].shape), (above * images).sum(1).reshape(x[1].shape)
