"""Losses of images whose classes are known in part."""

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ...layers.array_loss import ArrayLoss
from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register

EDGE = 1e-10  # how near a probability comes to 0 and 1


@register
class MulticlassCrossEntropyLoss(ArrayLayer):
    """loss = -Σ ln p of classes that an image has, ln(1 - p) of others, / N: p (N, C...) probabilities, labels of one
    size, 0 for no.

    p is kept from 10⁻¹⁰ to 1 - 10⁻¹⁰. The gradient is the fork's: the derivative divided by C, the size of a sample.
    Errors: another number of labels. Source: Tang et al. 2017, as in caffe-oicr
    src/caffe/layers/multi_class_cross_entropy_loss_layer.cu.
    """

    bottoms = (2, 2)
    loss = True
    constant_bottoms = frozenset({1})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.same_count(self, bottoms, 0, 1)
        self.count = bottoms[0][0] if bottoms[0] else 1
        self.classes = math.prod(bottoms[0]) // self.count
        return [()]

    def _shares(self, xp: ModuleType, x: tuple) -> tuple[Any, Any]:
        """The probability of what an image shows, and the sign of its slope."""
        p, has = xp.clip(x[0], EDGE, 1 - EDGE), x[1].reshape(x[0].shape).astype("int64") != 0
        p = xp.where(xp.isnan(x[0]), x[0], p)
        return xp.where(has, p, xp.maximum(1 - p, EDGE)), xp.where(has, -1, 1)  # in float32 1 - EDGE is 1

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return -xp.log(self._shares(xp, x)[0]).sum() / self.count

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        p, sign = self._shares(xp, x)
        return sign / p * (dy[0] / (self.count * self.classes)), None


LEAST = 1.17549435e-38  # of a probability, the smallest normal float32


@dataclass
class Term:
    """Weighted logarithms of probabilities, or where ``others`` of what is left to 1: of class ``classes`` of each
    pixel, or without it of each class at the pixel of its greatest one."""

    classes: Any
    weights: Any
    others: bool


