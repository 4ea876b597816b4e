"""Softmax: scores to probabilities."""

from ..devices import ops
from ..devices.protocol import Device
from .base.compilation import Which, all_but
from .base.layer import Layer, Shape, register, split_axis


@register
class Softmax(Layer):
    """y = exp(x) / Σ exp(x) along ``axis`` (default 1); x, y of one shape. As in Caffe."""

    field = "softmax_param"
    in_place = True
    backward_reads_bottoms = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.summed = self.axis(self.p.axis, len(bottoms[0]))
        self.split, self.couples_samples = split_axis(bottoms[0], self.summed), self.summed == 0
        return [bottoms[0]]

    @property
    def divisible_axes(self) -> Which:
        return all_but(self.summed)

    def build(self, dev: Device) -> None:
        self.op = dev.build(ops.Softmax(*self.split))

    def inference_operation(self) -> object | None:
        return ops.Softmax(*self.split)

    def forward(self, x: list, y: list) -> None:
        self.op.forward(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.op.backward(y[0], dy[0], dx[0])
