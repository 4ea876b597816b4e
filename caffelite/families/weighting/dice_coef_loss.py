"""DiceCoefLoss: the overlap of two maps."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from ... import caffelite_pb2 as pb
from ...layers import require
from ...layers.array_loss import ArrayLoss
from ...layers.layer import Shape, register


@register
class DiceCoefLoss(ArrayLoss):
    """loss = 1 - Σ (2 Σ w x t + s) / (Σ w x² + Σ w t² + s) / N: maps x and targets t (N, C, P...) of one size, the
    inner sums over each sample; t gets no gradient.

    generalization NONE (default) and MULTICLASS: w = 1, s = 1. MULTICLASS_WEIGHTED: w = 1 / (1 + Σ t)² of each channel
    of each sample, s = 1 / P². The channel ignore_label (default -1: none) has w = 0 in both of the latter. As in
    HolmesShuan/A-Variation-of-Dice-coefficient-Loss-Caffe-Layer and fantes/caffe,
    src/caffe/layers/dice_coef_loss_layer.cpp, whose weighted gradient is another one. contour_shape is not supported.
    """

    field = "dice_coef_loss_param"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.channels(self, bottoms)
        require.same_count(self, bottoms, 0, 1)
        self.split = n, c, p = *bottoms[0][:2], math.prod(bottoms[0][2:])
        require.fits(self, bottoms, 1, bottoms[1][:1] == bottoms[0][:1], f"{n} samples")
        self.weighted = self.p.generalization == pb.DiceCoefLossParameter.MULTICLASS_WEIGHTED
        self.smooth = 1 / p**2 if self.weighted else 1.0
        if self.p.generalization != pb.DiceCoefLossParameter.NONE and not -1 <= self.p.ignore_label < c:
            raise self.error("a bad ignore_label", "ignore_label", expected=f"-1 to {c - 1}", found=self.p.ignore_label)
        return [()]

    def _read(self, xp: ModuleType, x: tuple) -> tuple:
        """Maps, targets, weights, and numerator and denominator of each sample."""
        a, t = (blob.reshape(self.split) for blob in x)
        w = (1 + t.sum(2, keepdims=True)) ** -2.0 if self.weighted else xp.ones_like(t[:, :, :1])
        if self.p.generalization != pb.DiceCoefLossParameter.NONE and self.p.ignore_label >= 0:
            w[:, self.p.ignore_label] = 0
        above = 2 * (w * a * t).sum((1, 2), keepdims=True) + self.smooth
        return a, t, w, above, (w * (a**2 + t**2)).sum((1, 2), keepdims=True) + self.smooth

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        above, below = self._read(xp, x)[3:]
        return 1 - (above / below).mean()

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        a, t, w, above, below = self._read(xp, x)
        slopes = 2 * w * (a * above / below - t) / below / self.split[0]
        return (dy[0] * slopes).reshape(x[0].shape), None
