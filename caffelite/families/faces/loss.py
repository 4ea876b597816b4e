"""CenterLoss and GeneralContrastiveLoss: samples near their classes, and far from others."""

import math

import numpy as np

from ...devices import ops
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...devices.types import Array
from ...layers.base import require
from ...layers.base.labels import label_fault
from ...layers.base.layer import Shape, gradient_of, register
from ...layers.base.state import Carrying, LossScaled
from ...layers.loss import Loss


@register
class CenterLoss(LossScaled, Loss):
    """loss = Σ |x - c|² / 2M, c the center of the label's class: pulls the features of a class together.

    x (M..., K...), label (M), integers 0 to N - 1; centers (N, K), N = num_output; loss (). The gradient of a center is
    Σ (c - x) over the samples of its class / (1 + their number), whatever the loss weight is, so its learning rate is
    that of Wen et al. 2016. Errors: no num_output, labels out of range. As in ydwen/caffe-face,
    src/caffe/layers/center_loss_layer.cpp.
    """

    field = "center_loss_param"
    couples_samples = True
    backward_reads_bottoms = (1,)

    def setup(self) -> None:
        super().setup()
        require.positive(self, "num_output", meaning="the number of classes")

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
        texts, share = ("-scale * share * s / (n + 1)", "dc - scale * share * s / (n + 1)"), 1
        if self.shares:
            share = self.shares.count
        formulas = (Formula(text, ("dc", "s", "n"), ("scale",), ("share",)) for text in texts)
        self._dc = [dev.channel_map(formula, ("n",), 1, n, k, share=share) for formula in formulas]

    def forward(self, x: list, y: list) -> None:
        distance = self.saved["distance"]
        self.op.forward(self.params[0].data, x[1], distance)
        self._distance(x[0], distance, distance)
        self._sum(distance, y[0])
        if self.shares:
            self._count.backward(x[1], self._ones, self._counts, False)
            self.shares.add_up(self._counts, self.dev)

    def can_share(self) -> bool:
        return True

    def settles(self) -> bool:
        return True

    def settle(self, loss: Array) -> None:
        assert self.shares
        self.dev.upload(self._counts, self.shares.settled())

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        distance, (dc, add) = self.saved["distance"], gradient_of(self, 0)
        if dc is not None:
            if not self.shares:
                self._count.backward(x[1], self._ones, self._counts, False)
            self.op.backward(x[1], distance, self._sums, False)
            self._dc[add](dc, self._sums, self._counts, self.loss_scale, dc)
        if dx[0] is not None:
            self._dx(distance, dy[0], dx[0])

    def faults(self) -> str | None:
        return label_fault(self, self.op, (self.m, self.n, 1))


