"""Checks of CUDA graphs: launches of a captured graph with a fork equal eager runs bit for bit."""

from __future__ import annotations

import numpy as np

from ..devices.formula import Formula
from .bench import Bench, Wrong, put, rng

SIDE = 64


def capture(bench: Bench) -> str:
    """a graph with a fork"""
    bench.wants_gpu("a CPU captures nothing")
    dev, values = bench.device("fp32"), rng().normal(size=(SIDE, SIDE)).astype(np.float32)
    x, w, y, z, total = (put(dev, v) for v in (values, values[::-1] / 8, values, values, values))
    op, both = dev.inner_product(SIDE, SIDE, SIDE), Formula("0.5 * (a + b)", ("a", "b"))
    joined, runs = dev.map(both), []

    def body() -> None:
        runs.append(dev.capturing)
        dev.run_concurrently(1, lambda: op.forward(x, w, None, y), lambda: op.forward(w, x, None, z))
        joined(y, z, x)

    def iterate(run, times: int) -> np.ndarray:
        dev.upload(x, values)
        for _ in range(times):
            run()
        return dev.download(x)

    expected, captured = iterate(body, 5), dev.capture(body, dev.make_context())
    eager, runs[:] = len(runs), []
    found = iterate(captured, 5)
    if True not in runs or len(runs) >= eager:
        raise Wrong(f"nothing was captured: {dev.why_eager() or 'the graph ran eagerly'}")
    if not np.array_equal(found, expected):
        raise Wrong("launches of the graph differ from eager runs")
    return "launches are bit-equal to eager runs"


CHECKS = (capture,)
