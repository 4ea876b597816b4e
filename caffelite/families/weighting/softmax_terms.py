"""Losses that are a sum of terms of the probabilities of labels."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from ...layers import require
from ...layers.array_loss import ArrayLoss
from ...layers.layer import Shape, split_axis


class SoftmaxTerms(ArrayLoss):
    """loss = Σ w · term(p) / divisor, p the probability of a label by the softmax of x along an axis."""

    softmax_axis = 1
    first_label = 0

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.softmax_axis, len(bottoms[0]))
        self.split = n, self.count, p = split_axis(bottoms[0], axis)
        require.labels(self, bottoms, n * p, axis=axis)
        self.divide = self.divisor(n, n * p)
        return [(), bottoms[0]][: len(self.spec.top)]

    def term(self, xp: ModuleType, log_p: Any) -> Any:
        """Of the logarithm of the probability."""
        raise NotImplementedError

    def slope(self, xp: ModuleType, log_p: Any) -> Any:
        """The derivative of ``term`` by the logarithm."""
        raise NotImplementedError

    def weights(self, xp: ModuleType, x: tuple) -> Any:
        """The weight of each label."""
        return 1.0

    def label_total(self, xp: ModuleType, weights: Any, counts: Any) -> Any:
        """The divisor where it is not fixed: the labels that count."""
        return xp.maximum(counts.sum(), 1)

    def _read(self, xp: ModuleType, x: tuple) -> tuple:
        """Logarithms of probabilities, one-hot labels, and the weight of each label over the divisor."""
        scores, labels = x[0].reshape(self.split), x[1].reshape(self.split[0], self.split[2])
        last = self.first_label + self.count - 1
        classes, counts = self.classes_of(xp, labels, self.first_label, last, self.ignored())
        far = scores - scores.max(1, keepdims=True)
        logs = far - xp.log(xp.exp(far).sum(1, keepdims=True))
        hot = xp.arange(self.first_label, last + 1)[:, None] == classes[:, None]
        weights = xp.where(counts, self.weights(xp, x), 0.0)
        return logs, hot, weights / (self.label_total(xp, weights, counts) if self.divide is None else self.divide)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        logs, hot, weights = self._read(xp, x)
        loss = (weights * self.term(xp, xp.where(hot, logs, 0.0).sum(1))).sum()
        return (loss, xp.exp(logs).reshape(x[0].shape))[: len(self.spec.top)]

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        logs, hot, weights = self._read(xp, x)
        slopes = weights * self.slope(xp, xp.where(hot, logs, 0.0).sum(1)) * dy[0]
        return ((hot - xp.exp(logs)) * slopes[:, None]).reshape(x[0].shape), *[None] * (len(x) - 1)


def power(xp: ModuleType, base: Any, exponent: float) -> Any:
    """base^exponent of a base from 0; of 0 with a negative exponent 0, where what it multiplies is 0."""
    return xp.where(base > 0, xp.maximum(base, math.ulp(0.0)) ** exponent, 0.0) if exponent < 0 else base**exponent
