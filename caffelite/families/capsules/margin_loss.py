"""MarginLoss: the capsule of the label shall be long, and the others short."""

from types import ModuleType
from typing import Any

from ...layers.array_loss import ArrayLoss
from ...layers.base import require
from ...layers.base.layer import Shape, register
from .capsule import LEAST, groups


@register
class MarginLoss(ArrayLoss):
    """loss = Σ (max(m_upper_bound - r, 0)² for the label's capsule, lambda · max(r - m_lower_bound, 0)² for the others)
    / N: x (N, ...), num_class capsules of length r, label (N), integers 0 to num_class - 1.

    Errors: no multiple of num_class, labels out of range. Source: Sabour et al. 2017, as in
    chenzhenhua986/CAFFE-CapsNet, src/caffe/layers/margin_loss_layer.cpp, whose gradient is neither divided by N nor
    multiplied by loss_weight.
    """

    field = "margin_param"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, width = groups(self, bottoms, "num_class")
        require.labels(self, bottoms, n)
        self.split = n, self.p.num_class, width
        return [()]

    def _read(self, xp: ModuleType, x: tuple) -> tuple:
        """The capsules, their lengths, by how much these are wrong, signed, and their weights."""
        p, capsules = self.p, x[0].reshape(self.split)
        lengths = xp.sqrt((capsules**2).sum(2) + LEAST)
        labels, _ = self.classes_of(xp, x[1].reshape(-1, 1), 0, self.p.num_class - 1)
        own = xp.arange(p.num_class) == labels
        wrong = xp.where(own, xp.minimum(lengths - p.m_upper_bound, 0), xp.maximum(lengths - p.m_lower_bound, 0))
        return capsules, lengths, wrong, xp.where(own, 1.0, getattr(p, "lambda")) / self.split[0]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        _, _, wrong, weights = self._read(xp, x)
        return (weights * wrong**2).sum()

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        capsules, lengths, wrong, weights = self._read(xp, x)
        slopes = dy[0] * 2 * weights * wrong / lengths
        return (slopes[..., None] * capsules).reshape(x[0].shape), None
