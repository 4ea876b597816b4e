"""PixelShuffle: channels become squares of pixels."""

from ...layers.base import require
from ...layers.base.layer import Shape, register
from ...layers.shape import Rearranged


@register
class PixelShuffle(Rearranged):
    """y[n, c, h·r + i, w·r + j] = x[n, (c·r + i)·r + j, h, w], r = upscale_factor: x (N, C·r², H, W) → y (N, C, H·r,
    W·r). Errors: no upscale_factor, channels that r² does not divide. Source: Shi et al. 2016, as in
    wj1tr0y/gait_extractor, src/caffe/layers/pixel_shuffle_layer.cpp; a Reshape with pixelshuffler of Intel's and
    Synopsys's Caffe becomes one.
    """

    field = "pixel_shuffle_param"
    needs_images = True

    def setup(self) -> None:
        require.positive(self, "upscale_factor", meaning="the side of a square")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        (n, c, h, w), r = require.images(self, bottoms), self.p.upscale_factor
        expected = f"channels that {r * r} divides"
        require.fits(self, bottoms, 0, c % (r * r) == 0, expected, "does not divide into squares")
        self.axes, self.order = (n, c // (r * r), r, r, h, w), (0, 1, 4, 2, 5, 3)
        return [(n, c // (r * r), h * r, w * r)]