@register
class SoftmaxWithLossExpectation(ArrayLoss):
    """loss of scores x (1, C, P...) and labels (1, 3 or 4, P...), the sum of four terms of p, the softmax of x along
    axis 1; tops: the loss () and optionally p.

    The maps of the labels: the class of each pixel, or ignore_label where it is not known; objectness 0 to 255; the
    classes of the image, one a pixel from the first on, ended by 0; with `ignore_rank: false` weights of pixels times
    255. With m_c the pixel of the greatest p_c of class c, the terms are: -mean ln p_c(m_c) of the image's classes and
    0 (`ignore_classes`); -Σ w ln p / Σ w of the labels of known pixels, w 1 or the weights (`ignore_location`); -mean
    ln(1 - p_c(m_c)) of other classes (`ignore_constraint`); -mean (q ln p_0 + (1 - q) ln(1 - p_0)) of unknown pixels, q
    = 1 - (objectness + 1) / 257 (`ignore_objectness`), which with `ignore_location` is divided by all pixels. A field
    of loss_param with true leaves its term out; normalize_classes, normalize_supervised, normalize_constraint and
    normalize_objectness: false take the sum for the mean.

    Errors: several images, labels of another size, no ignore_label, `is_siftflow`. Differs: the fork's mean by weights
    divides by a number that is not set, and its CPU code has other terms; this is the GPU's. Source:
    abearman/whats-the-point1 caffe/src/caffe/layers/softmax_loss_expectation_layer.cu (Bearman et al. 2016), and
    gramuah/weakly-supervised-segmentation.
    """

    tops = (1, 2)

    def setup(self) -> None:
        super().setup()
        if self.spec.loss_param.is_siftflow:
            raise self.error("is_siftflow is not supported", "loss_param", "is_siftflow", expected="false", outer=True)
        if self.ignored() is None:
            what, expected = "ignore_label is missing", "the label of pixels whose class is not known, as in 255"
            raise self.error(what, "loss_param", expected=expected, outer=True)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, self.classes, *pixels = (*bottoms[0], 1, 1)[: max(2, len(bottoms[0]))]
        self.size = math.prod(pixels)
        maps = 3 + (not self.spec.loss_param.ignore_rank)
        if n != 1:
            raise self.bottom_error(0, "has several images", expected="one", found=n)
        require.fits(self, bottoms, 1, math.prod(bottoms[1]) == maps * self.size, f"1×{maps}×{self.size} labels")
        return [(), bottoms[0]][: len(self.spec.top)]

    def _shown(self, xp: ModuleType, listed: Any) -> Any:
        """Which classes the image has; 0 is one of them."""
        ended = listed < 1
        end = int(ended.argmax()) if ended.any() else self.size
        classes, _ = self.classes_of(xp, listed[None, :end], 0, self.classes - 1)
        every = xp.arange(self.classes)
        return (every[:, None] == classes).any(1) | (every == 0)

    def _terms(self, xp: ModuleType, x: tuple) -> tuple[Any, Any, list[Term]]:
        """Probabilities (C, P), the pixel of the greatest one of each class, and the terms."""
        t, size = self.spec.loss_param, (self.classes, self.size)
        scores, maps = x[0].reshape(size), x[1].reshape(-1, self.size)
        e = xp.exp(scores - scores.max(0))
        shown = self._shown(xp, maps[2])
        labels, known = (each[0] for each in self.classes_of(xp, maps[:1], 0, self.classes - 1, self.ignored()))
        ground, share = xp.zeros(self.size, "int64"), 1 - (xp.trunc(maps[1]) + 1) / 257

        def divided(weights: Any, normal: bool) -> Any:
            return weights / xp.maximum(weights.sum(), LEAST) if normal else weights

        unknown = ~known * 1.0
        if t.normalize_objectness:  # the fork counts pixels that it ignores as unknown, here alone
            unknown = unknown / (self.size if t.ignore_location else xp.maximum(unknown.sum(), 1))
        points = divided(known * (1.0 if t.ignore_rank else maps[3] / 255), t.normalize_supervised)
        terms = [
            (t.ignore_classes, Term(None, divided(shown * 1.0, t.normalize_classes), False)),
            (t.ignore_location, Term(labels, points, False)),
            (t.ignore_constraint, Term(None, divided(~shown * 1.0, t.normalize_constraint), True)),
            (t.ignore_objectness, Term(ground, unknown * share, False)),
            (t.ignore_objectness, Term(ground, unknown * (1 - share), True)),
        ]
        p = e / e.sum(0)
        return p, p.argmax(1), [term for left_out, term in terms if not left_out]

    def _shares(self, xp: ModuleType, p: Any, best: Any, term: Term) -> tuple[Any, Any, Any]:
        """The class, the pixel and the probability of each number that a term reads."""
        pixels = best if term.classes is None else xp.arange(self.size)
        classes = xp.arange(self.classes) if term.classes is None else term.classes
        return classes, pixels, p[classes, pixels]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        p, best, terms = self._terms(xp, x)
        loss = 0.0
        for term in terms:
            _, _, share = self._shares(xp, p, best, term)
            loss = loss - (term.weights * xp.log(xp.maximum(1 - share if term.others else share, LEAST))).sum()
        return (xp.asarray(loss), p.reshape(x[0].shape))[: len(self.spec.top)]

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        p, best, terms = self._terms(xp, x)
        slopes = xp.zeros_like(p)
        for term in terms:
            classes, pixels, share = self._shares(xp, p, best, term)
            slope = term.weights * share / xp.maximum(1 - share, LEAST) if term.others else -term.weights
            # of ln p of class c by score k: 1 where k is c, less p of k
            each = slope * ((xp.arange(self.classes)[:, None] == classes) - p[:, pixels])
            if term.classes is None:
                for i in range(self.classes):  # classes may share a pixel
                    slopes[:, int(pixels[i])] += each[:, i]
            else:
                slopes += each
        return (slopes * dy[0]).reshape(x[0].shape), None
