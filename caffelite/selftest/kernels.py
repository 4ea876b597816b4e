"""Checks of kernels that no layer has, against NumPy: preprocessing, the update, and CUDA graphs against eager runs."""

import numpy as np

from ..devices import formula_ops, ops
from ..devices.formula import Formula
from .bench import Bench, Wrong, compare, put, rng

NEAR = 2e-5  # tolerance of float32 numbers
SIDE = 64


def preprocessing(bench: Bench) -> str:
    """kernels: preprocessing"""
    dev, draw = bench.device(), rng()
    pixels = draw.integers(0, 256, (6, 3, 10, 9)).astype(np.uint8)
    mean = np.array([90, 100, 110], np.float32).reshape(3, 1, 1)
    picks = np.array([[4, 1, 2, 0], [0, 0, 0, 1], [5, 2, 1, 1]], np.int32)
    context = dev.make_context()
    op, out = dev.build(ops.Preprocess((3, 3, 8, 7), mean, 0.5, context)), dev.empty((3, 3, 8, 7))
    context.input_buffer.begin()
    op.set_batch(0, pixels, picks, True)
    context.input_buffer.send()
    op.forward(out)
    crops = [
        pixels[i, :, top : top + 8, left : left + 7][..., :: -1 if mirror else 1] for i, top, left, mirror in picks
    ]
    compare("crop, mean, scale and mirror", dev.download(out), (np.stack(crops) - mean) * 0.5, 0)
    return ""


def update(bench: Bench) -> str:
    """kernels: update and loss scale"""
    dev, draw, n = bench.device(), rng(), 10_001
    w, g, h = (draw.normal(size=n).astype(np.float32) for _ in range(3))
    rule = Formula(
        "g = g + decay * w; h = momentum * h + rate * g; w = w - h",
        ("w", "g", "h"),
        constants=("rate", "decay", "momentum"),
    )
    there = [put(dev, v) for v in (w, g, h)]
    chunks = np.array([[0, 4096], [4096, n]])
    dev.build(formula_ops.Update(rule, chunks, np.array([1.0, 2.0]), np.array([0.1, 0.0]), {"momentum": 0.9}))(
        put(dev, [0.01]), put(dev, [0.5]), *there
    )
    first = np.arange(n) < 4096
    moved = 0.9 * h + np.where(first, 0.01, 0.02) * (0.5 * g + np.where(first, 0.1, 0.0) * w)
    compare("SGD's weights", dev.download(there[0]), w - moved, NEAR)
    compare("SGD's history", dev.download(there[2]), moved, NEAR)
    if bench.number is not None:
        half = bench.device("fp16")
        scale = half.loss_scale(1024.0)
        for gradient, factor in ((1.0, 1024), (np.inf, 512)):
            scale.check(put(half, np.full(3000, gradient)))
            if scale.state()[0] != factor:
                raise AssertionError(f"the loss scale is {scale.state()[0]:g}, expected {factor}")
    return ""


def capture(bench: Bench) -> str:
    """a graph with a fork"""
    bench.wants_gpu("a CPU captures nothing")
    dev, values = bench.device("fp32"), rng().normal(size=(SIDE, SIDE)).astype(np.float32)
    x, w, y, z, total = (put(dev, v) for v in (values, values[::-1] / 8, values, values, values))
    op, both = dev.build(ops.InnerProduct(SIDE, SIDE, SIDE)), Formula("0.5 * (a + b)", ("a", "b"))
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
    launched = iterate(captured, 5)
    if True not in runs or len(runs) >= eager:
        raise Wrong(f"nothing was captured: {dev.why_eager() or 'the graph ran eagerly'}")
    if not np.array_equal(launched, expected):
        raise Wrong("launches of the graph differ from eager runs")
    return "launches are bit-equal to eager runs"


CHECKS = preprocessing, update, capture
