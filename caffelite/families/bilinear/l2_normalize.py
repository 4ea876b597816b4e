"""L2Normalize and NormalizationL2: samples of length 1."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ...layers.arrays import ArrayLayer
from ...layers.layer import register


class UnitSamples(ArrayLayer):
    """y = x / √(Σ x² + epsilon), summed over each sample."""

    couples_samples = False
    epsilon = 0.0

    def _lengths(self, xp: ModuleType, x: Any) -> Any:
        squares = (x.reshape(len(x), -1) ** 2).sum(1) + self.epsilon
        return xp.sqrt(squares).reshape(-1, *[1] * (x.ndim - 1))

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        length = self._lengths(xp, x[0])
        return x[0] / xp.where(length == 0, 1, length)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        along = (y[0] * dy[0]).reshape(len(y[0]), -1).sum(1).reshape(-1, *[1] * (x[0].ndim - 1))
        length = self._lengths(xp, x[0])
        return xp.where(length == 0, 0, (dy[0] - y[0] * along) / xp.where(length == 0, 1, length))


@register
class NormalizationL2(UnitSamples):
    """y = x / √(Σ x²), summed over each sample: x, y (N, ...).

    A sample of zeros gives 0, and no gradient. Source: liu-xb/RAM caffe/src/caffe/layers/normalization_l2_layer.cpp.
    """


@register
class L2Normalize(UnitSamples):
    """y = x / √(Σ x² + 10⁻⁷), summed over each sample: x, y (N, ...).

    Source: Gao et al. 2016 (gy20073/compact_bilinear_pooling), as in ChaojianYu/Hierarchical-Bilinear-Pooling
    src/caffe/layers/l2_normalize_layer.cpp.
    """

    epsilon = 1e-7
