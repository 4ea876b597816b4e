"""Formulas that compare classes with labels, and what is said of a label that is no class."""

import numpy as np

from ...devices import ops
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...devices.types import Kernel
from .layer import Layer


def label_fault(layer: Layer, op, shape: tuple[int, int, int], bottom: int = 1) -> str | None:
    """The error for the first label that is no class, where the operation saw one. bottom: of the labels."""
    position_plus_1 = int(layer.dev.download(op.bad)[0])
    if not position_plus_1:
        return None
    sample, position = divmod(position_plus_1 - 1, shape[2])
    spot = f"sample {sample} of the batch" + (f", position {position}" if shape[2] > 1 else "")
    scores, labels = layer.spec.bottom[0], layer.spec.bottom[bottom]
    return (
        f'a label in bottom "{labels}" is no class ({spot}); expected integers 0 to {shape[1] - 1}, the '
        f'channels of "{scores}"'
    )


class LabelIndex:
    """Formulas over scores x (N, C) that compare the class ``k`` of a score with the label ``t`` of its row."""

    def __init__(self, dev: Device, n: int, c: int):
        self.split = n, c, 1
        self._dev = dev
        self.classes, self._table, self.labels = dev.empty((n, c)), dev.empty((c, 1)), dev.empty(n)
        dev.upload(self.classes, np.arange(c))
        dev.upload(self._table, np.arange(c)[:, None])
        self.op = dev.build(ops.Take(c, 1, n))

    def check(self, labels) -> None:
        """Reads the labels: ``labels`` has them as integers then, and ``op`` whether they are classes."""
        self.op.forward(self._table, labels, self.labels)

    def map(
        self,
        text: str,
        arrays: tuple[str, ...],
        rows: tuple[str, ...] = (),
        scalars: tuple[str, ...] = (),
        **constants: float,
    ) -> Kernel:
        """``run(*arrays, classes, labels, *rows, *scalars, out)``: out (N, C). rows: arrays (N)."""
        formula = Formula(text, (*arrays, "k", "t", *rows), scalars, tuple(constants))
        return self._dev.channel_map(formula, ("t", *rows), 1, self.split[0], self.split[1], **constants)

    def sum(self, text: str, arrays: tuple[str, ...]) -> Kernel:
        """``run(*arrays, classes, labels, out)``: out (N), the sums over classes."""
        formula = Formula(text, (*arrays, "k", "t"))
        return self._dev.channel_sum(formula, ("t",), 1, self.split[0], self.split[1])
