"""GlobalSumPooling: the sum of all samples."""

from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.compilation import Which, all_but
from ...layers.base.layer import Shape, register


@register
class GlobalSumPooling(ArrayLayer):
    """y = Σ x over the samples: x (N, C...) → (1, C...), so that the scores of all regions give those of an image.

    Errors: fewer than 2 axes. Source: Tang et al. 2017, as in caffe-oicr src/caffe/layers/global_sum_pooling_layer.cpp.
    """

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return [(1, *require.channels(self, bottoms)[1:])]

    @property
    def divisible_axes(self) -> Which:
        return all_but(0)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return x[0].sum(0, keepdims=True)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        return xp.broadcast_to(dy[0], x[0].shape)
