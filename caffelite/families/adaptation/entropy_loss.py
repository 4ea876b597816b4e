"""EntropyLoss: how uncertain predictions are."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ...layers.arrays import ArrayLayer
from ...layers.layer import Shape, register, split_axis
from ...layers.loss import Loss


@register
class EntropyLoss(ArrayLayer, Loss):
    """loss = -Σ p ln p / divisor, p the softmax of x (N, C, P...) along axis 1; divisor by loss_param.normalization as
    SoftmaxWithLoss without labels: VALID and FULL N·P.

    With entropy_param or a second bottom, which is not read, x are probabilities p themselves: terms below threshold
    (0.001) do not count, and the divisor is N. Sources: mancinimassimiliano/latent_domains_DA and thuml/Xlearn,
    src/caffe/layers/entropy_loss_layer.cpp; iterations_num, without loss before them, and ignore_label have no effect.
    """

    field = "entropy_param"
    bottoms = (1, 2)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.axis(1, len(bottoms[0]))
        n, _, p = split_axis(bottoms[0], 1)
        self.of_probabilities = len(bottoms) > 1 or self.spec.HasField(self.field)
        self.divide = float(n) if self.of_probabilities else self.divisor(n, n * p) or 1.0
        return [()]

    def _logs(self, xp: ModuleType, x: Any) -> tuple:
        """p, ln p, and which terms count."""
        if self.of_probabilities:
            counts = ~(x < self.p.threshold)
            return x, xp.log(xp.where(counts, x, 1.0)), counts
        far = x - x.max(1, keepdims=True)
        logs = far - xp.log(xp.exp(far).sum(1, keepdims=True))
        return xp.exp(logs), logs, True

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        p, logs, _ = self._logs(xp, x[0])
        return -(p * logs).sum() / self.divide

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        p, logs, counts = self._logs(xp, x[0])
        slope = (
            xp.where(counts, 1 + logs, 0.0) if self.of_probabilities else p * (logs - (p * logs).sum(1, keepdims=True))
        )
        return -dy[0] / self.divide * slope, *[None] * (len(x) - 1)
