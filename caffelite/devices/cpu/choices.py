"""Chooses the algorithms of convolutions by measuring, and keeps the choices."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import llvmlite
import numba

from ..cache import ChoiceCache
from ..processor import features
from ..protocol import Gather

REVISION = 5  # of the kernels that are measured: where another one was measured, it is done again
ROUNDS = 3  # measurements of each algorithm; the shortest counts
SLOW = 1.5  # an algorithm with a first time of more than this multiple of the best is not measured further
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


class Choices:
    """The algorithm of each problem, which a text names: measured when it is first met, and kept on disk by processor,
    its instructions, number of threads and versions.

    """

    def __init__(self, threads: int, onednn: tuple[int, ...], instructions: int = 0):
        version = ".".join(map(str, onednn))
        self._setting = (
            f"{_processor()}, instructions {instructions:x} {_features()}, {threads} threads, kernels {REVISION}, "
            f"oneDNN {version}, "
            f"Numba {numba.__version__}, llvmlite {llvmlite.__version__}"
        )
        self._cache = ChoiceCache("cpu-algorithms.json")
        self._chosen: dict[str, str] = {}
        self._agreed: set[str] = set()
        self.ranks: tuple[int, Gather] | None = None  # while processes run the same problems in the same order

    def choose(self, problem: str, runs: Mapping[str, Callable[[], None]]) -> str:
        """The algorithm for a problem. runs: by algorithm, a function that runs it, which may be called any number of
        times; an algorithm has to be clearly faster than those before it."""
        if self.ranks and problem not in self._agreed:
            rank, gather = self.ranks
            self._agreed.add(problem)
            mine = None
            if rank == 0:
                recorded = self._chosen.get(problem)
                mine = recorded if recorded in runs else self._measured(problem, runs)
            self._chosen[problem] = gather(mine)[0]
        elif self._chosen.get(problem) not in runs:
            self._chosen[problem] = self._measured(problem, runs)
        return self._chosen[problem]

    def _measured(self, problem: str, runs: Mapping[str, Callable[[], None]]) -> str:
        key = f"{problem}; {self._setting}"
        kept = self._cache.get(key)
        if kept is not None and kept in runs:
            return kept
        best, least = "", float("inf")
        for name, run in runs.items():
            run()  # compiles, and brings weights and images into the caches
            shortest = float("inf")
            for _ in range(ROUNDS):
                begin = time.perf_counter()
                run()
                shortest = min(shortest, time.perf_counter() - begin)
                if shortest > SLOW * least:
                    break
            if shortest < GAIN * least:
                best, least = name, shortest
        self._cache.put(key, best)
        return best

    @contextlib.contextmanager
    def shared(self, rank: int, gather: Gather) -> Iterator[None]:
        """Inside it the process of rank 0 chooses for all."""
        self.ranks = rank, gather
        try:
            yield
        finally:
            self.ranks = None

    def recorded(self) -> list[str]:
        """All choices as "problem: algorithm", for a checkpoint."""
        return [f"{problem}: {name}" for problem, name in sorted(self._chosen.items())]

    def restore(self, lines: Iterable[str]) -> None:
        """Takes choices that a checkpoint recorded; they take precedence over measured ones."""
        self._chosen |= {problem: name for problem, _, name in (line.rpartition(": ") for line in lines)}
