"""Chooses the algorithms of convolutions by measuring."""

import functools
import hashlib
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import llvmlite
import numba

from ..cache import ChoiceCache
from ..choices import Choices
from ..processor import features
from . import ahead

REVISION = 9  # of kernels and measurements: what was chosen with another one is measured again
PASSES = 2  # over all algorithms, at least: another program that works for a moment disturbs one of them
MOST_PASSES = 6  # while the times of one do not repeat
ROUNDS = 2  # measurements of an algorithm in a pass; the shortest of all counts
SLOW = 1.5  # an algorithm that takes more than this multiple of the best, and repeatedly, is not measured further
GAIN = 0.92  # an algorithm replaces one that stands before it if it takes at most this share of its time


@functools.cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    except OSError:
        names = set()
    return ", ".join(sorted(names)) or platform.processor() or platform.machine()


def _features() -> str:
    """A digest of the processor's features, which a virtual machine may hide."""
    return hashlib.sha256(f"{os.environ.get('NUMBA_CPU_NAME')} {features()}".encode()).hexdigest()[:12]


def _repeats(times: Sequence[float]) -> bool:
    """Whether the two shortest times agree, which those of a disturbed algorithm seldom do."""
    return len(times) > 1 and sorted(times)[0] >= GAIN * sorted(times)[1]


def _fastest(runs: Mapping[str, Callable[[], None]]) -> str:
    times: dict[str, list[float]] = {name: [] for name in runs}
    shortest: dict[str, float] = {}
    for k in range(MOST_PASSES):
        if k >= PASSES and all(map(_repeats, times.values())):
            break
        for name, run in runs.items():
            if _repeats(times[name]) and shortest[name] > SLOW * min(shortest.values()):
                continue
            run()  # compiles, and brings weights and images into the caches
            for _ in range(ROUNDS):
                begin = time.perf_counter()
                run()
                times[name].append(time.perf_counter() - begin)
            shortest[name] = min(times[name])
    best = next(iter(runs))
    for name, least in shortest.items():
        if least < GAIN * shortest[best]:
            best = name
    return best


class CpuChoices(Choices):
    """The algorithms of a CPU's convolutions, by processor, its instructions, number of threads and versions."""

    def __init__(self, threads: int, onednn: tuple[int, ...], instructions: int = 0):
        version = ".".join(map(str, onednn))
        super().__init__(
            ChoiceCache("cpu-algorithms.json"),
            f"; {_processor()}, instructions {instructions:x} {_features()}, {threads} threads, kernels {REVISION}, "
            f"oneDNN {version}, Numba {numba.__version__}, llvmlite {llvmlite.__version__}",
        )

    def choose(self, problem: str, runs: Mapping[str, Callable[[], None]]) -> str:
        """The algorithm for a problem. runs: by algorithm, a function that runs it, which may be called any number of
        times; an algorithm has to be clearly faster than those before it."""
        if len(runs) == 1:
            return next(iter(runs))

        def measure() -> tuple[str, bool]:
            ahead.finish()
            return _fastest(runs), True

        chosen = self.agree(problem, runs.__contains__, measure)
        assert chosen
        return chosen
