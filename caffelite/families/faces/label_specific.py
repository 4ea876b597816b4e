"""Layers that treat the score of a sample's label in a different way from its other scores: LabelSpecificAdd,
LabelSpecificRescale."""

import math

from ... import caffelite_pb2 as pb
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.feeding import ScheduledNumber
from ...layers.base.labels import LabelIndex, label_fault
from ...layers.base.layer import Layer, Shape, register


def grown(layer: Layer, field: str, i: int, power: float) -> float:
    """(1 + gamma · i)^power; ``field`` of the layer's message is gamma. Errors: a power that is no number."""
    gamma = getattr(layer.p, field)
    try:
        result = (1 + gamma * i) ** power
    except (ZeroDivisionError, OverflowError):
        result = math.inf
    if isinstance(result, complex) or not math.isfinite(result):
        what = f"(1 + {field} · i)^{power:g} is no finite number at i = {i}"
        raise layer.error(what, field, expected=f"1 + {field} · i above 0, and a smaller power", found=f"{gamma:g}")
    return result


def limited(value: float, least: float, most: float) -> float:
    return min(max(value, least), most)


class ByLabel(ScheduledNumber):
    """y of x, different for the label's score. x, y (N, C...), label (N); the second top has the number that
    ``scheduled_number`` returns."""

    bottoms, tops = (2, 2), (1, 2)
    constant_bottoms = frozenset({1})
    constant_tops = frozenset({1})
    in_place = True
    couples_samples = False
    backward_reads_tops = False
    divisible_axes = False

    def identity(self) -> bool:
        """Whether y = x."""
        raise NotImplementedError

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n = bottoms[0][0] if bottoms[0] else 1
        self.split = n, math.prod(bottoms[0]) // max(1, n), 1
        require.labels(self, bottoms, n)
        self.saved_shapes["number"] = ((1,), None)
        return [bottoms[0], (1,)][: len(self.spec.top)]

    @property
    def backward_reads_bottoms(self) -> bool:
        return not self.view

    def formulas(self) -> tuple[str, str]:
        """y of x and the number w, and dx of x, dy and w, where k is the class and t the label."""
        raise NotImplementedError

    def build(self, dev: Device) -> None:
        self.need_number()
        if self.view:
            return
        self._index = LabelIndex(dev, *self.split[:2])
        y, dx = ("x", "dy") if self.identity() else self.formulas()
        self._y = self._index.map(y, ("x",), scalars=("w",))
        self._dx = self._index.map(dx, ("x", "dy"), scalars=("w",))

    def forward(self, x: list, y: list) -> None:
        if self.view:
            return
        number = self.saved["number"]
        self.number.copy_to(number)
        if len(y) > 1:
            self.dev.copy(number, y[1])
        self._index.check(x[1])
        self._y(x[0], self._index.classes, x[1], number, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if not self.view:
            self._dx(x[0], dy[0], self._index.classes, x[1], self.saved["number"], dx[0])

    def faults(self) -> str | None:
        return None if self.view else label_fault(self, self._index.op, self.split)


@register
class LabelSpecificAdd(ByLabel):
    """In TRAIN y = x + b for the label's score where x > -b, else x; in TEST y = x. The additive margin of a softmax,
    b below 0.

    x, y (N, C...), label (N), integers 0 to C - 1; the second top is b (1). b: bias (default 0), or where bias_base is
    set bias_base + (1 + bias_gamma · i)^bias_power - 1 at iteration i = iteration + 0, 1, …, limited to bias_min to
    bias_max. Errors: labels out of range. Source: Wang et al. 2018 (AM-Softmax), as in happynear/caffe-windows,
    label_specific_add.cpp.
    """

    field = "label_specific_add_param"
    backward_reads_bottoms = False

    def setup(self) -> None:
        self.view = self.identity() and len(self.spec.top) == 1

    def identity(self) -> bool:
        return self.phase == pb.TEST

    def scheduled_number(self, iteration: int) -> float:
        p = self.p
        if not p.HasField("bias_base"):
            return p.bias
        bias = p.bias_base + grown(self, "bias_gamma", p.iteration + iteration, p.bias_power) - 1
        return limited(bias, p.bias_min, p.bias_max)

    def formulas(self) -> tuple[str, str]:
        return "where(t == k, where(x > -w, x + w, x), x)", "dy"

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if not self.view:
            self._copy(dy[0], dx[0])

    def build(self, dev: Device) -> None:
        super().build(dev)
        self._copy = dev.map(Formula("dy", ("dy",)))


@register
class LabelSpecificRescale(ByLabel):
    """y = w · x for the label's score, and negative_weight · x for the others; in TEST y = x unless rescale_test.

    x, y (N, C...), label (N), integers 0 to C - 1; the second top is w (1). w: positive_weight (default 1), or in TRAIN
    where positive_weight_base is set positive_weight_base · (1 + gamma · i)^-power at iteration i = iteration + 1, …,
    limited to positive_weight_min and positive_weight_max where these are set. for_ip: only where x > 0; bias_fix: adds
    1 - w; power_on_positive: sign(x) · |x|^w instead of w · x. Errors: labels out of range. As in
    happynear/caffe-windows, label_specific_rescale_layer.cpp.
    """

    field = "label_specific_rescale_param"

    def setup(self) -> None:
        self.view = self.identity() and len(self.spec.top) == 1

    def identity(self) -> bool:
        return self.phase == pb.TEST and not self.p.rescale_test

    def scheduled_number(self, iteration: int) -> float:
        p = self.p
        if self.phase != pb.TRAIN or not p.HasField("positive_weight_base"):
            return p.positive_weight
        weight = p.positive_weight_base * grown(self, "gamma", p.iteration + iteration + 1, -p.power)
        least = p.positive_weight_min if p.HasField("positive_weight_min") else -math.inf
        most = p.positive_weight_max if p.HasField("positive_weight_max") else math.inf
        return limited(weight, least, most)

    def formulas(self) -> tuple[str, str]:
        y, dx = "w * x", "w * dy"
        if self.p.power_on_positive:
            y, dx = "sign(x) * pow(abs(x), w)", "dy * w * pow(abs(x), w - 1)"
        elif self.p.bias_fix:
            y = "w * x + 1 - w"
        if self.p.for_ip:
            y, dx = f"where(x > 0, {y}, x)", f"where(x > 0, {dx}, dy)"
        others = repr(self.p.negative_weight)
        return f"where(t == k, {y}, {others} * x)", f"where(t == k, {dx}, {others} * dy)"
