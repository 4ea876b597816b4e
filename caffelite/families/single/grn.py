"""GRN: values over their length."""

import math
from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class GRN(ArrayLayer):
    """y = x / √(Σ x² + bias), the sum over the channels: x, y (N, C, P...). bias: 1 by default. Errors: a bias below 0.
    As in TinyJie/Caffe_mscnn and openvinotoolkit/training_toolbox_caffe, src/caffe/layers/grn_layer.cpp."""

    field = "grn_param"
    couples_samples = False

    def setup(self) -> None:
        require.value(self, "bias", 0 <= self.p.bias < math.inf, "a finite number from 0")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return [require.channels(self, bottoms)]

    def _length(self, xp: ModuleType, x: Any) -> Any:
        length = xp.sqrt((x**2).sum(1, keepdims=True) + self.p.bias)
        return xp.where(length == 0, 1.0, length)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return x[0] / self._length(xp, x[0])

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        length = self._length(xp, x[0])
        return (dy[0] - x[0] * (dy[0] * x[0]).sum(1, keepdims=True) / length**2) / length
