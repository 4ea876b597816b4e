"""AbsLoss: absolute errors, some of which do not count."""

from __future__ import annotations

from ... import caffelite_pb2 as pb
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers import require
from ...layers.facets import Compares
from ...layers.layer import Shape, register
from ...layers.loss import Loss, unless_ignored


@register
@Compares(values=True)
class AbsLoss(Loss):
    """loss = Σ |a - b| / N, a, b (N, ...) of one count, both get gradients. Values of b, cut to integers, that are
    ignore_label do not count, or with ignore_mode THRES that are at least ignore_label.

    Source: Garg et al. 2016, as in MediaLabTJU/IterNet-RGB-D, layer/abs_loss_layer.cpp, which has no ignore_label and
    whose slope at 0 is -1; here it is 0.
    """

    constant_bottoms = frozenset()
    takes_ignore_mode = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.same_count(self, bottoms, 0, 1)
        self.n = bottoms[0][0] if bottoms[0] else 1
        return [()]

    def _counted(self, text: str) -> tuple[str, dict[str, float]]:
        """A formula's text that is 0 where the label t does not count; its constants."""
        ignored = self.ignored()
        if ignored is None or self.spec.loss_param.ignore_mode == pb.LossParameter.VALUE:
            return unless_ignored(text, ignored)
        return f"where(t {'>=' if ignored > 0 else '>'} least, 0, {text})", {"least": ignored - (ignored <= 0)}

    def build(self, dev: Device) -> None:
        text, constants = self._counted("abs(x - t)")
        self._sum = dev.sum(Formula(text, ("x", "t"), constants=tuple(constants)), 1 / self.n, **constants)
        self._slopes = []
        for sign in ("", "-"):
            text, constants = self._counted(f"{sign}sign(x - t) * dloss / n")
            formula = Formula(text, ("x", "t"), ("dloss",), (*constants, "n"))
            self._slopes.append(dev.map(formula, n=self.n, **constants))

    def forward(self, x: list, y: list) -> None:
        self._sum(*x, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for gradient, slope in zip(dx, self._slopes, strict=True):
            if gradient is not None:
                slope(*x, dy[0], gradient)
