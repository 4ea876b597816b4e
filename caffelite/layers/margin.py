"""Losses that select a formula by the label: HingeLoss, MultinomialLogisticLoss; and ContrastiveLoss, over pairs of
samples."""

from __future__ import annotations

import math

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..devices.protocol import Device
from .layer import Shape, register
from .loss import Loss
from .score import label_fault


class PerClass(Loss):
    """loss = Σ each / N over scores (N, C...) and labels (N), integers 0 to C - 1 that index the values of a
    sample.

    ``formulas`` gives each and its slope, of the score x, its class k and the label t.
    """

    def formulas(self) -> tuple[str, str]:
        raise NotImplementedError

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n = bottoms[0][0] if bottoms[0] else 1
        self.split = n, math.prod(bottoms[0]) // n, 1
        if math.prod(bottoms[1]) != n:
            expected = f'{n} labels, one for each sample of "{self.spec.bottom[0]}" {list(bottoms[0])}'
            raise self.bottom_error(
                1, "does not fit", expected=expected, found=f"{math.prod(bottoms[1])} {list(bottoms[1])}"
            )
        return [()]

    def backward_reads_bottom(self, index: int) -> bool:
        return index == 0

    def build(self, dev: Device) -> None:
        n, c, _ = self.split
        each, slope = self.formulas()
        self._places, self._table, self._label, self._rows = (
            dev.empty((n, c)),
            dev.empty((c, 1)),
            dev.empty(n),
            dev.empty(n),
        )
        dev.upload(self._places, np.arange(c))
        dev.upload(self._table, np.arange(c)[:, None])
        self.op = dev.take(c, 1, n)  # labels as integers; detects labels out of range
        self._each = dev.channel_sum(Formula(each, ("x", "k", "t")), ("t",), 1, n, c)
        self._sum = dev.sum(Formula("row", ("row",)), 1 / n)
        text = Formula(f"({slope}) * dloss / n", ("x", "k", "t"), ("dloss",), ("n",))
        self._dx = dev.channel_map(text, ("t",), 1, n, c, n=n)

    def forward(self, x: list, y: list) -> None:
        self.op.forward(self._table, x[1], self._label)
        self._each(x[0], self._places, self._label, self._rows)
        self._sum(self._rows, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._dx(x[0], self._places, self._label, dy[0], dx[0])

    def faults(self) -> str | None:
        return label_fault(self, self.op, self.split)


@register
class HingeLoss(PerClass):
    """loss = Σ max(0, 1 + s x)^norm / N, s = -1 for the label's class and 1 for the others; norm L1 (default) or L2,
    the square.

    x (N, C...), label (N). Errors: labels that are no class. As in Caffe.
    """

    field = "hinge_loss_param"

    def formulas(self) -> tuple[str, str]:
        margin, side = "max(1 + where(t == k, -x, x), 0)", "where(t == k, -1, 1)"
        if self.p.norm == pb.HingeLossParameter.L2:
            return f"{margin} * {margin}", f"2 * {margin} * {side}"
        return margin, f"sign({margin}) * {side}"


@register
class MultinomialLogisticLoss(PerClass):
    """loss = -Σ log max(x[label], 1e-20) / N over probabilities x (N, C...), label (N). Errors: labels that are no
    class. As in Caffe."""

    def formulas(self) -> tuple[str, str]:
        return "where(t == k, -log(max(x, 1e-20)), 0)", "where(t == k, -1 / max(x, 1e-20), 0)"


@register
class ContrastiveLoss(Loss):
    """loss = Σ each / 2N, each = d² for a similar pair, else max(margin - d, 0)², d = |a - b| (Euclidean, per
    sample).

    a, b (N, C...), similarity label (N), 0 for dissimilar. Defaults: margin 1. legacy_version: max(margin - d², 0) for
    dissimilar pairs. Source: Hadsell et al. 2006, as in Caffe.
    """

    field = "contrastive_loss_param"
    bottoms = (3, 3)
    constant_bottoms = frozenset({2})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.same_count(bottoms, 0, 1)
        self.n = n = bottoms[0][0] if bottoms[0] else 1
        self.d = math.prod(bottoms[0]) // n
        for i, count in ((1, bottoms[1][:1] or (1,)), (2, (math.prod(bottoms[2]),))):
            if count != (n,):
                what = f'{n}, one a sample of "{self.spec.bottom[0]}" {list(bottoms[0])}'
                raise self.bottom_error(i, "does not fit", expected=what, found=list(bottoms[i]))
        self.saved_shapes["squares"] = ((n,), None)
        return [()]

    def build(self, dev: Device) -> None:
        gap = "max(margin - q, 0)" if self.p.legacy_version else "max(margin - sqrt(q), 0)"
        each = gap if self.p.legacy_version else f"{gap} * {gap}"
        # Caffe adds 0.0001 to a distance that it divides by.
        slope = f"sign({gap})" if self.p.legacy_version else f"{gap} / (sqrt(q) + 1e-4)"
        self._squares = dev.channel_sum(Formula("(a - b) * (a - b)", ("a", "b")), (), 1, self.n, self.d)
        margin = {"margin": self.p.margin}
        self._sum = dev.sum(
            Formula(f"where(abs(t) >= 1, q, {each})", ("q", "t"), constants=("margin",)), 0.5 / self.n, **margin
        )
        text = f"where(abs(t) >= 1, 1, -({slope})) * (a - b) * dloss / n"
        self._dx = dev.channel_map(
            Formula(text, ("a", "b", "q", "t"), ("dloss",), ("margin", "n")),
            ("q", "t"),
            1,
            self.n,
            self.d,
            n=self.n,
            **margin,
        )

    def forward(self, x: list, y: list) -> None:
        self._squares(x[0], x[1], self.saved["squares"])
        self._sum(self.saved["squares"], x[2], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for i in (0, 1):
            if dx[i] is not None:
                self._dx(x[i], x[1 - i], self.saved["squares"], x[2], dy[0], dx[i])
