"""What the process of a fork's code costs: an iteration of a net in which a fork's code computes one type of layers,
beside the same net with caffelite's own layers.

Both take turns, so that a busy machine slows both; figures are the fastest rounds. "layers" is the time of an iteration
in these layers with all copies, "calls" that in which it waits for the process, "C++" that of the fork's Forward and
Backward alone, measured without a process. The cost is layers less C++, as a share of the iteration. --processor counts
the time of processors, in both processes, which other programs on the machine hardly change; "calls" is then what the
process of the fork's code takes.

Examples:
  python tools/bench_fork.py ~/caffe
  python tools/bench_fork.py ~/caffe --processor
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import bench_inputs
import bench_train

from caffelite.fork import option, process, text, worker
from caffelite.fork.layer import ForkLayer

ROOT = Path(__file__).resolve().parent.parent
NETS = (("lenet", 64, "SoftmaxWithLoss"), ("cifar10_full", 100, "ReLU"), ("caffenet", 8, "LRN"))
SECONDS = 1.0  # of a round


class Clock:
    """Adds up how long calls of functions take. seconds: of all since it was set to 0; now: the time."""

    seconds = 0.0

    def __init__(self, now: Callable[[], float] = time.perf_counter):
        self.now = now

    def timed(self, function: Callable) -> Callable:
        def run(*arguments: Any) -> Any:
            begin = self.now()
            result = function(*arguments)
            self.seconds += self.now() - begin
            return result

        run.clock = self  # type: ignore[attr-defined]
        return run


class Local:
    """The interface of ``process.NativeProcess``, without a process. passes: times the fork's Forward and Backward."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._server, self.passes = worker.Server(), Clock(now)
        self.owner, self.ended, self.unused = os.getpid(), "", list[int]()

    def call(self, method: str, number: int, folder: str, *arguments: Any) -> Any:
        answer = self._server.answer(method, number, folder, arguments)
        for library in self._server.libraries.values():
            for name in ("fork_forward", "fork_backward"):
                if not hasattr(function := getattr(library.c, name), "clock"):
                    setattr(library.c, name, self.passes.timed(function))
        return answer


def opened(name: str, batch: int, kind: str | None, where: Any) -> Callable[[], None]:
    """One iteration of a net. kind: the type whose layers the fork's code runs; where: its process."""
    process._process = where
    path = str(ROOT / f"models/{name}/train_val.prototxt")
    with mock.patch.object(text.ForkText, "_runs", lambda self, place, left: place.joined.type == kind):
        shape = bench_inputs.guess_shape(path)
        net, _ = bench_inputs.read(path, batch, shape)
    settings = argparse.Namespace(precision="fp32", device="cpu", forward=False)
    return bench_train.caffelite_step(settings, net, bench_inputs.random_batch(net, batch, shape))[0]


class Child:
    """The processor time of another process. seconds: since it was set to 0."""

    def __init__(self, pid: int) -> None:
        self._file, self._start = Path(f"/proc/{pid}/schedstat"), 0.0

    def _total(self) -> float:
        return int(self._file.read_text().split()[0]) / 1e9

    @property
    def seconds(self) -> float:
        return self._total() - self._start

    @seconds.setter
    def seconds(self, value: float) -> None:
        self._start = self._total() - value


def lap(step: Callable[[], None], *clocks: Clock | Child, now: Callable[[], float]) -> tuple[float, ...]:
    """Milliseconds of an iteration, and of what clocks time in it."""
    for clock in clocks:
        clock.seconds = 0.0
    start, begin, count = time.perf_counter(), now(), 0
    while time.perf_counter() - start < SECONDS or not count:
        step()
        count += 1
    return tuple(1e3 * each / count for each in (now() - begin, *(clock.seconds for clock in clocks)))


def compare(name: str, batch: int, kind: str, rounds: int, processor: bool) -> tuple[float, ...]:
    """Milliseconds of an iteration with caffelite's layers, with the fork's, in these, in their calls, in their C++."""
    thread, whole = (time.thread_time, time.process_time) if processor else (time.perf_counter, time.perf_counter)
    local, native, layers = Local(thread), process.NativeProcess(), Clock(thread)
    calls: Clock | Child = Child(native.child.pid) if processor else Clock()
    if isinstance(calls, Clock):
        native.call = calls.timed(native.call)  # type: ignore[method-assign]
    passes = {name: layers.timed(getattr(ForkLayer, name)) for name in ("forward", "backward")}
    with mock.patch.multiple(ForkLayer, **passes):
        own, apart, alone = (opened(name, batch, *where) for where in ((None, None), (kind, native), (kind, local)))
        for step in (own, apart, alone):
            step()
            step()
        laps = [
            (lap(own, now=whole), lap(apart, layers, calls, now=whole), lap(alone, local.passes, now=whole))
            for _ in range(rounds)
        ]
    best = min(one for (one,), _, _ in laps), *min(each for _, each, _ in laps), min(inside for *_, (_, inside) in laps)
    if not processor:
        return best
    one, both, mine, theirs, inside = best  # a process waits without a processor
    return one, both + theirs, mine + theirs, theirs, inside


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fork", help="the folder of BVLC's Caffe, or of a fork that has these types")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processor", action="store_true", help="count the time of processors")
    options = parser.parse_args()
    option.use(options.fork)
    print("net, batch, layers: caffelite  fork  layers  calls  C++  the process costs")
    for name, batch, kind in NETS:
        times = compare(name, batch, kind, options.rounds, options.processor)
        _, apart, layers, _, inside = times
        cells = "  ".join(f"{ms:.4g} ms" for ms in times)
        print(f"{name}, {batch}, {kind}: {cells}  {(layers - inside) / apart:.1%}", flush=True)


if __name__ == "__main__":
    main()
