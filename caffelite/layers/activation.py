"""Activations: formulas of one bottom, any shape. Dropout is the one that draws random numbers."""

import math

from .. import caffelite_pb2 as pb
from .layer import Layer, Shape, elementwise, register

# ReLU reads its top, which a fused convolution leaves in memory anyway; a negative slope below 0 makes the top's sign useless.
elementwise(
    "ReLU",
    y="where(x > 0, x, slope * x)",
    dx=lambda p: f"where({'y' if p.negative_slope >= 0 else 'x'} > 0, dy, slope * dy)",
    field="relu_param",
    slope="negative_slope",
)
elementwise("Sigmoid", y="1 / (1 + exp(-x))", dx="dy * y * (1 - y)", field="sigmoid_param")
elementwise("TanH", y="tanh(x)", dx="dy * (1 - y * y)", field="tanh_param")
elementwise(
    "ELU",
    y="where(x > 0, x, alpha * (exp(x) - 1))",
    dx=lambda p: f"where({'y' if p.alpha >= 0 else 'x'} > 0, dy, dy * (y + alpha))",
    field="elu_param",
    alpha="alpha",
)
elementwise(
    "Swish",
    y="x / (1 + exp(-beta * x))",
    dx="dy * (beta * y + (1 - beta * y) / (1 + exp(-beta * x)))",
    field="swish_param",
    beta="beta",
)
elementwise("AbsVal", y="abs(x)", dx="dy * sign(x)")
# log(1 + e^x) without overflow on either side; its slope is the sigmoid.
elementwise("BNLL", y="max(x, 0) + log1p(exp(-abs(x)))", dx="dy / (1 + exp(-x))")
elementwise("Threshold", y="where(x > threshold, 1, x - x)", dx=None, field="threshold_param", threshold="threshold")


@register
class Dropout(Layer):
    """In TRAIN y = x · mask / (1 - dropout_ratio), mask 1 with probability 1 - dropout_ratio (default 0.5); in TEST y = x.

    x, y: (N, ...). Errors: a ratio outside [0, 1). Source: Srivastava et al. 2014, scaled in training as in Caffe.
    """

    field = "dropout_param"
    in_place = True

    def setup(self) -> None:
        if not 0 <= self.p.dropout_ratio < 1:
            raise self.error(
                "a bad dropout_ratio", "dropout_ratio", expected="0 or more and less than 1", found=f"{self.p.dropout_ratio:g}"
            )
        self.training = self.phase == pb.TRAIN
        self.view = not self.training

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if self.training:
            self.saved_shapes["mask"] = (bottoms[0], "uint8")
        self.rows = bottoms[0][0] if bottoms[0] else 1
        self.width = math.prod(bottoms[0]) // max(1, self.rows)
        return [bottoms[0]]

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def build(self, dev) -> None:
        if self.training:
            self.op = dev.dropout(self.rows, self.width, self.p.dropout_ratio, self.stream)

    def forward(self, x: list, y: list) -> None:
        if self.training:
            self.op.forward(x[0], self.saved["mask"], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if self.training:
            self.op.backward(self.saved["mask"], dy[0], dx[0])
