"""Scores: a net's outputs, averaged over batches and logged in Caffe's words."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ..graph import Value
from ..net import Net
from ..parallel import TESTING, Alone

log = logging.getLogger("caffelite")


@dataclass
class Scores:
    """Means over the tested batches: ``outputs`` of (name, loss weight, values), and the net's total loss."""

    outputs: list[tuple[str, float, np.ndarray]]
    loss: float


def mean_scores(
    net: Net, count: int, stopped: Callable[[], bool] = lambda: False, each: Callable | None = None, comm: Alone | None = None
) -> Scores | None:
    """Runs ``count`` batches, shared among the processes of ``comm``; every output's mean over what was tested, added up in float64.

    None where stopped, of which the processes must agree. A batch counts as much as it holds: ignored labels count for nothing.
    each(i, outputs) sees every batch that this process tests.
    """
    comm = comm or Alone()
    totals, tested = ([np.zeros(math.prod(v.shape)) for v in net.graph.outputs] for _ in range(2))
    starts = [source.position for _, source in net.sources()]
    net.clear_loss()
    mark = functools.partial(comm.mark, TESTING) if comm.mark else None
    together = not (net.dev.eager or net.hosted or each or any(_counted(v) is not None for v in net.graph.outputs))
    mine = range(comm.rank, count, comm.size)
    passes = net.recorded(mine) if together else _one_by_one(net, mine, mark)
    for first in range(0, count, comm.size):
        if stopped():
            return None
        i = first + comm.rank
        if i >= count:
            break
        found = next(passes)
        if together and mark:
            mark()
        for total, many, (value, _, values) in zip(totals, tested, found, strict=True):
            samples = _counted(value)
            share = 1 if samples is None else samples
            total += values * share
            many += share
        if each:
            each(i, found)
    net.check_faults()
    for start, (_, source) in zip(starts, net.sources() if comm.size > 1 else (), strict=comm.size > 1):
        end = start + count * source.shapes[0][0]
        if source.position != end:  # the last round was not for every process
            source.seek(end)
    sums = comm.total(np.concatenate([*totals, *tested, net.dev.download(net.loss).astype(float)]))
    parts = np.split(sums[:-1], np.cumsum([t.size for t in (*totals, *tested)])[:-1]) if totals else []
    totals, tested = parts[: len(totals)], parts[len(totals) :]
    means = [np.divide(t, n, out=np.zeros_like(t), where=n > 0) for t, n in zip(totals, tested, strict=True)]
    outputs = [(v, dict(net.graph.losses).get(v, 0.0), mean) for v, mean in zip(net.graph.outputs, means, strict=True)]
    return Scores([(v.name, w, mean) for v, w, mean in outputs], float(sums[-1]) / count)


def _one_by_one(net: Net, passes: Iterable[int], watch: Callable | None) -> Iterator[list[tuple[Value, float, np.ndarray]]]:
    for i in passes:
        net.forward(i, 0, watch)
        yield net.outputs()


def _counted(value: Value):
    return value.node.layer.counted(value.top)


def show(phase: str, outputs: Iterable[tuple[str, float, np.ndarray]]) -> None:
    """Logs (name, loss weight, values) of each output, numbered value by value."""
    number = 0
    for name, weight, values in outputs:
        for value in values:
            note = f" (* {weight:g} = {weight * value:.6g} loss)" if weight else ""
            log.info("    %s net output #%d: %s = %.6g%s", phase, number, name, value, note)
            number += 1
