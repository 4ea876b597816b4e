"""CenterLoss: the distances to the centers of classes."""

from __future__ import annotations

import math

from ...devices import ops
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers import require
from ...layers.labels import label_fault
from ...layers.layer import Shape, gradient_of, register
from ...layers.loss import Loss
from ...layers.state import LossScaled


@register
class CenterLoss(LossScaled, Loss):
    """loss = Σ |x - c|² / 2M, c the centre of the label's class: pulls the features of a class together.

    x (M..., K...), label (M), integers 0 to N - 1; centres (N, K), N = num_output; loss (). The gradient of a centre is
    Σ (c - x) over the samples of its class / (1 + their number), whatever the loss weight is, so its learning rate is
    that of Wen et al. 2016. Errors: no num_output, labels out of range. As in ydwen/caffe-face,
    src/caffe/layers/center_loss_layer.cpp.
    """

    field = "center_loss_param"
    couples_samples = True
    backward_reads_bottoms = (1,)

    def setup(self) -> None:
        super().setup()
        require.positive(self, "num_output", "the number of classes")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.p.axis, len(bottoms[0]))
        self.m, self.k, self.n = math.prod(bottoms[0][:axis]), math.prod(bottoms[0][axis:]), self.p.num_output
        require.labels(self, bottoms, self.m)
        self.add_param((self.n, self.k), self.p.center_filler, "center_filler")
        self.saved_shapes["distance"] = ((self.m, self.k), None)
        return [()]

    def build(self, dev: Device) -> None:
        m, n, k = self.m, self.n, self.k
        self.op, self._count = dev.build(ops.Take(n, k, m)), dev.build(ops.Take(n, 1, m))
        self._ones, self._counts, self._sums = dev.empty(m), dev.empty(n), dev.empty((n, k))
        dev.fill(self._ones, 1)
        self.need_loss_scale(dev)
        self._distance = dev.map(Formula("x - c", ("x", "c")))
        self._sum = dev.sum(Formula("d * d", ("d",)), 0.5 / m)
        self._dx = dev.map(Formula("d * dloss / m", ("d",), ("dloss",), ("m",)), m=m)
        texts = ("-scale * s / (n + 1)", "dc - scale * s / (n + 1)")
        formulas = (Formula(text, ("dc", "s", "n"), ("scale",)) for text in texts)
        self._dc = [dev.channel_map(formula, ("n",), 1, n, k) for formula in formulas]

    def forward(self, x: list, y: list) -> None:
        distance = self.saved["distance"]
        self.op.forward(self.params[0].data, x[1], distance)
        self._distance(x[0], distance, distance)
        self._sum(distance, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        distance, (dc, add) = self.saved["distance"], gradient_of(self, 0)
        if dc is not None:
            self._count.backward(x[1], self._ones, self._counts, False)
            self.op.backward(x[1], distance, self._sums, False)
            self._dc[add](dc, self._sums, self._counts, self.loss_scale, dc)
        if dx[0] is not None:
            self._dx(distance, dy[0], dx[0])

    def faults(self) -> str | None:
        return label_fault(self, self.op, (self.m, self.n, 1))
