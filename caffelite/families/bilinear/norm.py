"""Samples, and their clusters, of length 1."""

import math
from types import ModuleType
from typing import Any

from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


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


@register
class Intranorm(ArrayLayer):
    """y = x / √(Σ x² + 1e-12), the sum over each of cluster_num parts of a sample: x, y (N, ...). Errors: values that
    cannot be divided so. As in hyojinie/crn, src/caffe/layers/intranorm_layer.cpp."""

    field = "intranorm_param"
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        count, values = self.p.cluster_num, math.prod(bottoms[0][1:])
        if count < 1 or values % count:
            raise self.error("a bad cluster_num", "cluster_num", expected=f"a divisor of {values} values", found=count)
        return [bottoms[0]]

    def _clusters(self, blob: Any) -> Any:
        return blob.reshape(len(blob), self.p.cluster_num, -1)

    def _length(self, xp: ModuleType, clusters: Any) -> Any:
        return xp.sqrt((clusters**2).sum(2, keepdims=True) + 1e-12)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        clusters = self._clusters(x[0])
        return (clusters / self._length(xp, clusters)).reshape(x[0].shape)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        clusters, above, out = self._clusters(x[0]), self._clusters(dy[0]), self._clusters(y[0])
        slopes = (above - out * (out * above).sum(2, keepdims=True)) / self._length(xp, clusters)
        return slopes.reshape(x[0].shape)
