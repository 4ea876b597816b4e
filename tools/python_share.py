"""Tells how much of an iteration is Python's: the time that passes outside of compiled code, training a net of images
on a CPU.

Every compiled function that an iteration calls, oneDNN's primitives and Numba's kernels, is wrapped in a clock; the
rest is Python's, less what the clocks themselves cost.

Examples:
  python tools/python_share.py
  python tools/python_share.py models/cifar10_full/train_val.prototxt --batch 100 --precision bf16
"""

import argparse
import importlib
import pkgutil
import statistics
import time
from pathlib import Path

import bench_inputs
import bench_train

LENET = Path(__file__).resolve().parent.parent / "models/lenet/train_val.prototxt"


class Clock:
    """What the functions that it wraps took together, and how often they ran."""

    def __init__(self):
        self.seconds, self.calls = 0.0, 0

    def wrapped(self, function):
        now = time.perf_counter

        def run(*arguments):
            begin = now()
            result = function(*arguments)
            self.seconds += now() - begin
            self.calls += 1
            return result

        return run

    def cost(self) -> float:
        """Seconds that a wrapped call takes beside what the clock sees of it."""
        nothing, other = (lambda: None), Clock()
        run, count = other.wrapped(nothing), 100_000
        begin = time.perf_counter()
        for _ in range(count):
            run()
        return (time.perf_counter() - begin - other.seconds) / count


def watch(clock: Clock) -> None:
    """Wraps all compiled functions that Python calls, before a device is opened."""
    from numba.core.dispatcher import Dispatcher

    from caffelite.devices.cpu import formulas, kernels, onednn

    modules = [
        importlib.import_module(f"{kernels.__name__}.{found.name}") for found in pkgutil.iter_modules(kernels.__path__)
    ]
    compiled = [value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)]
    bodies = [value.py_func.__globals__["body__"] for value in compiled if "body__" in value.py_func.__globals__]
    called = {name for value in (*compiled, *bodies) for name in value.py_func.__code__.co_names}  # by compiled code
    for module in modules:
        for name, value in list(vars(module).items()):
            if isinstance(value, Dispatcher) and name not in called:
                setattr(module, name, clock.wrapped(value))
    compile_formula = formulas._compiled
    formulas._compiled = lambda source: clock.wrapped(compile_formula(source))
    if library := onednn.load():
        library.execute = clock.wrapped(library.execute)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", nargs="?", default=str(LENET), help="a classifier of images (default: LeNet)")
    parser.add_argument("--batch", type=int, default=64, help="images an iteration (default 64)")
    parser.add_argument("--iterations", type=int, default=300, help="timed iterations (default 300)")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    args = parser.parse_args()
    args.device, args.forward = "cpu", False
    clock = Clock()
    watch(clock)
    shape = bench_inputs.guess_shape(args.net)
    net, _ = bench_inputs.read(args.net, args.batch, shape)
    step, _ = bench_train.caffelite_step(args, net, bench_inputs.random_batch(net, args.batch, shape))
    for _ in range(20):
        step()
    cost, whole, python = clock.cost(), [], []
    for _ in range(args.iterations):
        seconds, calls, begin = clock.seconds, clock.calls, time.perf_counter()
        step()
        whole.append(time.perf_counter() - begin)
        python.append(whole[-1] - (clock.seconds - seconds) - (clock.calls - calls) * cost)
    share, calls = statistics.median(python), clock.calls - calls
    lapse = statistics.median(whole)
    print(
        f"{args.net}, {args.batch} images, {args.precision}: {lapse * 1e3:.3f} ms an iteration, {calls} compiled "
        "functions"
    )
    print(f"Python: {share * 1e3:.3f} ms, {share / lapse:.1%}")


if __name__ == "__main__":
    main()
