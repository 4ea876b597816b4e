"""Scores: a net's outputs, averaged over batches and logged in Caffe's words."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ..net import Net

log = logging.getLogger("caffelite")


@dataclass
class Scores:
    """Means over the tested batches: ``outputs`` of (name, loss weight, values), and the net's total loss."""

    outputs: list[tuple[str, float, np.ndarray]]
    loss: float


def mean_scores(net: Net, count: int, stopped: Callable[[], bool] = lambda: False, each: Callable | None = None) -> Scores | None:
    """Runs ``count`` batches; every output's mean over what was tested, added up in float64. None where stopped.

    A batch counts as much as it holds: ignored labels count for nothing. each(i, outputs) sees every batch.
    """
    totals, tested = ([np.zeros(math.prod(v.shape)) for v in net.graph.outputs] for _ in range(2))
    net.clear_loss()
    for i in range(count):
        if stopped():
            return None
        net.forward(i)
        found = net.outputs()
        for total, many, (value, _, values) in zip(totals, tested, found, strict=True):
            samples = value.node.layer.counted(value.top)
            share = 1 if samples is None else samples
            total += values * share
            many += share
        if each:
            each(i, found)
    net.check_faults()
    means = [np.divide(t, n, out=np.zeros_like(t), where=n > 0) for t, n in zip(totals, tested, strict=True)]
    outputs = [(v.name, w, mean) for (v, w, _), mean in zip(net.outputs(), means, strict=True)]
    return Scores(outputs, float(net.dev.download(net.loss)[0]) / count)


def show(phase: str, outputs: Iterable[tuple[str, float, np.ndarray]]) -> None:
    """Logs (name, loss weight, values) of each output, numbered value by value."""
    number = 0
    for name, weight, values in outputs:
        for value in values:
            note = f" (* {weight:g} = {weight * value:.6g} loss)" if weight else ""
            log.info("    %s net output #%d: %s = %.6g%s", phase, number, name, value, note)
            number += 1
