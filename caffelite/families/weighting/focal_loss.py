"""Focal losses: labels of a high probability count little."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ... import caffelite_pb2 as pb
from ...layers.facets import Compares
from ...layers.layer import register
from .softmax_terms import SoftmaxTerms, power


@register
@Compares(classes=True, probability="Softmax")
class FocalLoss(SoftmaxTerms):
    """loss = -Σ alpha (1 - p)^gamma ln p / divisor, p the probability of a label by the softmax of x along `axis`.

    x (N, C, P...), label (N, P...), integers 0 to C - 1; tops: the loss () and optionally the probabilities. Divisor by
    loss_param as SoftmaxWithLoss. Defaults: alpha 0.25, gamma 2 (in some forks `gama`), axis 1. Errors: labels out of
    range, gamma below 0, type LINEAR. Source: Lin et al. 2017, as in zimenglan-sysu-512/Focal-Loss and
    liaomingg/Focal-Loss, focal_loss_layer.cpp.
    """

    field = "focal_loss_param"
    tops = (1, 2)

    def setup(self) -> None:
        super().setup()
        p = self.p
        self.softmax_axis = p.axis
        self.power = p.gama if p.HasField("gama") else p.gamma
        if p.type == pb.FocalLossParameter.LINEAR:
            raise self.error("type LINEAR is not supported", "type", expected="ORIGIN")
        if not self.power >= 0:
            name = "gama" if p.HasField("gama") else "gamma"
            raise self.error(f"a bad {name}", name, expected="0 or more", found=f"{self.power:g}")

    def term(self, xp: ModuleType, log_p: Any) -> Any:
        return -self.p.alpha * (1 - xp.exp(log_p)) ** self.power * log_p

    def slope(self, xp: ModuleType, log_p: Any) -> Any:
        p = xp.exp(log_p)
        rest = self.power * p * log_p * power(xp, 1 - p, self.power - 1) if self.power else 0.0
        return self.p.alpha * (rest - (1 - p) ** self.power)


@register
class SoftmaxFocalLoss(FocalLoss):
    """FocalLoss, x (N, C, P...), label (N, P...), under its other name in zimenglan-sysu-512/Focal-Loss."""
