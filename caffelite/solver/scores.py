"""Scores: a net's outputs, averaged over batches and logged in Caffe's words."""

from __future__ import annotations

import logging
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
    """Runs ``count`` batches; every output's mean, added up in float64. None where stopped. each(i, outputs) sees every batch."""
    totals: list[np.ndarray] = []
    net.clear_loss()
    for i in range(count):
        if stopped():
            return None
        net.forward(i)
        found = net.outputs()
        totals = [np.zeros(len(values)) for _, _, values in found] if not totals else totals
        for total, (_, _, values) in zip(totals, found, strict=True):
            total += values
        if each:
            each(i, found)
    net.check_faults()
    outputs = [(v.name, w, total / count) for (v, w, _), total in zip(net.outputs(), totals, strict=True)]
    return Scores(outputs, float(net.dev.download(net.loss)[0]) / count)


def show(phase: str, outputs: Iterable[tuple[str, float, np.ndarray]]) -> None:
    """Logs (name, loss weight, values) of each output, numbered value by value."""
    number = 0
    for name, weight, values in outputs:
        for value in values:
            note = f" (* {weight:g} = {weight * value:.6g} loss)" if weight else ""
            log.info("    %s net output #%d: %s = %.6g%s", phase, number, name, value, note)
            number += 1
