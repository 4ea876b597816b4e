"""Flip: images mirrored."""

from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register


@register
class Flip(Layer):
    """y = x mirrored: left and right change places (flip_width, the default), or top and bottom (flip_height).

    x, y (N, C, H, W). Errors: a bottom that is no batch of images. As in happynear/caffe-windows, flip_layer.cpp.
    """

    field = "flip_param"
    needs_images = True
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return [require.images(self, bottoms)]

    def _flip(self, source, target) -> None:
        rows, columns = (slice(None, None, -1 if flipped else 1) for flipped in (self.p.flip_height, self.p.flip_width))
        self.dev.assign(source[:, :, rows, columns], target)

    def forward(self, x: list, y: list) -> None:
        self._flip(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._flip(dy[0], dx[0])
