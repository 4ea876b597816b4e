"""Cross entropy of a softmax and of targets that are distributions over the classes."""

from __future__ import annotations

from ..devices import ops
from ..devices.formula import Formula
from ..devices.protocol import Device
from ..devices.types import Array

LEAST = "1.2e-38"  # of a probability, whose logarithm is finite
TOLERANCE = 1e-3  # of the mean sum of a distribution


class SoftTargets:
    """loss = -Σ t log softmax(x) / divisor for targets t like x (N, C, P...), which sum to 1 over the classes; each is
    (1 - smoothing) t + smoothing / C before."""

    def __init__(self, dev: Device, split: tuple[int, int, int], divisor: float, smoothing: float):
        constants = {"smoothing": smoothing, "classes": split[1]}
        target = "((1 - smoothing) * t + smoothing / classes)"
        self._mean = dev.empty(1)
        dev.fill(self._mean, 1)
        self._add = dev.sum(Formula("t", ("t",)), 1 / (split[0] * split[2]))
        self._dev = dev
        self._softmax = dev.build(ops.Softmax(*split))
        term = Formula(f"-{target} * log(max(p, {LEAST}))", ("p", "t"), constants=tuple(constants))
        self._loss = dev.sum(term, 1 / divisor, **constants)
        constants["divisor"] = divisor
        slope = Formula(f"(p - {target}) * dloss / divisor", ("p", "t"), ("dloss",), tuple(constants))
        self._slope = dev.map(slope, **constants)

    def forward(self, x: Array, targets: Array, prob: Array, loss: Array) -> None:
        self._softmax.forward(x, prob)
        self._add(targets, self._mean)
        self._loss(prob, targets, loss)

    def backward(self, prob: Array, targets: Array, dloss: Array, dx: Array) -> None:
        self._slope(prob, targets, dloss, dx)

    def fault(self) -> str | None:
        """What is wrong with the targets of the last forward pass: they do not sum to 1 in the mean."""
        mean = float(self._dev.download(self._mean)[0])
        return None if abs(mean - 1) <= TOLERANCE else f"sum to {mean:g} in the mean; expected 1 for each sample"
