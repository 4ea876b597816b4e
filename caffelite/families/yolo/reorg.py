"""Reorg: squares of values become channels."""

from __future__ import annotations

from ...layers import require
from ...layers.layer import Layer, Shape, register


@register
class Reorg(Layer):
    """Moves squares of stride × stride values to channels, in Darknet's order: y has the values of x, where x is seen
    as (N, C/s², H, s, W, s) and y as (N, s, s, C/s², H, W).

    x (N, C, H, W) → y (N, C·s², H/s, W/s), s = stride; with reverse x is seen as (N, s, s, C/s², H, W) and y, (N, C/s²,
    H·s, W·s), as (N, C/s², H, s, W, s), which undoes a Reorg of images of s · H · s · W. Errors: no stride, channels
    that s² does not divide, a height or width that s does not divide. As in eric612/MobileNet-YOLO,
    src/caffe/layers/reorg_layer.cpp, whose backward pass gives no gradient; here it does.
    """

    field = "reorg_param"
    needs_images = True
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False

    def setup(self) -> None:
        require.positive(self, "stride", "the side of a square")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        (n, c, h, w), s = bottoms[0], self.p.stride
        if c % (s * s) or not self.p.reverse and (h % s or w % s):
            sides = "" if self.p.reverse else f"; height and width that {s} divides"
            expected = f"channels that {s * s} divides{sides}"
            raise self.bottom_error(0, "does not divide into squares", expected=expected, found=list(bottoms[0]))
        self.squares, self.channels = (n, c // (s * s), h, s, w, s), (n, s, s, c // (s * s), h, w)
        if self.p.reverse:
            return [(n, c // (s * s), h * s, w * s)]
        return [(n, c * s * s, h // s, w // s)]

    def _to_channels(self, source, target) -> None:
        self.dev.assign(source.reshape(self.squares).transpose(0, 3, 5, 1, 2, 4), target.reshape(self.channels))

    def _to_squares(self, source, target) -> None:
        self.dev.assign(source.reshape(self.channels).transpose(0, 3, 4, 1, 5, 2), target.reshape(self.squares))

    def forward(self, x: list, y: list) -> None:
        (self._to_squares if self.p.reverse else self._to_channels)(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        (self._to_channels if self.p.reverse else self._to_squares)(dy[0], dx[0])
