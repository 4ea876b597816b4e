"""Training processes of a sweep, some at a time, each on a device of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import IO, Generic, TypeVar

from ..parallel.transports import star

PERIOD = 0.05  # seconds between looks at the processes
TAIL = 1 << 14  # bytes of standard error that are kept of a failed process
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")

T = TypeVar("T")


@dataclass
class Stop:
    """A request to stop. number: of the signal that made it; 0: none. deadline: of time.monotonic(), after which a stop
    is requested too; None: none."""

    number: int = 0
    deadline: float | None = None

    @property
    def requested(self) -> bool:
        return bool(self.number) or (self.deadline is not None and time.monotonic() >= self.deadline)


@dataclass
class _Job(Generic[T]):
    item: T
    device: int | None
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    stopping: bool = False

    def tail(self) -> str:
        """The end of what the process wrote to standard error."""
        size = self.output.seek(0, os.SEEK_END)
        self.output.seek(max(0, size - TAIL))
        return self.output.read().decode(errors="replace")


class Jobs(Generic[T]):
    """Runs ``caffelite ARGUMENTS`` for items, at most one process for each entry of ``devices`` at a time.

    devices: the number of a GPU, or None for the CPU, of each process. threads: of a process on a CPU; 0: no limit.
    Processes are in sessions of their own. They receive SIGTERM when this process ends, however it ends (Linux), and
    when a signal stops the sweep; they write a snapshot then.
    """

    def __init__(self, devices: Sequence[int | None], threads: int = 0):
        self._free = list(devices)
        self._running: list[_Job[T]] = []
        self._environment = dict(os.environ)
        if threads:
            self._environment |= {name: str(threads) for name in THREADS}

    def run(
        self,
        items: Sequence[T],
        arguments: Callable[[T, int | None], list[str] | None],
        ended: Callable[[T, int, str], bool],
        stop: Stop,
    ) -> None:
        """Runs all items in order.

        arguments(item, device): the command's arguments, None where nothing is to run. ended(item, status, tail):
        called after a process; True: it is to run again. stop: once it is requested, processes receive SIGTERM and no
        other one starts.
        """
        pending = list(items)
        try:
            while (pending and not stop.requested) or self._running:
                while pending and self._free and not stop.requested:
                    self._start(pending.pop(0), arguments)
                if stop.requested:
                    self._terminate()
                self._collect(pending, ended, stop)
        except KeyboardInterrupt:
            for job in self._running:
                job.process.kill()
            raise
        finally:
            self._terminate()
            for job in self._running:
                job.process.wait()

    def _start(self, item: T, arguments: Callable[[T, int | None], list[str] | None]) -> None:
        device = self._free.pop(0)
        words = arguments(item, device)
        if words is None:
            self._free.insert(0, device)
            return
        output = tempfile.TemporaryFile()  # survives this process, unlike a pipe
        process = subprocess.Popen(
            star.command(words),
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            start_new_session=True,
            preexec_fn=star.bound_to(os.getpid()),
        )
        self._running.append(_Job(item, device, process, output))

    def _terminate(self) -> None:
        """Requests each running process once to stop."""
        for job in self._running:
            if not job.stopping and job.process.poll() is None:
                job.stopping = True
                job.process.send_signal(signal.SIGTERM)

    def _collect(self, pending: list[T], ended: Callable[[T, int, str], bool], stop: Stop) -> None:
        """Waits until a process ends, at most PERIOD."""
        done = [job for job in self._running if job.process.poll() is not None]
        if not done and self._running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._running[0].process.wait(PERIOD)
        for job in done:
            self._running.remove(job)
            self._free.append(job.device)
            with job.output:
                again = ended(job.item, job.process.returncode, job.tail())
            if again and not stop.requested:
                pending.insert(0, job.item)


@contextlib.contextmanager
def stopping(stop: Stop) -> Iterator[None]:
    """Within it SIGINT and SIGTERM are recorded in ``stop``; a second one raises KeyboardInterrupt."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.number:
            raise KeyboardInterrupt
        stop.number = number
        with contextlib.suppress(OSError):
            os.write(2, b"Stopping the trials, each with a snapshot; a second signal stops at once.\n")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform.startswith("linux") else os.cpu_count() or 1


def wait_while(condition: Callable[[], bool], stop: Stop) -> None:
    """Waits as long as a condition holds and no stop is requested."""
    while condition() and not stop.requested:
        time.sleep(PERIOD)
