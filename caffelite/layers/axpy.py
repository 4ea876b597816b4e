"""Axpy of SENet: a product by channels and a sum."""

import math

from ..devices.formula import Formula
from ..devices.protocol import Device
from .base import require
from .base.layer import Layer, Shape, register


@register
class Axpy(Layer):
    """y = a · x + b, a one number for each channel of each sample, as where an image is weighed and added to another.

    a (N, C) or (N, C, 1, 1); x, b, y (N, C, P...). Source: Hu et al. 2018 (squeeze and excitation), as in NVCaffe.
    """

    upstream = False
    bottoms = (3, 3)
    couples_samples = False
    backward_reads_bottoms = (0, 1)
    backward_reads_tops = False
    divisible_axes = (0, 1)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        a, x, b = bottoms
        require.channels(self, bottoms, 1)
        require.fits(
            self, bottoms, 0, a[:2] == x[:2] and math.prod(a[2:]) == 1, f"{[*x[:2]]} or {[*x[:2], *[1] * (len(x) - 2)]}"
        )
        require.shape(self, bottoms, 2, x)
        self.split = 1, math.prod(x[:2]), math.prod(x[2:])
        return [x]

    def build(self, dev: Device) -> None:
        self._y = dev.channel_map(Formula("a * x + b", ("a", "x", "b")), ("a",), *self.split)
        self._da = dev.channel_sum(Formula("dy * x", ("dy", "x")), (), *self.split)
        self._dx = dev.channel_map(Formula("a * dy", ("a", "dy")), ("a",), *self.split)

    def forward(self, x: list, y: list) -> None:
        self._y(*x, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if dx[0] is not None:
            self._da(dy[0], x[1], dx[0])
        if dx[1] is not None:
            self._dx(x[0], dy[0], dx[1])
        if dx[2] is not None:
            self.dev.copy(dy[0], dx[2])
