"""Runs the jobs of a queue on the devices of this machine: one on each GPU, and some on the CPU."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...system import command, environment, usable_cores
from ..limits import Bounds
from ..lock import FileLock
from ..open_net import gpu_numbers
from . import job, process
from .job import ALL, ANY, FREE, Job
from .scheduler import Engine

log = logging.getLogger("caffelite")

THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
CPU = "cpu"


@dataclass(frozen=True)
class Slots:
    """gpus: the numbers of the GPUs that jobs may use, one job on each, two where a number comes twice. cpu: how many
    jobs run on the CPU at a time.

    A job that names GPUs runs in a CPU slot where there are none at all, so that its command reports what is missing.
    """

    gpus: tuple[int, ...] = ()
    cpu: int = 1

    @classmethod
    def of(cls, gpus: str, cpu: int) -> Slots:
        """gpus: "all" of this machine, numbers as in "0,1", or "none". Errors: another text."""
        if gpus == ALL:
            from ...devices import cuda

            return cls(tuple(range(cuda.count())), cpu)
        return cls(tuple(dict.fromkeys(gpu_numbers(gpus))) if gpus != "none" else (), cpu)


class Local(Engine):
    """Each job is a process of this one, in a session of its own. threads: of each on the CPU; 0: no limit; None: the
    slots divide the cores."""

    def __init__(self, slots: Slots, threads: int | None = None):
        self.slots = slots
        self._free = Free(slots, ())
        self._children: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
        if threads is None:
            threads = max(1, len(usable_cores()) // slots.cpu) if slots.cpu > 1 else 0
        self._environment = environment() | {name: str(threads) for name in THREADS if threads}

    def look(self, jobs: Sequence[Job]) -> None:
        self._free = Free(self.slots, [each.slot for each in jobs if each.state == job.RUNNING])

    def reserve(self, job: Job) -> str:
        return self._free.take(job.gpus)

    def start(self, job: Job, held: FileLock, slot: str, bounds: Bounds) -> bool:
        words = [*job.command]
        if job.gpus == ANY and slot.startswith("gpu "):
            words.append(f"--gpu={slot.removeprefix('gpu ')}")
        child = process.start(job, held, command(words, job.working_directory), slot, self._environment, bounds)
        self._children[job.id] = child, job.folder
        return True

    def collect(self) -> None:
        """Collects child processes that have ended. Where one did not record its end, it is recorded here."""
        for id, (child, folder) in list(self._children.items()):
            status = child.poll()
            if status is None:
                continue
            del self._children[id]
            ended = job.read(folder)
            if ended and ended.id == id and not ended.ended:
                state = job.FAILED if not ended.started and status >= 0 else job.KILLED
                with suppress(OSError):
                    job.record_end(folder, id, state, f"its process ended with status {status}", status)
                ended = job.read(folder)
            if ended:
                log.info("Job %s: %s%s", id, ended.state, f": {ended.reason}" if ended.reason else "")

    def children(self) -> Mapping[str, int]:
        return {id: child.pid for id, (child, _) in self._children.items()}

    def close(self) -> None:
        for child, _ in self._children.values():  # so that none stays a zombie
            threading.Thread(target=child.wait, name="caffelite job", daemon=True).start()
        self._children.clear()


class Free:
    """The slots that are free. used: those of running jobs, as in "gpu 0,1" or "cpu"."""

    def __init__(self, slots: Slots, used: Sequence[str]):
        gpus = (_gpu_ids(text.removeprefix("gpu ")) for text in used if text.startswith("gpu "))
        self._taken = Counter(number for each in gpus for number in each)  # how many jobs each has
        self._room = Counter(slots.gpus)  # for how many
        self._cpu = slots.cpu - sum(text == CPU for text in used)

    def take(self, gpus: str) -> str:
        """Takes a slot and returns it; "" where none is free. GPUs that a job of several waits for are kept for it."""
        if gpus == FREE:
            return FREE
        if not gpus or not self._room:
            self._cpu -= 1
            return CPU if self._cpu >= 0 else ""
        free = {number for number, most in self._room.items() if self._taken[number] < most}
        if gpus == ANY:
            if not free:
                return ""
            chosen = {min(free, key=lambda number: (self._taken[number], number))}
        else:
            chosen = set(self._room) if gpus == ALL else _gpu_ids(gpus)
        complete = chosen & self._room.keys() <= free
        self._taken.update(chosen)
        return f"gpu {','.join(map(str, sorted(chosen)))}" if complete else ""


def _gpu_ids(text: str) -> set[int]:
    return {int(number) for number in text.split(",")}
