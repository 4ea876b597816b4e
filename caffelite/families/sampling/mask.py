"""MaskResize and MaskPooling: masks of boxes, and features within them."""

from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register
from .points import Points, Sampling, in_reach


@register
class MaskResize(Sampling):
    """y (i, j) = x at (i H / OH, j W / OW), interpolated between pixels: x (N, C, H, W) → (N, C, OH, OW), OH =
    output_height, or ⌊H factor_height⌋ where that is more than 0, OW likewise.

    Behind the last pixel's middle x is the last pixel's, and 0 from half a pixel on. Errors: a side of 0. As in
    daijifeng001/caffe-mnc, src/caffe/layers/mask_resize_layer.cu; the factors as in BestSonny/SSTD.
    """

    field = "mask_resize_param"
    couples_samples = False

    def setup(self) -> None:
        require.positive(self, "output_height", "output_width")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        factors = self.p.factor_height, self.p.factor_width
        size = self.p.output_height, self.p.output_width
        sides = zip(size, factors, bottoms[0][2:], strict=True)
        self.size = tuple(int(side * factor) if factor > 0 else output for output, factor, side in sides)
        if min(self.size) < 1:
            raise self.bottom_error(0, "is too small", expected=f"sides that {max(factors):g} does not make 0")
        return [(*bottoms[0][:2], *self.size)]

    def points(self, xp: ModuleType, x: tuple) -> Points:
        n, c, height, width = x[0].shape
        row = (xp.arange(self.size[0]) * (height / self.size[0]))[:, None]
        column = xp.arange(self.size[1]) * (width / self.size[1])
        sample, channel = xp.arange(n).reshape(-1, 1, 1, 1), xp.arange(c).reshape(-1, 1, 1)
        return Points(xp, x[0].shape, sample, channel, row, column, in_reach(x[0].shape, row, column))


@register
class MaskPooling(ArrayLayer):
    """y = x · m, a mask for all channels: x (N, C, H, W), m (N, 1, H, W), both get gradients.

    Errors: a mask of another shape. As in daijifeng001/caffe-mnc, src/caffe/layers/mask_pooling_layer.cu.
    """

    bottoms = (2, 2)
    couples_samples = False
    needs_images = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        wanted = (bottoms[0][0], 1, *bottoms[0][2:])
        require.shape(self, bottoms, 1, wanted)
        return [bottoms[0]]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return x[0] * x[1]

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        return dy[0] * x[1], (dy[0] * x[0]).sum(1, keepdims=True)
