"""Reduction: sums and means over axes."""

import math

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..devices.protocol import Device
from .base.facets import Coordinates, Described
from .base.layer import Layer, Shape, register

REDUCTION = pb.ReductionParameter


@register
@Described(logged=True)
@Coordinates("none")
class Reduction(Layer):
    """y = coeff · Σ x (SUM, the default), Σ |x| (ASUM), Σ x² (SUMSQ) or the mean of x (MEAN), over the axes from
    ``axis`` on (default 0).

    x (M..., K...) → y (M...), a single number for axis 0. Default: coeff 1. As in Caffe.
    """

    field = "reduction_param"
    backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.p.axis, len(bottoms[0]))
        self.rows, self.columns = math.prod(bottoms[0][:axis]), math.prod(bottoms[0][axis:])
        self.couples_samples = axis == 0
        return [bottoms[0][:axis]]

    @property
    def backward_reads_bottoms(self) -> bool:
        return self.p.operation in (REDUCTION.ASUM, REDUCTION.SUMSQ)

    def build(self, dev: Device) -> None:
        each, slope = {REDUCTION.ASUM: ("abs(x)", "sign(x)"), REDUCTION.SUMSQ: ("x * x", "2 * x")}.get(
            self.p.operation, ("x", "1")
        )
        scale = self.p.coeff / (self.columns if self.p.operation == REDUCTION.MEAN else 1)
        self._y = dev.channel_sum(Formula(each, ("x",)), (), 1, self.rows, self.columns, scale)
        text = Formula(f"scale * dy * {slope}", ("x", "dy"), constants=("scale",))
        self._dx = dev.channel_map(text, ("dy",), 1, self.rows, self.columns, scale=scale)

    def forward(self, x: list, y: list) -> None:
        self._y(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._dx(x[0], dy[0], dx[0])
