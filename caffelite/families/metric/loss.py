"""Losses of distances between samples: HashingLoss, TripletLoss and LiftedStructSimilaritySoftmaxLoss."""

import math
from types import ModuleType
from typing import Any

import numpy as np

from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.array_loss import ArrayLoss
from ...layers.base import require
from ...layers.base.layer import Shape, register
from ...layers.loss import Loss


@register
class HashingLoss(ArrayLoss):
    """loss = Σ pair(i, j) / (N (N - 1)) + tradeoff · Σ ||x| - 1| / N over the pairs i < j, pair = |x_i - x_j|² of one
    class, else max(bi_margin - |x_i - x_j|², 0): the signs of x become a code of its class.

    x (N, C...), label (N), or (N, L) of labels that are 0 or 1, where samples that share one are of one class.
    Defaults: bi_margin 1, tradeoff 0.01. The gradient of the pairs is half the derivative, as in the fork. Errors: no
    label for a sample. Source: Liu et al. 2016, as in lhmRyan/deep-supervised-hashing-DSH,
    src/caffe/layers/hashing_loss_layer.cpp.
    """

    field = "hashing_loss_param"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n = bottoms[0][0] if bottoms[0] else 1
        if bottoms[1][:1] != (n,):
            require.labels(self, bottoms, n)
        self.n = n
        self.couples_samples = True
        return [()]

    def _pairs(self, xp: ModuleType, x: Any, label: Any) -> tuple[Any, Any, Any, Any]:
        """The samples, the squares of their distances, which are of one class, and which others are too near."""
        samples, labels = x.reshape(self.n, -1).astype("float64"), label.reshape(self.n, -1)
        lengths = (samples**2).sum(1)
        squares = xp.maximum(lengths[:, None] + lengths - 2 * samples @ samples.T, 0)
        same = labels @ labels.T > 0 if labels.shape[1] > 1 else xp.trunc(labels) == xp.trunc(labels.T)
        return samples, squares, same, ~same & (squares < self.p.bi_margin)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        samples, squares, same, near = self._pairs(xp, *x)
        pairs = xp.where(same, squares, 0) + xp.where(near, self.p.bi_margin - squares, 0)
        total = xp.triu(pairs, 1).sum() / max(1, self.n * (self.n - 1))
        return total + self.p.tradeoff * xp.abs(xp.abs(samples) - 1).sum() / self.n

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        samples, _, same, near = self._pairs(xp, *x)
        signs = same.astype("float64") - near
        slope = (signs.sum(1)[:, None] * samples - signs @ samples) / max(1, self.n * (self.n - 1))
        outward = (samples >= 1) | ((samples <= 0) & (samples >= -1))
        slope += xp.where(outward, 1, -1) * (self.p.tradeoff / self.n)
        return (slope * dy[0]).reshape(x[0].shape), None


@register
class LiftedStructSimilaritySoftmaxLoss(Loss):
    """loss = Σ max(d(i, j) + ln Σ e^(margin - d), 0)² / 2P over the P pairs i < j of one label, the inner sum over the
    distances d of i and of j to all samples of other labels; d is Euclidean.

    x (N, C...), label (N), numbers of any kind. Defaults: margin 1. A pair has no loss where every sample has its
    label, and samples in one place no gradient of their distance. The host computes it. Errors: another number of
    labels. Source: Song et al. 2016, as in xw-hu/SINet, src/caffe/layers/lifted_struct_similarity_softmax_layer.cpp.
    """

    field = "lifted_struct_sim_softmax_loss_param"
    requires_host = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n = bottoms[0][0] if bottoms[0] else 1
        self.split = n, math.prod(bottoms[0]) // n
        require.labels(self, bottoms, n)
        self.couples_samples = True
        return [()]

    def _pairs(self, x: list) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The samples, their distances, which share a label, and the pairs that have a loss."""
        samples = self.dev.download(x[0]).astype(float).reshape(self.split)
        labels = self.dev.download(x[1]).reshape(-1)
        squares = (samples**2).sum(1)
        distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * samples @ samples.T, 0))
        same = labels[:, None] == labels
        pairs = np.argwhere(np.triu(same, 1) & ~same.all(1)[:, None])
        return samples, distances, same, pairs

    def _term(self, distances: np.ndarray, same: np.ndarray, i: int, j: int) -> tuple[float, np.ndarray]:
        """max(d + ln Σ e^(margin - d), 0) of a pair, and each summand's share of the sum, of i and of j."""
        gaps = np.where(same[[i, j]], -np.inf, self.p.margin - distances[[i, j]])
        top = gaps.max()
        powers = np.exp(gaps - top)
        total = powers.sum()
        return np.maximum(distances[i, j] + np.log(total) + top, 0), powers / total

    def forward(self, x: list, y: list) -> None:
        _, distances, same, pairs = self._pairs(x)
        terms = [self._term(distances, same, i, j)[0] for i, j in pairs]
        self.dev.upload(y[0], np.asarray(np.square(terms).sum() / (2 * max(1, len(pairs)))))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        samples, distances, same, pairs = self._pairs(x)
        slopes = np.zeros_like(distances)  # by each distance
        for i, j in pairs:
            term, shares = self._term(distances, same, i, j)
            slopes[i, j] += term
            slopes[[i, j]] -= term * shares
        slopes = np.divide(slopes, distances, out=np.zeros_like(slopes), where=distances != 0)
        slopes = (slopes + slopes.T) * (float(self.dev.download(dy[0]).reshape(-1)[0]) / max(1, len(pairs)))
        gradient = slopes.sum(1)[:, None] * samples - slopes @ samples
        self.dev.upload(dx[0], gradient.reshape(dx[0].shape))


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
        names = ("a", "p", "n", "gap"), ("dloss",), ("count",)
        formulas = (Formula(f"{side} * dloss / count", *names) for side in SIDES)
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
