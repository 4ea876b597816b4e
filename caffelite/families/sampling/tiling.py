"""Tiling: channels become pixels."""

from ...layers.base import require
from ...layers.base.layer import Shape, register
from ...layers.shape import Rearranged


@register
class Tiling(Rearranged):
    """y (n, c, i s + u, j s + v) = x (n, c s² + u s + v, i, j), s = tile_dim: x (N, C, H, W) → (N, C / s², s H, s W).

    Errors: no tile_dim, channels that s² does not divide. As in SeokjuLee/VPGNet, caffe/src/caffe/layers/
    tiling_layer.cpp.
    """

    field = "tiling_param"
    needs_images = True

    def setup(self) -> None:
        require.positive(self, "tile_dim", meaning="the side of a tile")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        (n, c, h, w), s = require.images(self, bottoms), self.p.tile_dim
        require.fits(self, bottoms, 0, c % (s * s) == 0, f"channels that {s * s} divides", "does not divide into tiles")
        self.axes, self.order = (n, c // (s * s), s, s, h, w), (0, 1, 4, 2, 5, 3)
        return [(n, c // (s * s), h * s, w * s)]
