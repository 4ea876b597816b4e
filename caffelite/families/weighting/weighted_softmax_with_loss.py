"""Log losses of weighted labels."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from ...layers import require
from ...layers.array_loss import ArrayLoss, softplus
from ...layers.facets import Compares
from ...layers.layer import Shape, register
from ...layers.loss import LOSS
from .softmax_terms import SoftmaxTerms


class LogTerms(SoftmaxTerms):
    """The terms of SoftmaxWithLoss."""

    field = "softmax_param"

    def setup(self) -> None:
        super().setup()
        self.softmax_axis = self.p.axis

    def term(self, xp: ModuleType, log_p: Any) -> Any:
        return -log_p

    def slope(self, xp: ModuleType, log_p: Any) -> Any:
        return -1.0


@register
@Compares(classes=True, probability="Softmax")
class WeightedSoftmaxWithLoss(LogTerms):
    """loss = -Σ w log softmax(x)[label] / divisor along softmax_param.axis (default 1), a weight for each label.

    x (N, C, P...), label (N, P...), integers 0 to C - 1, weights of their number; tops: the loss () and optionally the
    probabilities. Divisor by loss_param.normalization: VALID (default: Σ w of labels that are not ignored, at least 1),
    FULL, BATCH_SIZE, NONE, PRE_FIXED as SoftmaxWithLoss. Errors: labels out of range. As in the forks with a
    src/caffe/layers/weighted_softmax_loss_layer.cpp of three bottoms.
    """

    bottoms = (3, 3)
    tops = (1, 2)
    constant_bottoms = frozenset({1, 2})

    @property
    def weighted_mean(self) -> bool:
        return True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.same_count(self, bottoms, 1, 2)
        return super().shapes(bottoms)

    def weights(self, xp: ModuleType, x: tuple) -> Any:
        return x[2].reshape(self.split[0], self.split[2])

    def label_total(self, xp: ModuleType, weights: Any, counts: Any) -> Any:
        return xp.maximum(weights.sum(), 1)


@register
class MultiSoftmaxLoss(LogTerms):
    """loss = -Σ log softmax(x)[label - 1] / N: x (N, C, P...), label (N, P...), integers 1 to C. MULTI_SOFTMAX_LOSS of
    xiaolonw/caffe-3dnormal_joint_pose, which shows it divided by 336."""

    default_normalization = LOSS.BATCH_SIZE
    first_label = 1


@register
class WeightedSigmoidCrossEntropyLoss(ArrayLoss):
    """loss = -2 Σ (w t log σ(x) + (1 - w) (1 - t) log(1 - σ(x))) / N: x (N, ...), targets t and weights w of one count.
    As in the forks with a src/caffe/layers/weighted_sigmoid_cross_entropy_loss_layer.cpp."""

    bottoms = (3, 3)
    constant_bottoms = frozenset({1, 2})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.same_count(self, bottoms, 0, 1)
        require.same_count(self, bottoms, 0, 2)
        self.scale = 2 / (bottoms[0][0] if bottoms[0] else 1)
        return [()]

    def _weights(self, x: tuple) -> tuple:
        """Of log σ(x) and of log(1 - σ(x))."""
        t, w = x[1].reshape(x[0].shape), x[2].reshape(x[0].shape)
        return self.scale * w * t, self.scale * (1 - w) * (1 - t)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        high, low = self._weights(x)
        return (high * softplus(xp, -x[0]) + low * softplus(xp, x[0])).sum()

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        high, low = self._weights(x)
        sigmoid = (1 + xp.tanh(x[0] / 2)) / 2
        return dy[0] * (low * sigmoid - high * (1 - sigmoid)), None, None


@register
class AngleLoss(ArrayLoss):
    """loss = Σ acos(Σ x t) / N: the angles between unit vectors along axis 1, x, t (N, C, P...). A place whose t is
    beyond ±10 in channel 0 is unknown and does not count. dx = -t / (√(1 - d²) + 1e-6) / N, d = Σ x t. ANGLE_LOSS of
    xiaolonw/caffe-3dnormal_joint_pose, src/caffe/layers/angle_loss_layer.cpp."""

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.channels(self, bottoms)
        require.same_count(self, bottoms, 0, 1)
        self.split = *bottoms[0][:2], math.prod(bottoms[0][2:])
        return [()]

    def _read(self, xp: ModuleType, x: tuple) -> tuple:
        """The targets, the cosines of the angles, and which are known."""
        target = x[1].reshape(self.split)
        known = xp.abs(target[:, :1]) <= 10
        target = xp.where(known, target, 0.0)
        return target, (x[0].reshape(self.split) * target).sum(1, keepdims=True), known

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        _, cosines, known = self._read(xp, x)
        return xp.where(known, xp.arccos(cosines), 0.0).sum() / self.split[0]

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        target, cosines, _ = self._read(xp, x)
        scale = dy[0] / self.split[0]
        return (-scale * target / (xp.sqrt(1 - cosines**2) + 1e-6)).reshape(x[0].shape), None
