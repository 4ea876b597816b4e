"""A rough forecast of the time that a run takes on this machine's CPU, from its multiply-adds."""

from __future__ import annotations

import functools
import time

import numpy as np

from .. import caffelite_pb2 as pb
from ..layers import Shape
from ..prototxt.overrides import Overrides
from . import nets, summary
from .schedule import Run

BACKWARD = 2.0  # times the work of the forward pass
SHARE = 0.35  # of the speed of a large matrix product, which training reaches; small nets reach less
SIDE = 768


@functools.cache
def products_per_second() -> float:
    """Multiply-adds per second of a large float32 matrix product, measured once."""
    a = np.ones((SIDE, SIDE), np.float32)
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return SIDE**3 / best


def forecast(multiply_adds: float, batch: int, iterations: int) -> float:
    """Seconds of training. multiply_adds: of one sample forward. An error of a factor of two is usual."""
    return iterations * batch * multiply_adds * (1 + BACKWARD) / (products_per_second() * SHARE)


def of_solver(path: str, run: Run, shapes: dict[str, Shape], overrides: Overrides) -> float:
    """The seconds of a solver's run. Errors: its train net cannot be built."""
    subject = nets.load_net(None, path, shapes, overrides=overrides)
    graph, guessed = subject.graph(pb.TRAIN)
    table = summary.table(graph, guessed)
    return forecast(table.multiply_adds, run.batch or table.batch, run.iterations)
