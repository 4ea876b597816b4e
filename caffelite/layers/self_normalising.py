"""Layers of self-normalising nets: SeLu and SeLuDropout."""

from __future__ import annotations

import math

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..devices.protocol import Device
from .layer import Layer, Shape, elementwise, register

# The top shows the sign of x where both factors are positive.
elementwise(
    "SeLu",
    y="where(x > 0, scale * x, scale * alpha * (exp(x) - 1))",
    dx=lambda p: (
        "where(y > 0, scale * dy, dy * (y + scale * alpha))"
        if getattr(p, "lambda") > 0 and p.alpha > 0
        else "where(x > 0, scale * dy, scale * alpha * dy * exp(x))"
    ),
    field="selu_param",
    about="y = lambda * x where x > 0, else lambda * alpha * (exp(x) - 1)",
    scale=lambda p: getattr(p, "lambda"),
    alpha="alpha",
)


@register
class SeLuDropout(Layer):
    """In TRAIN y = a · (x or, with probability dropout_ratio, alpha) + b, which keeps mean 0 and variance 1; in TEST
    y = x.

    x, y of one shape. a = 1 / √(q + alpha² q (1 - q)), b = -a (1 - q) alpha, q = 1 - dropout_ratio. Defaults:
    dropout_ratio 0.1, alpha -1.7581. Errors: a ratio outside [0, 1). Source: Klambauer et al. 2017 (alpha dropout),
    HolmesShuan/SNNs-Self-Normalizing-Neural-Networks-Caffe-Reimplementation README.md.
    """

    field = "selu_dropout_param"
    in_place = True
    couples_samples = False

    def setup(self) -> None:
        ratio = self.p.dropout_ratio
        if not 0 <= ratio < 1:
            expected = "0 or more and less than 1"
            raise self.error("a bad dropout_ratio", "dropout_ratio", expected=expected, found=f"{ratio:g}")
        self.training = self.phase == pb.TRAIN
        self.view = self.follows_layout = not self.training

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if self.training:
            self.saved_shapes["mask"] = (bottoms[0], "uint8")
        self.rows = bottoms[0][0] if bottoms[0] else 1
        self.width = math.prod(bottoms[0]) // max(1, self.rows)
        self.count = (self.rows, self.width)
        return [bottoms[0]]

    def divisible(self, axis: int) -> bool:
        return not self.training

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def build(self, dev: Device) -> None:
        if not self.training:
            return
        ratio, alpha = self.p.dropout_ratio, self.p.alpha
        q = 1 - ratio
        a = 1 / math.sqrt(q + alpha * alpha * q * ratio)
        self.op = dev.dropout(self.rows, self.width, ratio, self.stream, self.context)
        self._ones, self._kept = dev.empty(self.count), dev.empty(self.count)
        dev.fill(self._ones, 1)
        text = "where(k > 0, a * x + b, c)"
        constants = {"a": a, "b": -a * ratio * alpha, "c": a * alpha * q}
        self._y = dev.map(Formula(text, ("x", "k"), constants=tuple(constants)), **constants)
        self._dx = dev.map(Formula("a * dx", ("dx",), constants=("a",)), a=a * q)

    def forward(self, x: list, y: list) -> None:
        if self.training:
            self.op.forward(self._ones, self.saved["mask"], self._kept)
            self._y(x[0], self._kept, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if self.training:
            self.op.backward(self.saved["mask"], dy[0], dx[0])
            self._dx(dx[0], dx[0])
