"""Tiling: channels become pixels."""

from __future__ import annotations

from ...layers import require
from ...layers.layer import Layer, Shape, register


@register
class Tiling(Layer):
    """y (n, c, i s + u, j s + v) = x (n, c s² + u s + v, i, j), s = tile_dim: x (N, C, H, W) → (N, C / s², s H, s W).

    Errors: no tile_dim, channels that s² does not divide. As in SeokjuLee/VPGNet, caffe/src/caffe/layers/
    tiling_layer.cpp.
    """

    field = "tiling_param"
    couples_samples = False
    needs_images = True
    backward_reads_bottoms = backward_reads_tops = False

    def setup(self) -> None:
        require.positive(self, "tile_dim", "the side of a tile")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        (n, c, h, w), s = bottoms[0], self.p.tile_dim
        require.fits(self, bottoms, 0, c % (s * s) == 0, f"channels that {s * s} divides", "does not divide into tiles")
        self.channels, self.tiles = (n, c // (s * s), s, s, h, w), (n, c // (s * s), h, s, w, s)
        return [(n, c // (s * s), h * s, w * s)]

    def forward(self, x: list, y: list) -> None:
        self.dev.assign(x[0].reshape(self.channels).transpose(0, 1, 4, 2, 5, 3), y[0].reshape(self.tiles))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.dev.assign(dy[0].reshape(self.tiles).transpose(0, 1, 3, 5, 2, 4), dx[0].reshape(self.channels))
