"""TripletLoss: an anchor nearer to a sample of its class than to another."""

from __future__ import annotations

import math

from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers import require
from ...layers.layer import Shape, register
from ...layers.loss import Loss

SIDES = ("where(gap > 0, n - p, 0)", "where(gap > 0, p - a, 0)", "where(gap > 0, a - n, 0)")


@register
class TripletLoss(Loss):
    """loss = Σ max(margin + |a - p|² - |a - n|², 0) / 2N: anchors a, positives p of the anchor's class and negatives n
    of another, (N, C...) each, all get gradients.

    Defaults: margin 1. Errors: bottoms of different sizes. Source: Schroff et al. 2015, as in the forks with a
    src/caffe/layers/triplet_loss_layer.cpp of three bottoms; a fourth, of weights in some and without effect in others,
    is an error.
    """

    field = "triplet_loss_param"
    bottoms = (3, 3)
    constant_bottoms = frozenset()

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.n = bottoms[0][0] if bottoms[0] else 1
        self.d = math.prod(bottoms[0]) // self.n
        for i in (1, 2):
            require.same_count(self, bottoms, 0, i)
            if bottoms[i][:1] != bottoms[0][:1]:
                expected = f'{self.n} samples, as "{self.spec.bottom[0]}" has'
                raise self.bottom_error(i, "does not fit", expected=expected, found=list(bottoms[i]))
        self.saved_shapes["gap"] = ((self.n,), None)
        return [()]

    def build(self, dev: Device) -> None:
        split = 1, self.n, self.d
        formula = Formula("(a - p) * (a - p) - (a - n) * (a - n)", ("a", "p", "n"))
        self._squares = dev.channel_sum(formula, (), *split)
        self._gap = dev.map(Formula("d + margin", ("d",), constants=("margin",)), margin=self.p.margin)
        self._sum = dev.sum(Formula("max(gap, 0)", ("gap",)), 0.5 / self.n)
        formulas = (
            Formula(f"{side} * dloss / count", ("a", "p", "n", "gap"), ("dloss",), ("count",)) for side in SIDES
        )
        self._slopes = [dev.channel_map(formula, ("gap",), *split, count=self.n) for formula in formulas]

    def forward(self, x: list, y: list) -> None:
        gap = self.saved["gap"]
        self._squares(*x, gap)
        self._gap(gap, gap)
        self._sum(gap, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for slope, gradient in zip(self._slopes, dx, strict=True):
            if gradient is not None:
                slope(*x, self.saved["gap"], dy[0], gradient)
