"""Reorg: squares of values become channels."""

from ...layers.base import require
from ...layers.base.layer import Shape, register
from ...layers.shape import Rearranged


@register
class Reorg(Rearranged):
    """Moves squares of stride × stride values to channels, in Darknet's order: y has the values of x, where x is seen
    as (N, C/s², H, s, W, s) and y as (N, s, s, C/s², H, W).

    x (N, C, H, W) → y (N, C·s², H/s, W/s), s = stride; with reverse x is seen as (N, s, s, C/s², H, W) and y, (N, C/s²,
    H·s, W·s), as (N, C/s², H, s, W, s), which undoes a Reorg of images of s · H · s · W. Errors: no stride, channels
    that s² does not divide, a height or width that s does not divide. As in eric612/MobileNet-YOLO,
    src/caffe/layers/reorg_layer.cpp, whose backward pass gives no gradient; here it does.
    """

    field = "reorg_param"
    needs_images = True

    def setup(self) -> None:
        require.positive(self, "stride", meaning="the side of a square")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        (n, c, h, w), s = require.images(self, bottoms), self.p.stride
        sides = "" if self.p.reverse else f"; height and width that {s} divides"
        fits = c % (s * s) == 0 and (self.p.reverse or h % s == w % s == 0)
        require.fits(self, bottoms, 0, fits, f"channels that {s * s} divides{sides}", "does not divide into squares")
        if self.p.reverse:
            self.axes, self.order = (n, s, s, c // (s * s), h, w), (0, 3, 4, 1, 5, 2)
            return [(n, c // (s * s), h * s, w * s)]
        self.axes, self.order = (n, c // (s * s), h, s, w, s), (0, 3, 5, 1, 2, 4)
        return [(n, c * s * s, h // s, w // s)]
