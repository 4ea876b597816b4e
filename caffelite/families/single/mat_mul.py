"""MatMul: products of matrices that are both blobs."""

from types import ModuleType
from typing import Any

from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class MatMul(ArrayLayer):
    """y = a b, the product of the matrices in the last two axes, one for each index of the axes before.

    a (N, M, K), b (N, K, L) → y (N, M, L), with any number of axes in place of N.
    Errors: other axes before, sides that do not fit, fewer than 2 axes.
    Source: Vaswani et al. 2017, whose attention is softmax(Q Kᵀ / √d) V.
    """

    bottoms = (2, 2)
    divisible_axes = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        a, b = bottoms
        if len(a) < 2 or len(b) != len(a) or a[:-2] != b[:-2] or a[-1] != b[-2]:
            raise self.bottom_error(1, "does not fit", expected=[*a[:-2], a[-1] if a else 1, "N"], found=list(b))
        self.couples_samples = len(a) == 2
        return [(*a[:-1], b[-1])]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return xp.matmul(x[0], x[1])

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        return xp.matmul(dy[0], x[1].swapaxes(-1, -2)), xp.matmul(x[0].swapaxes(-1, -2), dy[0])
