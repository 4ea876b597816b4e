"""Formulas that compare classes with labels, checks of labels, and schedules of margins."""

from __future__ import annotations

import math

import numpy as np

from ...devices import ops
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...devices.types import Kernel
from ...layers.layer import Layer


class LabelIndex:
    """Formulas over scores x (N, C) that compare the class ``k`` of a score with the label ``t`` of its row."""

    def __init__(self, dev: Device, n: int, c: int):
        self.split = n, c, 1
        self._dev = dev
        self.classes, self._table, self._gathered = dev.empty((n, c)), dev.empty((c, 1)), dev.empty(n)
        dev.upload(self.classes, np.arange(c))
        dev.upload(self._table, np.arange(c)[:, None])
        self.op = dev.build(ops.Take(c, 1, n))  # detects labels out of range

    def check(self, labels) -> None:
        self.op.forward(self._table, labels, self._gathered)

    def map(
        self, text: str, arrays: tuple[str, ...], rows: tuple[str, ...] = (), scalars: tuple[str, ...] = ()
    ) -> Kernel:
        """``run(*arrays, classes, labels, *rows, *scalars, out)``: out (N, C). rows: arrays (N)."""
        formula = Formula(text, (*arrays, "k", "t", *rows), scalars)
        return self._dev.channel_map(formula, ("t", *rows), 1, self.split[0], self.split[1])

    def sum(self, text: str, arrays: tuple[str, ...]) -> Kernel:
        """``run(*arrays, classes, labels, out)``: out (N), the sums over classes."""
        formula = Formula(text, (*arrays, "k", "t"))
        return self._dev.channel_sum(formula, ("t",), 1, self.split[0], self.split[1])


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
