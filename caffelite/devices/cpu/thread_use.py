"""What the threads of a CPU do while a function runs: regions, waiting, sleeping."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .device import CPU
from .kernels.parallel import AVAILABLE, ELAPSED, REGIONS, WORKED, counters, ticks
from .onednn import Library


@dataclass
class ThreadUse:
    """Of one call of the function, on average. Times are milliseconds; None where the processor or the system does not
    tell."""

    threads: int
    ms: float
    regions: float  # of kernels that several threads run
    regions_ms: float | None
    waiting: float | None  # the share of the threads' time in regions in which they have nothing to do
    library_calls: float  # of oneDNN, which has regions of its own
    library_ms: float
    sleeps: float | None  # of all threads: a thread gave its core away because it had nothing to do
    stops: float | None  # a thread was stopped for another one

    def lines(self) -> list[str]:
        """The figures as sentences."""
        regions = f"  {self.regions:.4g} regions of kernels on several threads"
        if self.regions_ms is not None:
            regions += f": {self.regions_ms:.4g} ms, of which threads wait {self.waiting or 0:.0%}"
        lines = [f"Threads: {self.threads}; a pass forward and backward of {self.ms:.4g} ms has", regions]
        if self.library_calls:
            lines.append(f"  {self.library_calls:.4g} calls of oneDNN: {self.library_ms:.4g} ms")
        if self.regions_ms is not None:
            lines.append(f"  the rest, on one thread: {max(0, self.ms - self.regions_ms - self.library_ms):.4g} ms")
        if self.sleeps is not None:
            lines.append(
                f"  {self.sleeps:.4g} times a thread fell asleep, {self.stops:.4g} times another one stopped it"
            )
        return lines


def measured(device: CPU, run: Callable[[], None], count: int) -> ThreadUse:
    """Calls ``run``, a pass of a net, ``count`` times, after it is decided whether cores are kept awake."""
    while not device.cores.decided:
        run()
    ticks()  # compiles it
    switches, seconds, clock = _switches(device), time.perf_counter(), ticks()
    counters[:] = 0
    with _library_calls(device.library) as laps:
        for _ in range(count):
            run()
    taken = counters.tolist()
    seconds, clock = time.perf_counter() - seconds, ticks() - clock
    after = _switches(device)
    differences = [(b - a) / count for a, b in zip(switches, after, strict=True)] if switches and after else [None] * 2
    return ThreadUse(
        device.threads,
        seconds / count * 1e3,
        taken[REGIONS] / count,
        taken[ELAPSED] / clock * seconds / count * 1e3 if clock else None,
        1 - taken[WORKED] / taken[AVAILABLE] if taken[AVAILABLE] else None,
        len(laps) / count,
        sum(laps) / count * 1e3,
        *differences,
    )


@contextmanager
def _library_calls(library: Library | None) -> Iterator[list[float]]:
    """Gets the seconds of each call of oneDNN."""
    laps: list[float] = []
    if library is None:
        yield laps
        return
    execute = library.execute

    def timed(*arguments: Any) -> int:
        begin = time.perf_counter()
        status: int = execute(*arguments)
        laps.append(time.perf_counter() - begin)
        return status

    library.execute = timed
    try:
        yield laps
    finally:
        library.execute = execute


def _switches(device: CPU) -> list[int] | None:
    """How many times threads gave their core away, and were stopped for others, but for those that keep cores awake."""
    keepers = device.cores.thread_ids()
    counts = [0, 0]
    try:
        for folder in Path("/proc/self/task").iterdir():
            if int(folder.name) in keepers:
                continue
            lines = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            for i, name in enumerate(("voluntary", "nonvoluntary")):
                counts[i] += int(lines[f"{name}_ctxt_switches"])
    except (OSError, KeyError):  # not Linux, or a thread that has ended
        return None
    return counts
