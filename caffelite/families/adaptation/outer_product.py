"""OuterProduct: every value of one blob times every value of another."""

import math
from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class OuterProduct(ArrayLayer):
    """y[n, 0, i, j] = a[n, i] b[n, j]: a (N, K), b (N, M), further axes of 1, y (N, 1, K, M). Errors: other shapes. As
    in thuml/Xlearn, src/caffe/layers/outerproduct_layer.cu."""

    bottoms = (2, 2)
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i, shape in enumerate(bottoms):
            require.channels(self, bottoms, i)
            if shape[0] != bottoms[0][0] or math.prod(shape[2:]) != 1:
                raise self.bottom_error(i, "does not fit", expected=f"({bottoms[0][0]}, K)", found=list(shape))
        return [(bottoms[0][0], 1, bottoms[0][1], bottoms[1][1])]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        a, b = (blob.reshape(blob.shape[:2]) for blob in x)
        return a[:, None, :, None] * b[:, None, None, :]

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        a, b = (blob.reshape(blob.shape[:2]) for blob in x)
        above = dy[0][:, 0]
        return (above @ b[..., None]).reshape(x[0].shape), (a[:, None] @ above).reshape(x[1].shape)
