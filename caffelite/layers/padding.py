"""Padding: images with more pixels around them."""

from .base import require
from .base.layer import Layer, Shape, register


@register
class Padding(Layer):
    """Images x (N, C, H, W) with ``value`` (0) around them, y (N, C, OH, OW): pad_l columns on the left, pad_r on the
    right, pad_t rows at the top, pad_b at the bottom (each 0), pad_beg more at the left and top, pad_end at the right
    and bottom; what is negative is cut off. Errors: fewer or more axes, nothing left of the image. What a
    convolution's pads of Synopsys Caffe become that differ by side; pad_beg and pad_end as in Deeplab's Caffe,
    src/caffe/layers/padding_layer.cpp."""

    upstream = False
    field = "padding_param"
    needs_images = True
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False
    divisible_axes = (0, 1)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        (n, c, h, w), p = require.images(self, bottoms), self.p
        rows, columns = ((a + p.pad_beg, b + p.pad_end) for a, b in ((p.pad_t, p.pad_b), (p.pad_l, p.pad_r)))
        size = h + sum(rows), w + sum(columns)
        if min(size) < 1 or min(h + min(rows), w + min(columns)) < 1:
            name = next(field.name for field, value in p.ListFields() if field.name != "value" and value < 0)
            raise self.error(f"{name} leaves nothing of the image", name, found=f"an image of {h}×{w}")
        pairs = [(before, side) for (before, _), side in zip((rows, columns), size, strict=True)]
        # where the image is in the top, and which part of it
        self.outer = (..., *(slice(max(at, 0), min(side, at + n)) for (at, side), n in zip(pairs, (h, w), strict=True)))
        self.inner = (
            ...,
            *(slice(max(-at, 0), min(n, side - at)) for (at, side), n in zip(pairs, (h, w), strict=True)),
        )
        self.cuts = min(*rows, *columns) < 0
        return [(n, c, *size)]

    def forward(self, x: list, y: list) -> None:
        self.dev.fill(y[0], self.p.value)
        self.dev.assign(x[0][self.inner], y[0][self.outer])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if self.cuts:
            self.dev.fill(dx[0], 0)
        self.dev.assign(dy[0][self.outer], dx[0][self.inner])
