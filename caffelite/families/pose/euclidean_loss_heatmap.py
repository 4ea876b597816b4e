"""EuclideanLossHeatmap: squared differences of heat maps."""

import math
from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register
from ...layers.loss import Loss

UNKNOWN = -999


@register
class EuclideanLossHeatmap(ArrayLayer, Loss):
    """loss = Σ (x - t)² / (number of values), x, t (N, C, H, W); dx = x - t, which is the gradient of the sum of
    squares / 2, as in the fork. A t of -999 is unknown: no loss, no gradient. A third bottom, an image to show, is not
    read. As in tpfister/caffe-heatmap, src/caffe/layers/euclidean_loss_heatmap_layer.cpp."""

    bottoms = (2, 3)
    constant_bottoms = frozenset({1, 2})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        require.same_count(self, bottoms, 0, 1)
        self.size = math.prod(bottoms[0])
        self.couples_samples = True
        return [()]

    def _difference(self, xp: ModuleType, x: tuple) -> Any:
        target = x[1].reshape(x[0].shape)
        return xp.where(target == UNKNOWN, 0.0, x[0] - target)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return (self._difference(xp, x) ** 2).sum() / self.size

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        return dy[0] * self._difference(xp, x), *[None] * (len(x) - 1)
