"""Sigmoid losses of classes per pixel, whose labels are the bits of a float: of CASENet and SEAL."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from ...layers.array_loss import softplus
from ...layers.arrays import ArrayLayer
from ...layers.layer import Shape, register

BITS = 32
IGNORED = BITS - 1  # the bit of a pixel that does not count
SUBNORMAL = 2.0**-149  # the least positive float32; the bits of values below 2**-126 are multiples of it


def float32_bits(xp: ModuleType, values: Any) -> Any:
    """The bits of values as float32, as uint32. CuPy rounds float64 below 2**-126 to 0; those are divided."""
    bits = xp.ascontiguousarray(values.astype(xp.float32)).view(xp.uint32)
    if values.dtype == xp.float32:
        return bits
    small = abs(values) < 2.0**-126
    multiples = (xp.where(small, abs(values), 0.0) / SUBNORMAL).astype(xp.uint32)
    return xp.where(small, multiples | xp.signbit(values).astype(xp.uint32) << IGNORED, bits)


@register
class MultiChannelSigmoidCrossEntropyLoss(ArrayLayer):
    """loss = -Σ (t ln p + (1 - t) ln(1 - p)) / N, p = sigmoid(x): scores x (N, C, P...), labels (N, 1, P...).

    The bits of a label as float32 are its classes: t of class k is bit k, of the lowest value first. A pixel whose bit
    31, the sign, is set does not count. Errors: more than 31 classes, labels of another number of pixels. Source:
    Chrisding/seal src/caffe/layers/multichannel_sigmoid_cross_entropy_loss_layer.cpp, and guomugong/FFIA.
    """

    bottoms = (2, 2)
    loss = True
    constant_bottoms = frozenset({1})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        (n, self.classes, *pixels), (_, maps, *_) = ((*shape, 1, 1)[: max(2, len(shape))] for shape in bottoms)
        size = math.prod(pixels)
        if math.prod(bottoms[1]) != n * maps * size or not self.fits(maps):
            raise self.bottom_error(1, "does not fit", expected=self.expected(n, size), found=list(bottoms[1]))
        self.split, self.bits = (n, self.classes, size), (n, maps, size)
        return [()]

    def fits(self, maps: int) -> bool:
        """Whether the maps of labels have a bit for each class and one more."""
        return maps == 1 and self.classes < BITS

    def expected(self, n: int, size: int) -> str:
        return f"{n}×1×{size} labels, of at most {IGNORED} classes"

    def _read(self, xp: ModuleType, x: tuple) -> tuple[Any, Any, Any]:
        """Scores, classes (N, C, P) and which pixels count (N, 1, P)."""
        bits = float32_bits(xp, x[1]).reshape(self.bits)
        classes = xp.arange(self.classes)
        shown = bits[:, classes // BITS] >> (classes % BITS).astype(xp.uint32)[:, None] & 1
        return x[0].reshape(self.split), shown == 1, bits[:, -1:] >> IGNORED == 0

    def weights(self, xp: ModuleType, shown: Any, counts: Any) -> Any:
        """Of each score's loss, those of pixels that do not count aside."""
        return 1.0

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        scores, shown, counts = self._read(xp, x)
        terms = xp.where(counts, softplus(xp, xp.where(shown, -scores, scores)), 0.0)
        return (self.weights(xp, shown, counts) * terms).sum() / self.split[0]

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        scores, shown, counts = self._read(xp, x)
        sign = xp.where(shown, -1.0, 1.0)
        share = (1 + xp.tanh(sign * scores / 2)) / 2
        slopes = xp.where(counts, sign * share, 0.0) * self.weights(xp, shown, counts)
        return (slopes * (dy[0] / self.split[0])).reshape(x[0].shape), None


@register
class MultiChannelReweightedSigmoidCrossEntropyLoss(MultiChannelSigmoidCrossEntropyLoss):
    """MultiChannelSigmoidCrossEntropyLoss of scores x (N, C, P...) and labels (N, L, P...), balanced by the pixels of
    each image: the loss of a class that a pixel has counts by the share of pixels without a class, that of others by
    the share of pixels with one.

    Class k is bit k mod 32 of map k // 32; bit 31 of the last map marks pixels that do not count. Errors: 32 L classes
    or more, labels of another number of pixels. Differs: the fork counts pixels whose label is not 0 in the first C //
    32 + 1 maps, here those with one of the C classes. Source: Chrisding/seal
    src/caffe/layers/multichannel_reweighted_sigmoid_cross_entropy_loss_layer.cpp (CASENet, Yu et al. 2017).
    """

    def fits(self, maps: int) -> bool:
        return self.classes < BITS * maps

    def expected(self, n: int, size: int) -> str:
        return f"{n}×L×{size} labels, {self.classes // BITS + 1} or more maps L"

    def weights(self, xp: ModuleType, shown: Any, counts: Any) -> Any:
        edges = (shown.any(1, keepdims=True) & counts).sum(2, keepdims=True)
        every = counts.sum(2, keepdims=True)
        share = edges / xp.maximum(every, 1)
        return xp.where(every > 0, xp.where(shown, 1 - share, share), 0.0)
