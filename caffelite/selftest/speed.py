"""The speed of the device: a large copy and a large product, in percent of its peak. No speed is a failure."""

import time
from collections.abc import Callable

import numpy as np

from ..devices import ops
from ..devices.protocol import Device
from .bench import Bench

SIDE = {"cpu": 1024, "gpu": 4096}
COPIED = {"cpu": 1 << 27, "gpu": 1 << 30}  # bytes
TRIES = 5


def best(dev: Device, run: Callable[[], None]) -> float:
    """Milliseconds of the fastest of a few runs."""
    run()
    times = []
    for _ in range(TRIES):
        begin = dev.record_event()
        run()
        times.append(dev.elapsed_ms(begin, dev.record_event()))
    return min(times)


def _numpy(run: Callable[[], object]) -> float:
    """The same of NumPy's."""
    times = []
    for _ in range(TRIES):
        begin = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - begin))
    return min(times)


def _reported(bench: Bench, what: str, ms: float, reached: float, unit: str, peak: float | None) -> str:
    """reached, peak: units a second; peak None where it is not known."""
    of = "the card's peak" if bench.number is not None else "NumPy's"
    percentage = (
        f", {100 * reached / peak:.0f} % of {of} {peak / 1e9:.4g}" if peak else ", the card's peak is not known"
    )
    return f"{what}: {ms:.3g} ms, {reached / 1e9:.4g} {unit}{percentage}"


def copy(bench: Bench) -> str:
    """speed of a copy"""
    dev = bench.device()
    size = COPIED["cpu" if bench.number is None else "gpu"]
    source, target = (dev.zeros(size, np.uint8) for _ in range(2))
    ms = best(dev, lambda: dev.copy(source, target))
    if bench.number is None:
        other = np.zeros(size, np.uint8)
        peak = 2e3 * size / _numpy(lambda: np.copyto(other, source))
    else:
        peak = bench.gpus.peaks(bench.number).get("bytes")
    return _reported(bench, f"{size / 1e9:.2g} GB", ms, 2e3 * size / ms, "GB/s", peak)


def product(bench: Bench) -> str:
    """speed of a product"""
    dev = bench.device()
    side = SIDE["cpu" if bench.number is None else "gpu"]
    x, w, y = (dev.zeros((side, side)) for _ in range(3))
    op = dev.build(ops.InnerProduct(side, side, side))
    ms = best(dev, lambda: op.forward(x, w, None, y))
    if bench.number is None:
        a = np.zeros((side, side), np.float32)
        peak = 2e3 * side**3 / _numpy(lambda: a @ a)
    else:
        peak = bench.gpus.peaks(bench.number).get(dev.precision)
    return _reported(bench, f"{side}³, {dev.precision}", ms, 2e3 * side**3 / ms, "GFLOP/s", peak)


CHECKS = copy, product
