"""OrdinalRegressionLoss: labels with an order, as one question for each rank."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from ...layers import class_weights, require
from ...layers.array_loss import ArrayLoss, softplus
from ...layers.layer import Shape, register


@register
class OrdinalRegressionLoss(ArrayLoss):
    """loss = -Σ w_j log p_j / N: x (N, 2K) are the scores of no and yes to K questions, whether the label is above j,
    p_j the probability of the right one by their softmax; label (N), integers 0 to K.

    k: K, by default half the channels. weight_file: K numbers w (default 1). Errors: another number of channels, labels
    out of range. Source: Niu et al. 2016, as in luoyetx/OrdinalRegression,
    src/caffe/layers/ordinal_regression_loss_layer.cpp, whose gradient ignores loss_weight.
    """

    field = "ordinal_regression_loss_param"
    files = ("ordinal_regression_loss_param.weight_file",)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.channels(self, bottoms)
        n, width = bottoms[0][0], math.prod(bottoms[0][1:])
        self.k = self.p.k if self.p.HasField("k") else width // 2
        if not self.k or width != 2 * self.k:
            expected = f"{2 * self.k} values" if self.k else "two values for each rank"
            raise self.bottom_error(0, "does not fit", expected=f"{expected} of each sample", found=list(bottoms[0]))
        require.labels(self, bottoms, n)
        self.rank_weights = self._weights()
        return [()]

    def _weights(self) -> np.ndarray:
        if not self.p.weight_file:
            return np.ones(self.k)
        values, where = class_weights.of_file(self, self.p.weight_file, self.field, "weight_file")
        if len(values) < self.k:
            what = f'layer "{self.name}" ({self.type}): weights are missing'
            raise where.error(what, expected=f"{self.k} numbers", found=len(values))
        return np.array(values[: self.k])

    def _read(self, xp: ModuleType, x: tuple) -> tuple:
        """By how much each yes exceeds its no, the sign of the right one, and the weights."""
        pairs = x[0].reshape(len(x[0]), self.k, 2)
        labels, _ = self.classes_of(xp, x[1].reshape(-1, 1), 0, self.k)
        sign = xp.where(xp.arange(self.k) < labels, 1.0, -1.0)
        return pairs[..., 1] - pairs[..., 0], sign, xp.asarray(self.rank_weights) / len(x[0])

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        gap, sign, weights = self._read(xp, x)
        return (weights * softplus(xp, -sign * gap)).sum()

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        gap, sign, weights = self._read(xp, x)
        slope = -dy[0] * weights * sign * (1 - xp.tanh(sign * gap / 2)) / 2
        return xp.stack([-slope, slope], -1).reshape(x[0].shape), None
