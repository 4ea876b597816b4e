"""Intranorm: residuals of each center over their length."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from ...layers.arrays import ArrayLayer
from ...layers.layer import Shape, register


@register
class Intranorm(ArrayLayer):
    """y = x / √(Σ x² + 1e-12), the sum over each of cluster_num parts of a sample: x, y (N, ...). Errors: values that
    cannot be divided so. As in hyojinie/crn, src/caffe/layers/intranorm_layer.cpp."""

    field = "intranorm_param"
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        count, values = self.p.cluster_num, math.prod(bottoms[0][1:])
        if count < 1 or values % count:
            expected = f"a divisor of {values} values"
            raise self.error("a bad cluster_num", "cluster_num", expected=expected, found=count)
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