@register
class GeneralContrastiveLoss(Carrying, Loss):
    """loss = Σ w⁺ · t / N + Σ w⁻ · max(negative_margin - x, 0) / N: the first sum over the labels' distances x, t = x -
    positive_margin from 0 to positive_outlier_thresh; the second over those of the other classes.

    x (N, C...), label (N), integers 0 to C - 1; the second top has the means of t and of the other terms (2), and where
    add_intra_mae a running mean of t (3), which is added to negative_margin, up to max_negative_margin. Defaults:
    positive_margin 0, negative_margin 1, positive_weight w⁺ and negative_weight w⁻ 1, positive_outlier_thresh 4, from
    which on x has no gradient. exp_negative_weight: e^-x in place of the other terms; positive_first: a sample whose x
    is above positive_upper_bound has none; max_negative_only: the nearest other class alone; max_positive_only: one
    sample's label alone; normalize_negative: limits the gradients of the other terms. Runs on the host. Errors: labels
    out of range. Source: Wang et al. 2017 (NormFace), as in happynear/caffe-windows,
    general_constrastive_loss_layer.cpp.
    """

    field = "general_contrastive_loss_param"
    tops = (1, 2)
    requires_host = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n = bottoms[0][0] if bottoms[0] else 1
        self.split = n, math.prod(bottoms[0]) // max(1, n)
        require.labels(self, bottoms, n)
        self.couples_samples = True
        return [(), (3 if self.p.add_intra_mae else 2,)][: len(self.spec.top)]

    def build(self, dev: Device) -> None:
        self._bad = 0
        if self.p.add_intra_mae and not self.carried:
            self.carried = [dev.zeros(1)]

    def forward(self, x: list, y: list) -> None:
        p, (n, c) = self.p, self.split
        distances = self.dev.download(x[0]).reshape(n, c).astype(float)
        labels = self.dev.download(x[1]).reshape(-1)
        own = np.arange(c) == labels[:, None]
        if not own.any(1).all():
            self._bad = self._bad or 1 + int(np.argmin(own.any(1)))
        mean = float(self.dev.download(self.carried[0])[0]) if p.add_intra_mae else 0.0
        self._margin = p.negative_margin + mean
        with np.errstate(over="ignore"):
            near, powers = own | (distances < self._margin), np.exp(-distances)
        clipped = np.minimum(np.maximum(distances - p.positive_margin, 0), p.positive_outlier_thresh)
        apart = np.where(near & ~own, self._margin - distances, np.where(np.isnan(distances), np.nan, 0))
        pulled, pushed = np.where(own, clipped, 0), np.where(own, 0, apart)
        terms = pulled * p.positive_weight
        terms += p.negative_weight * (np.where(near & ~own, powers, pushed) if p.exp_negative_weight else pushed)
        self._mask = self._counted(distances, own, terms)
        self.dev.upload(y[0], np.asarray(np.abs(terms * self._mask).sum() / n))
        means = [pulled.sum() / n, pushed.sum() / n / max(1, c - 1)]
        if p.add_intra_mae:
            mean = min(0.99 * mean + 0.01 * means[0], p.max_negative_margin)
            self.dev.upload(self.carried[0], np.array([mean]))
            means.append(mean)
        if len(y) > 1:
            self.dev.upload(y[1], np.array(means))

    def _counted(self, distances: np.ndarray, own: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """Which terms count."""
        p, mask = self.p, np.ones(terms.shape)
        if p.positive_first:
            mask[(distances * own).sum(1) > p.positive_upper_bound] = 0
            mask[own] = 1
        if p.max_positive_only:
            labels = np.where(own, terms, np.inf)
            mask[own & (np.arange(len(terms)) != np.argmin(labels.min(1)))[:, None]] = 0
        if p.max_negative_only:
            others = np.where(own, -np.inf, terms * mask)
            mask[~own & (np.arange(terms.shape[1]) != np.argmax(others, 1)[:, None])] = 0
        return mask

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        p, (n, c) = self.p, self.split
        distances = self.dev.download(x[0]).reshape(n, c).astype(float)
        own = np.arange(c) == self.dev.download(x[1]).reshape(-1)[:, None]
        inside = (distances > p.positive_margin) & (distances < p.positive_outlier_thresh)
        slopes = np.where(own & inside, p.positive_weight, 0.0)
        if p.positive_first:
            slopes[own & (distances > p.positive_upper_bound)] = p.positive_weight
        push = np.exp(-distances) if p.exp_negative_weight else 1.0
        pushes = np.where(~own & (distances < self._margin), push * p.negative_weight, 0.0) * self._mask
        if p.HasField("normalize_negative") and p.normalize_negative:
            total = abs(pushes.sum()) / p.normalize_negative / n
            pushes /= total if total > p.positive_weight else 1
        weight = float(self.dev.download(dy[0]).reshape(-1)[0]) / n
        self.dev.upload(dx[0], ((slopes * self._mask - pushes) * weight).reshape(x[0].shape))

    def faults(self) -> str | None:
        if not self._bad:
            return None
        what = f"is no class (sample {self._bad - 1} of the batch); expected integers 0 to {self.split[1] - 1}"
        return f'a label in bottom "{self.spec.bottom[1]}" {what}'
