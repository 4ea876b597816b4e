"""MulticlassCrossEntropyLoss: which of several classes an image has."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from ...layers import require
from ...layers.arrays import ArrayLayer
from ...layers.layer import Shape, register

EDGE = 1e-10  # how near a probability comes to 0 and 1


@register
class MulticlassCrossEntropyLoss(ArrayLayer):
    """loss = -Σ ln p of classes that an image has, ln(1 - p) of others, / N: p (N, C...) probabilities, labels of one
    size, 0 for no.

    p is kept from 10⁻¹⁰ to 1 - 10⁻¹⁰. The gradient is the fork's: the derivative divided by C, the size of a sample.
    Errors: another number of labels. Source: Tang et al. 2017, as in caffe-oicr
    src/caffe/layers/multi_class_cross_entropy_loss_layer.cu.
    """

    bottoms = (2, 2)
    loss = True
    constant_bottoms = frozenset({1})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.same_count(self, bottoms, 0, 1)
        self.count = bottoms[0][0] if bottoms[0] else 1
        self.classes = math.prod(bottoms[0]) // self.count
        return [()]

    def _shares(self, xp: ModuleType, x: tuple) -> tuple[Any, Any]:
        """The probability of what an image shows, and the sign of its slope."""
        p, has = xp.clip(x[0], EDGE, 1 - EDGE), x[1].reshape(x[0].shape).astype("int64") != 0
        p = xp.where(xp.isnan(x[0]), x[0], p)
        return xp.where(has, p, xp.maximum(1 - p, EDGE)), xp.where(has, -1, 1)  # in float32 1 - EDGE is 1

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return -xp.log(self._shares(xp, x)[0]).sum() / self.count

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        p, sign = self._shares(xp, x)
        return sign / p * (dy[0] / (self.count * self.classes)), None
