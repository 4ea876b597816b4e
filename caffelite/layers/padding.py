"""Padding: images with more pixels around them."""

from __future__ import annotations

from .layer import Layer, Shape, register


@register
class Padding(Layer):
    """Images x (N, C, H, W) with ``value`` (0) around them, y (N, C, OH, OW): pad_l columns on the left, pad_r on the
    right, pad_t rows at the top, pad_b at the bottom (each 0). Errors: fewer or more axes. What pads of Synopsys Caffe
    become that differ by side."""

    field = "padding_param"
    needs_images = True
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if len(bottoms[0]) != 4:
            raise self.bottom_error(0, "is no batch of images", expected="4 axes N×C×H×W", found=list(bottoms[0]))
        (n, c, h, w), p = bottoms[0], self.p
        self.inner = (..., slice(p.pad_t, p.pad_t + h), slice(p.pad_l, p.pad_l + w))
        return [(n, c, p.pad_t + h + p.pad_b, p.pad_l + w + p.pad_r)]

    def divisible(self, axis: int) -> bool:
        return axis < 2

    def forward(self, x: list, y: list) -> None:
        self.dev.fill(y[0], self.p.value)
        self.dev.assign(x[0], y[0][self.inner])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.dev.assign(dy[0][self.inner], dx[0])
