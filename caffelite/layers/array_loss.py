"""Losses that are NumPy-like code over whole arrays, the same on every device."""

from types import ModuleType
from typing import Any

from .base import require
from .base.arrays import ArrayLayer
from .base.layer import Shape, register_variant
from .loss import Loss


class ArrayLoss(ArrayLayer, Loss):
    """A loss over arrays, which checks its labels while it runs."""

    _fault: str | None = None

    def faults(self) -> str | None:
        return self._fault

    def classes_of(self, xp: ModuleType, labels: Any, fewest: int, most: int, ignored: int | None = None) -> tuple:
        """The labels as integers, and which count; faults: labels that are no integers from fewest to most."""
        classes = xp.trunc(labels)
        counts = xp.ones(labels.shape, bool) if ignored is None else classes != ignored
        wrong = counts & ~((labels == classes) & (fewest <= labels) & (labels <= most))
        if wrong.any():
            index = int(wrong.reshape(-1).argmax())
            sample = index * len(labels) // labels.size
            what = f'a label in bottom "{self.spec.bottom[1]}" is no class (sample {sample} of the batch)'
            self._fault = self._fault or f"{what}; expected integers {fewest} to {most}"
        return xp.where(counts & ~wrong, classes, fewest).astype("int64"), counts


def softplus(xp: ModuleType, z: Any) -> Any:
    """ln(1 + e^z)."""
    return xp.maximum(z, 0) + xp.log1p(xp.exp(-xp.abs(z)))


@register_variant(lambda spec: len(spec.bottom) == 3)
class WeightedSigmoidCrossEntropyLoss(ArrayLayer):
    """loss = -Σ w (t log σ(x) + (1 - t) log(1 - σ(x))) / Σ w: x, targets t and weights w of one size, (N, ...).
    Selected by a third bottom.

    Where Σ w is 0 the loss is 0; the fork leaves that of the pass before. loss_param has no effect, as there. Errors:
    bottoms of different sizes. Source: Dai et al. 2016 (MNC), as in daijifeng001/caffe-mnc
    src/caffe/layers/sigmoid_cross_entropy_loss_layer.cpp.
    """

    type = "SigmoidCrossEntropyLoss"
    bottoms = (3, 3)
    loss = True
    constant_bottoms = frozenset({1, 2})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i in (1, 2):
            require.same_count(self, bottoms, 0, i)
        return [()]

    @staticmethod
    def _read(xp: ModuleType, x: tuple) -> tuple:
        """Scores, targets, and weights over their sum."""
        scores, targets, weights = (blob.reshape(-1) for blob in x)
        total = weights.sum()
        return scores, targets, weights / xp.where(total > 0, total, 1)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        scores, targets, weights = self._read(xp, x)
        return (weights * (softplus(xp, scores) - scores * targets)).sum()

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        scores, targets, weights = self._read(xp, x)
        slope = weights * (xp.exp(-softplus(xp, -scores)) - targets) * dy[0]
        return slope.reshape(x[0].shape), None, None


@register_variant(lambda spec: len(spec.bottom) == 3)
class WeightedEuclideanLoss(ArrayLayer):
    """loss = Σ (w (a - b))² / 2N: a, b and weights w of one size, (N, ...). Selected by a third bottom.

    a and b get gradients, which are w (a - b) / N of a, as in the fork: not the derivative, unless w is 0 or 1. Errors:
    bottoms of different sizes. Source: naibaf7/caffe src/caffe/layers/euclidean_loss_layer.cpp.
    """

    type = "EuclideanLoss"
    bottoms = (3, 3)
    loss = True
    constant_bottoms = frozenset({2})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i in (1, 2):
            require.same_count(self, bottoms, 0, i)
        self.count = bottoms[0][0] if bottoms[0] else 1
        return [()]

    def _errors(self, x: tuple) -> Any:
        a, b, weights = (blob.reshape(-1) for blob in x)
        return weights * (a - b)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return (self._errors(x) ** 2).sum() / (2 * self.count)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        slope = self._errors(x) * (dy[0] / self.count)
        return slope.reshape(x[0].shape), -slope.reshape(x[1].shape), None
