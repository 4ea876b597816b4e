"""Times inner products of few rows with large weights on a CPU, pass by pass: the kernels that caffelite uses, oneDNN's
products, and PyTorch's where it is installed.

They run in turn in one process, and the shortest of several runs counts. The last pass is both gradients with the
update by SGD, where caffelite's kernels store no weight gradient. The last column is what both gradients read and write
of weights, by their time.

Examples:
  python tools/bench_inner_products.py
  python tools/bench_inner_products.py 16x9216x4096 --rounds 9 --threads 1
"""

import argparse
import functools
import os
import time
from collections.abc import Callable
from unittest import mock

from caffelite.devices import ops
from caffelite.system import usable_cores

SHAPES = ("16x9216x4096", "16x4096x4096", "4x25088x4096", "4x4096x4096")
PASSES = "forward", "data gradient", "weight gradient", "both gradients", "and update"
RATE, MOMENTUM, DECAY = 0.0, 0.9, 5e-4  # a rate of 0 keeps the weights as they are
Runs = list[Callable[[], object]]


def ours(device, m: int, k: int, n: int, few_rows: bool) -> Runs:
    """The passes of caffelite's inner product; few_rows: by kernels for few rows, where they apply."""
    import numpy as np

    from caffelite.devices import algorithms

    rng = np.random.default_rng(1)
    x, w, dy = (rng.standard_normal(shape, np.float32) for shape in ((m, k), (n, k), (m, n)))
    y, dx, dw = np.empty_like(dy), np.empty_like(x), np.empty_like(w)
    applies = algorithms.has_few_rows(m, k, n) and few_rows
    with mock.patch.object(algorithms, "has_few_rows", return_value=applies):
        op = device.build(ops.InnerProduct(m, k, n))
    update = with_update(device, op, (x, w, dy, dx, dw), fused=applies)
    return [
        lambda: op.forward(x, w, None, y),
        lambda: op.backward(x, w, dy, dx, None, None),
        lambda: op.backward(x, w, dy, None, dw, None),
        lambda: op.backward(x, w, dy, dx, dw, None),
        update,
    ]


def with_update(device, op, arrays: tuple, fused: bool) -> Callable[[], object]:
    """Both gradients and the update by SGD. arrays: x, w, dy, dx, dw."""
    import numpy as np

    from caffelite.devices.formula import Formula
    from caffelite.training.optim.updates import CHUNK, REGULARIZATION, RULES

    rule = RULES["SGD"]
    text, arrays_of_rule = f"{REGULARIZATION['L2']}; {rule.text}", ("w", "g", *rule.history)
    formula = Formula(text, arrays_of_rule, constants=("rate", "decay", *rule.constants))
    x, w, dy, dx, dw = arrays
    h, numbers, scale = np.zeros_like(w), np.full(1, RATE, np.float32), np.ones(1, np.float32)
    if fused:
        update = device.fused_updater(formula, 1.0, DECAY, momentum=MOMENTUM)

        def run() -> None:
            op.backward(x, w, dy, dx, None, None)
            update(numbers, scale, x, dy, w, h)

        return run
    starts = np.arange(0, w.size, CHUNK)
    chunks, ones = np.stack([starts, np.minimum(starts + CHUNK, w.size)], 1), np.ones(len(starts))
    update = device.updater(formula, chunks, ones, DECAY * ones, momentum=MOMENTUM)
    flat = [a.reshape(-1) for a in (w, dw, h)]

    def run_both() -> None:
        op.backward(x, w, dy, dx, dw, None)
        update(numbers, scale, *flat)

    return run_both


def torch_runs(threads: int, m: int, k: int, n: int) -> Runs:
    import torch

    torch.set_num_threads(threads)
    x, w, dy = torch.randn(m, k), torch.randn(n, k), torch.randn(m, n)
    dx, dw = torch.empty(m, k), torch.empty(n, k)
    data, weights = (lambda: torch.mm(dy, w, out=dx)), (lambda: torch.mm(dy.t(), x, out=dw))
    parameter = torch.nn.Parameter(w)
    parameter.grad = dw
    step = torch.optim.SGD([parameter], RATE, MOMENTUM, weight_decay=DECAY, fused=True).step
    forward = functools.partial(torch.nn.functional.linear, x, w)
    return [forward, data, weights, lambda: (data(), weights()), lambda: (data(), weights(), step())]


def shortest(runs: dict[str, Runs], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each pass, by program, in alternating runs."""
    laps: dict[str, list[float]] = {name: [float("inf")] * len(PASSES) for name in runs}
    for turn in range(rounds + 1):
        for i in range(len(PASSES)):
            for name, passes in runs.items():
                begin = time.perf_counter()
                passes[i]()
                if turn:  # the first run makes primitives and compiles
                    laps[name][i] = min(laps[name][i], 1e3 * (time.perf_counter() - begin))
    return laps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=SHAPES, metavar="shape", help="rows×inputs×outputs")
    parser.add_argument("--rounds", type=int, default=7, help="timed runs of each pass (default 7)")
    parser.add_argument("--threads", type=int, default=len(usable_cores()), help="default: all processors")
    args = parser.parse_args()
    os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(args.threads)
    from caffelite.devices import open_device

    device = open_device()
    try:
        import torch  # noqa: F401

        peer = True
    except ImportError:
        peer = False
    print(f"{'rows x inputs x outputs':25}{'program':12}" + "".join(f"{name:>19}" for name in PASSES) + "      GB/s")
    for shape in args.shapes:
        m, k, n = map(int, shape.split("x"))
        runs = {"caffelite": ours(device, m, k, n, True), "oneDNN": ours(device, m, k, n, False)}
        if peer:
            runs["PyTorch"] = torch_runs(args.threads, m, k, n)
        for name, laps in shortest(runs, args.rounds).items():
            rate = f"{8e-6 * k * n / laps[3]:10.1f}"
            print(f"{shape:25}{name:12}" + "".join(f"{ms:16.1f} ms" for ms in laps) + rate, flush=True)


if __name__ == "__main__":
    main()
