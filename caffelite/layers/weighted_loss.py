"""EuclideanLoss with weights: as in OpenCL Caffe."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from . import require
from .arrays import ArrayLayer
from .layer import Shape, register_variant


@register_variant(lambda spec: len(spec.bottom) == 3)
class WeightedEuclideanLoss(ArrayLayer):
    """loss = Σ (w (a - b))² / 2N: a, b and weights w of one size, (N, ...). Selected by a third bottom.

    a and b get gradients, which are w (a - b) / N of a, as in the fork: not the derivative, unless w is 0 or 1. Errors:
    bottoms of different sizes. Source: naibaf7/caffe src/caffe/layers/euclidean_loss_layer.cpp.
    """

    type = "EuclideanLoss"
    bottoms = (3, 3)
    loss = True
    constant_bottoms = frozenset({2})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i in (1, 2):
            require.same_count(self, bottoms, 0, i)
        self.count = bottoms[0][0] if bottoms[0] else 1
        return [()]

    def _errors(self, x: tuple) -> Any:
        a, b, weights = (blob.reshape(-1) for blob in x)
        return weights * (a - b)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return (self._errors(x) ** 2).sum() / (2 * self.count)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        slope = self._errors(x) * (dy[0] / self.count)
        return slope.reshape(x[0].shape), -slope.reshape(x[1].shape), None
