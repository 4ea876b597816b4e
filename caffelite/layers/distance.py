"""Losses of Caffe's forks that sum a function of a - b: L1Loss (NVCaffe) and SmoothL1Loss (detectors, Intel Caffe)."""

from __future__ import annotations

import re

from ..devices.formula import Formula
from .layer import Shape, register
from .loss import Loss


class Distance(Loss):
    """loss = Σ each / N; a, b (N, ...) of one count, both get gradients. ``each`` and its ``slope`` are formulas of the distance d."""

    constant_bottoms = frozenset()
    each = slope = ""

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i in range(1, len(bottoms)):
            self.same_count(bottoms, 0, i)
        self.n = bottoms[0][0] if bottoms[0] else 1
        return [()]

    def build(self, dev) -> None:
        names = ("a", "b", "inside", "outside")[: len(self.spec.bottom)]
        inside, outside = (name if name in names else "1" for name in ("inside", "outside"))
        each, slope = (re.sub(r"\bd\b", f"({inside} * (a - b))", text) for text in (self.each, self.slope))
        self._sum = dev.sum(Formula(f"{outside} * {each}", names), 1 / self.n)
        self._dx = dev.map(Formula(f"{outside} * {inside} * {slope} * dloss / n", names, ("dloss",), ("n",)), n=self.n)

    def forward(self, x: list, y: list) -> None:
        self._sum(*x, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for i in (0, 1):
            if dx[i] is not None:
                self._dx(x[i], x[1 - i], *x[2:], dy[0], dx[i])


@register
class L1Loss(Distance):
    """loss = Σ |a - b| / N; a, b (N, ...) of one count, both get gradients. As in NVCaffe."""

    each, slope = "abs(d)", "sign(d)"


@register
class SmoothL1Loss(Distance):
    """loss = Σ outside · f(inside · (a - b)) / N, f(d) = d² / 2 where |d| < 1, else |d| - 1/2; a and b get gradients.

    a, b, and optionally the weights inside and outside, (N, ...) of one count. Source: Girshick 2015.
    """

    bottoms = (2, 4)
    constant_bottoms = frozenset({2, 3})
    each, slope = "where(abs(d) < 1, 0.5 * d * d, abs(d) - 0.5)", "where(abs(d) < 1, d, sign(d))"
