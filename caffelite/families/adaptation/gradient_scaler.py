"""GradientScaler: an identity that reverses gradients."""

import math

from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.feeding import ScheduledNumber
from ...layers.base.layer import Shape, register
from ...prototxt import say_once


@register
class GradientScaler(ScheduledNumber):
    """y = x and dx = -λ dy, so that layers below learn what a loss above must not: any shape.

    λ rises from lower_bound (default 0) to upper_bound (1) with the iteration i: λ = 2 h / (1 + e^(-alpha p)) - h +
    lower_bound, h = upper_bound - lower_bound, p = i / max_iter, at most 1; alpha 10, max_iter 1. threshold_iter s: λ
    is 0 up to it, then p = (i - s) / (s + max_iter). Errors: bounds in the other order, alpha below 0, max_iter below
    1. Source: Ganin and Lempitsky 2015, as in thuml/MADA, src/caffe/layers/gradient_scaler_layer.cpp.
    """

    field = "gradient_scaler_param"
    in_place = True
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False
    divisible_axes = True

    def setup(self) -> None:
        p = self.p
        checks = [
            ("lower_bound", p.lower_bound <= p.upper_bound, f"at most upper_bound, {p.upper_bound:g}"),
            ("alpha", 0 <= p.alpha < math.inf, "a finite number from 0"),
            ("max_iter", 1 <= p.max_iter < math.inf, "a finite number from 1"),
        ]
        for name, fits, expected in checks:
            require.value(self, name, fits, expected)
        if p.threshold_iter:
            what = "threshold_iter delays λ, as in MADA; Xlearn's Caffe does not read it"
            say_once(f'{self.locate("threshold_iter")}: layer "{self.name}" (GradientScaler): {what}')

    def scheduled_number(self, iteration: int) -> float:
        p, start = self.p, self.p.threshold_iter
        if start and iteration <= start:
            return 0.0
        height, progress = p.upper_bound - p.lower_bound, min(1.0, (iteration - start) / (start + p.max_iter))
        return 2 * height / (1 + math.exp(-p.alpha * progress)) - height + p.lower_bound

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return [bottoms[0]]

    def build(self, dev: Device) -> None:
        self.need_number()
        self._value = dev.empty(1)
        self._y = dev.map(Formula("x", ("x",)))
        self._dx = dev.map(Formula("-factor * dy", ("dy",), ("factor",)))

    def forward(self, x: list, y: list) -> None:
        self.number.copy_to(self._value)
        self._y(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._dx(dy[0], self._value, dx[0])
