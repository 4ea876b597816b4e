"""Losses of Caffe's forks that sum a function of a - b: L1Loss (NVCaffe) and SmoothL1Loss (detectors, Intel Caffe)."""

import math
import re

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..devices.protocol import Device
from .base import require
from .base.facets import Compares
from .base.layer import Shape, register
from .loss import Loss


class Distance(Loss):
    """loss = Σ each / N; a, b (N, ...) of one count, both get gradients. ``each`` and its ``slope`` are formulas of the
    distance d."""

    constant_bottoms = frozenset()
    each = slope = ""
    n: float = 1  # the divisor
    shares_divisor = True
    constants: dict[str, float] = {}

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i in range(1, len(bottoms)):
            require.same_count(self, bottoms, 0, i)
        self.n = bottoms[0][0] if bottoms[0] else 1
        return [()]

    def ignored(self) -> None:
        """b are no labels."""

    def build(self, dev: Device) -> None:
        names = ("a", "b", "inside", "outside")[: len(self.spec.bottom)]
        inside, outside = (name if name in names else "1" for name in ("inside", "outside"))
        each, slope = (re.sub(r"\bd\b", f"({inside} * (a - b))", text) for text in (self.each, self.slope))
        constants, n = tuple(self.constants), self.n / (self.shares.count if self.shares else 1)
        self._sum = dev.sum(Formula(f"{outside} * {each}", names, constants=constants), 1 / n, **self.constants)
        text = f"{outside} * {inside} * {slope} * dloss / n"
        self._dx = dev.map(Formula(text, names, ("dloss",), (*constants, "n")), n=n, **self.constants)

    def forward(self, x: list, y: list) -> None:
        self._sum(*x, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for i in (0, 1):
            if dx[i] is not None:
                self._dx(x[i], x[1 - i], *x[2:], dy[0], dx[i])


@register
@Compares(values=True)
class L1Loss(Distance):
    """loss = Σ |a - b| / N; a, b (N, ...) of one count, both get gradients. As in NVCaffe."""

    upstream = False
    each, slope = "abs(d)", "sign(d)"


@register
@Compares(values=True)
class SmoothL1Loss(Distance):
    """loss = Σ outside · f(inside · (a - b)) / N, f(d) = (σd)² / 2 where |d| < 1/σ², else |d| - 1/(2σ²); a and b get
    gradients.

    a, b, and optionally the weights inside and outside, (N, ...) of one count. A second top has the sum over the
    channels of each place, (N, 1, P...), without gradient. sigma (σ) 1; normalization NONE: not divided by N. Errors: a
    sigma of 0 or less. Source: Girshick 2015, sigma as in Intel's Caffe.
    """

    upstream = False
    field = "smooth_l1_loss_param"

    bottoms, tops = (2, 4), (1, 2)
    constant_bottoms = frozenset({2, 3})
    each = "where(abs(d) < 1 / square, 0.5 * square * d * d, abs(d) - 0.5 / square)"
    slope = "where(abs(d) < 1 / square, square * d, sign(d))"

    def setup(self) -> None:
        super().setup()
        require.value(self, "sigma", 0 < self.p.sigma < math.inf, "a finite number above 0")
        self.constants = {"square": self.p.sigma**2}

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        super().shapes(bottoms)
        if self.normalization() == pb.LossParameter.NONE:
            self.n, self.couples_samples = 1, True
        if len(self.spec.top) == 1:
            return [()]
        self.requires_host, shape = True, bottoms[0]
        require.channels(self, bottoms)
        self.split = (*shape[:2], math.prod(shape[2:]))
        return [(), (shape[0], 1, *shape[2:])]

    def forward(self, x: list, y: list) -> None:
        super().forward(x, y[:1])
        if len(y) == 1:
            return
        a, b, *weights = (self.dev.download(blob).reshape(self.split) for blob in x)
        far = np.abs((a - b) * weights[0] if weights else a - b)
        square = self.constants["square"]
        each = np.where(far < 1 / square, 0.5 * square * far * far, far - 0.5 / square)
        each = (each * weights[1] if len(weights) > 1 else each).sum(1)
        self.dev.upload(y[1], each.reshape(y[1].shape))
