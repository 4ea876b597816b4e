"""AbsLoss, and L1Loss of FlowNet."""

import math

from ... import caffelite_pb2 as pb
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...devices.types import Array
from ...layers.base import require
from ...layers.base.facets import Compares
from ...layers.base.layer import Shape, register, register_variant
from ...layers.loss import Loss, unless_ignored
from ...layers.normalize import ChannelRows


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
    plateau 0. Errors: bottoms of different sizes. As in lmb-freiburg/flownet2, src/caffe/layers/l1loss_layer.cu.
    """

    type = "L1Loss"
    field = "l1_loss_param"
    bottoms = (1, 2)
    constant_bottoms = frozenset()

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if len(bottoms) > 1:
            require.same_count(self, bottoms, 0, 1)
        self.whole = require.channels(self, bottoms)
        self.couples_samples = self.p.normalize_by_num_entries
        return [()]

    def build(self, dev: Device) -> None:
        p, (n, channels, *_) = self.p, self.whole
        names = ("a", "b")[: len(self.spec.bottom)]
        d = " - ".join(names)
        self._errors = dev.map(Formula(f"where({d} == {d}, {d}, 0)", names))
        self._known = dev.sum(Formula(f"where({d} == {d}, 1, 0)", names), 1 / channels)
        self._divisor, self._d = dev.zeros(1), dev.empty(math.prod(self.whole))
        dev.fill(self._divisor, n or 1)
        self._negated = dev.map(Formula("-d", ("d",)))
        self._at_least_some = dev.map(Formula("where(count > 0, count, 1)", ("count",)))
        if p.l2_per_location:
            self._build_lengths(dev)
            return
        least = {"plateau": p.plateau}
        summed = Formula("where(abs(d) >= plateau, abs(d), 0) / divisor", ("d",), ("divisor",), tuple(least))
        slope = "where(abs(d) >= plateau, sign(d), 0) * dloss / divisor"
        self._total = dev.sum(summed, **least)
        self._slope = dev.map(Formula(slope, ("d",), ("dloss", "divisor"), tuple(least)), **least)

    def _build_lengths(self, dev: Device) -> None:
        """Of l2_per_location: sums over the channels, which are neighbors in rows."""
        p, self._rows = self.p, ChannelRows(dev, self.whole)
        self._side, split = self._rows.empty(), self._rows.split
        self._lengths = dev.empty(split[1])
        factor = 1 / split[2] if p.l2_prescale_by_channels else 1.0
        self._squares = dev.channel_sum(Formula("d * d", ("d",)), (), *split, scale=factor)
        constants = {"epsilon": p.epsilon, "least": max(0.0, p.plateau) ** 2}
        length = "sqrt(where(square >= least, square, 0) + epsilon)"
        summed = Formula(f"{length} / divisor", ("square",), ("divisor",), tuple(constants))
        self._total = dev.sum(summed, **constants)
        # 0 below the plateau, where nothing slopes
        reached = f"where(square >= least, {length}, 0)"
        self._reached = dev.map(Formula(reached, ("square",), (), tuple(constants)), **constants)
        slope = "where(length > 0, factor * d / length, 0) * dloss / divisor"
        formula = Formula(slope, ("d", "length"), ("dloss", "divisor"), ("factor",))
        self._slope = dev.channel_map(formula, ("length",), *split, factor=factor)

    def _read(self, x: list) -> Array:
        """The differences, 0 where unknown; of lengths as rows of channels, with the sums of their squares. Sets the
        divisor."""
        self._errors(*x, self._d)
        if self.p.normalize_by_num_entries:
            self._known(*x, self._divisor)
            self._at_least_some(self._divisor, self._divisor)
        if not self.p.l2_per_location:
            return self._d
        rows = self._rows.read(self._d, self._side)
        self._squares(rows, self._lengths)
        return rows

    def forward(self, x: list, y: list) -> None:
        d = self._read(x)
        self._total(self._lengths if self.p.l2_per_location else d, self._divisor, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        d = self._read(x)
        if self.p.l2_per_location:
            self._reached(self._lengths, self._lengths)
            self._slope(d, self._lengths, dy[0], self._divisor, d)
            self._rows.write(d, self._d)
        else:
            self._slope(d, dy[0], self._divisor, d)
        for gradient, copy in zip(dx, (self.dev.assign, self._negated), strict=False):
            if gradient is not None:
                copy(self._d.reshape(gradient.shape), gradient)
