"""PixelShuffle: channels become squares of pixels."""

from __future__ import annotations

from ...layers import require
from ...layers.layer import Layer, Shape, register


@register
class PixelShuffle(Layer):
    """y[n, c, h·r + i, w·r + j] = x[n, (c·r + i)·r + j, h, w], r = upscale_factor: x (N, C·r², H, W) → y (N, C, H·r,
    W·r). Errors: no upscale_factor, channels that r² does not divide. Source: Shi et al. 2016, as in
    wj1tr0y/gait_extractor, src/caffe/layers/pixel_shuffle_layer.cpp; a Reshape with pixelshuffler of Intel's and
    Synopsys's Caffe becomes one.
    """

    field = "pixel_shuffle_param"
    needs_images = True
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False

    def setup(self) -> None:
        require.positive(self, "upscale_factor", "the side of a square")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        (n, c, h, w), r = bottoms[0], self.p.upscale_factor
        if c % (r * r):
            expected = f"channels that {r * r} divides"
            raise self.bottom_error(0, "does not divide into squares", expected=expected, found=list(bottoms[0]))
        c //= r * r
        self.channels, self.squares = (n, c, r, r, h, w), (n, c, h, r, w, r)
        return [(n, c, h * r, w * r)]

    def forward(self, x: list, y: list) -> None:
        self.dev.assign(x[0].reshape(self.channels).transpose(0, 1, 4, 2, 5, 3), y[0].reshape(self.squares))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.dev.assign(dy[0].reshape(self.squares).transpose(0, 1, 3, 5, 2, 4), dx[0].reshape(self.channels))
