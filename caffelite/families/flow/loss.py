"""AbsLoss, and L1Loss of FlowNet."""

import math

import numpy as np

from ... import caffelite_pb2 as pb
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.facets import Compares
from ...layers.base.layer import Shape, register, register_variant
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


@register_variant(lambda spec: spec.HasField("l1_loss_param") or len(spec.bottom) == 1)
class FlowL1Loss(Loss):
    """loss = Σ |d| / N over the known values of d = a - b, or of a alone: a, b (N, C, P...), both get gradients; a
    value of d that is NaN is unknown. Selected by l1_loss_param, or by one bottom.

    l2_per_location: Σ √(Σ d² + epsilon) / N, the inner sum over the channels, or their mean with
    l2_prescale_by_channels; unknown values are 0 there. normalize_by_num_entries: divided by the number of known values
    / C instead of by N. plateau: errors below it have no loss; of lengths, that of √epsilon. Defaults: epsilon 0.01,
    plateau 0. The host computes it. Errors: bottoms of different sizes. As in lmb-freiburg/flownet2,
    src/caffe/layers/l1loss_layer.cu.
    """

    type = "L1Loss"
    field = "l1_loss_param"
    bottoms = (1, 2)
    constant_bottoms = frozenset()
    requires_host = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if len(bottoms) > 1:
            require.same_count(self, bottoms, 0, 1)
        shape = require.channels(self, bottoms)
        self.split = shape[0], shape[1], math.prod(shape[2:])
        self.couples_samples = self.p.normalize_by_num_entries
        return [()]

    def _errors(self, x: list) -> tuple[np.ndarray, np.ndarray, float]:
        """The differences, 0 where unknown, which are known, and the divisor."""
        a, *b = (self.dev.download(blob).astype(float).reshape(self.split) for blob in x)
        d = a - b[0] if b else a
        known = ~np.isnan(d)
        divisor = known.sum() / self.split[1] if self.p.normalize_by_num_entries else self.split[0]
        return np.where(known, d, 0), known, float(divisor) or 1.0

    def _lengths(self, d: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """√(Σ d² + epsilon), which lengths reach the plateau, and the factor of the squares."""
        factor = 1 / self.split[1] if self.p.l2_prescale_by_channels else 1.0
        squares = factor * (d**2).sum(1, keepdims=True)
        reached = squares >= self.p.plateau**2 if self.p.plateau > 0 else np.ones(squares.shape, bool)
        return np.sqrt(np.where(reached, squares, 0) + self.p.epsilon), reached, factor

    def forward(self, x: list, y: list) -> None:
        d, _, divisor = self._errors(x)
        if self.p.l2_per_location:
            total = self._lengths(d)[0].sum()
        else:
            total = np.abs(d[np.abs(d) >= self.p.plateau]).sum()
        self.dev.upload(y[0], np.asarray(total / divisor))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        d, known, divisor = self._errors(x)
        weight = float(self.dev.download(dy[0]).reshape(-1)[0]) / divisor
        if self.p.l2_per_location:
            lengths, reached, factor = self._lengths(d)
            slopes = np.divide(factor * d * reached, lengths, out=np.zeros_like(d), where=lengths > 0)
        else:
            slopes = np.sign(d) * (np.abs(d) >= self.p.plateau)
        slopes = weight * slopes * known
        for gradient, sign in zip(dx, (1, -1), strict=False):
            if gradient is not None:
                self.dev.upload(gradient, (sign * slopes).reshape(gradient.shape))
