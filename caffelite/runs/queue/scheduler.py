"""The scheduler of a queue: starts queued jobs on free devices.

Everything that it knows is in the job folders. Where it is killed, running jobs continue, and the next scheduler finds
them by their locks.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ... import stored
from ...errors import CaffeliteError
from ...parallel.transports import star
from .. import folder as files
from .. import lock
from ..bounds.bounds import Bounds
from ..device_choice import gpu_numbers
from ..lock import FileLock, HeldByAnother
from . import edit, job, process
from .job import ALL, ANY, FREE, Job, Scanner

log = logging.getLogger("caffelite")

PERIOD = 0.5  # seconds between steps
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
CPU = "cpu"


@dataclass(frozen=True)
class Slots:
    """gpus: the numbers of the GPUs that jobs may use, one job on each. cpu: how many jobs run on the CPU at a time.

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
        return cls(tuple(gpu_numbers(gpus)) if gpus != "none" else (), cpu)


class Scheduler:
    """Starts the jobs below a folder that this user added. step: call it every PERIOD seconds. python: False where no
    job may run Python layers.

    Errors: CaffeliteError where another scheduler works there.
    """

    def __init__(self, root: str | Path, slots: Slots, python: bool = True):
        self.root, self.slots, self._python = Path(root), slots, python
        self._reported: set[str] = set()
        folder = edit.queue_folder(root)
        try:
            self._lock = FileLock(folder / edit.SCHEDULER_LOCK)
        except HeldByAnother:
            who = lock.holder(folder / edit.SCHEDULER_LOCK) or None
            remedy = "it starts your jobs too; or stop it first"
            raise CaffeliteError(f"another scheduler works in {root}", found=who, remedy=remedy) from None
        except OSError as error:
            raise CaffeliteError(f"cannot write {folder / edit.SCHEDULER_LOCK}: {error.strerror}") from None
        self._scanner = Scanner(self.root)
        self._children: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
        self._settled: set[str] = set()
        self._environment = dict(os.environ)
        if slots.cpu > 1:
            threads = max(1, len(os.sched_getaffinity(0)) // slots.cpu)
            self._environment |= {name: str(threads) for name in THREADS}

    def step(self) -> list[Job]:
        """Starts what can start now and returns the jobs that it started."""
        self._reap()
        every = self._scanner.jobs()
        states = {each.id: each.state for each in every}
        for each in every:
            if each.state == job.KILLED and each.id not in self._settled:
                self._settled.add(each.id)
                edit.settle(each)
        free = _Free(self.slots, [each.slot for each in every if each.state == job.RUNNING])
        started = []
        for each in every:
            if each.state != job.QUEUED:
                continue
            if not each.accepted:
                self._report(each)
                continue
            if failed := [id for id in each.after if states.get(id) not in (*job.PENDING, job.FINISHED)]:
                self._fail(each, f"job {failed[0]} did not finish: {states.get(failed[0], 'removed')}")
            elif all(states[id] == job.FINISHED for id in each.after) and (slot := free.take(each.gpus)):
                if self._start(each, slot):
                    started.append(each)
        return started

    def run(self, ended: Callable[[], bool]) -> None:
        """Steps until ``ended()``. Jobs that run then continue."""
        while not ended():
            self.step()
            time.sleep(PERIOD)

    def idle(self) -> bool:
        """Whether no job is running, or queued and accepted, and the ends of those that ran here are reported."""
        ended = not any(each.state in job.PENDING and each.accepted for each in self._scanner.jobs())
        return ended and not self._children

    def _report(self, each: Job) -> None:
        if str(each.folder) not in self._reported:
            self._reported.add(str(each.folder))
            log.warning("Job %s in %s does not start: %s", each.id, each.folder, each.reason)

    def close(self) -> None:
        """Gives up the queue; running jobs continue."""
        for child, _ in self._children.values():  # so that none stays a zombie
            threading.Thread(target=child.wait, name="caffelite job", daemon=True).start()
        self._children.clear()
        self._lock.release()

    def _start(self, each: Job, slot: str) -> bool:
        """Starts a job; False where it cannot start now."""
        try:
            held = FileLock(each.folder / files.JOB_LOCK)
        except (HeldByAnother, OSError):
            return False
        try:
            now = job.read(each.folder)
            if not now or now.id != each.id or now.state != job.QUEUED:  # changed since the scan
                return False
            bounds = now.bounds()
            if bounds is None:
                return False
            held.describe({"process": None, "id": each.id, "slot": slot, "started": job.now()})
            words = [*now.command]
            if now.gpus == ANY and slot.startswith("gpu "):
                words.append(f"--gpu={slot.removeprefix('gpu ')}")
            child = process.start(now, held, star.command(words), slot, self._environment, self._limited(bounds))
        except OSError as error:
            with suppress(OSError):
                job.record_end(each.folder, each.id, job.FAILED, f"it cannot start: {error}")
            return False
        finally:
            held.release()
        self._children[each.id] = child, each.folder
        log.info("Started job %s on %s: %s", each.id, slot, each.shell_command)
        return True

    def _limited(self, bounds: Bounds) -> Bounds:
        return dataclasses.replace(bounds, python=bounds.python and self._python)

    def _reap(self) -> None:
        """Collects child processes that have ended. Where one did not even begin, its end is recorded here."""
        for id, (child, folder) in list(self._children.items()):
            status = child.poll()
            if status is None:
                continue
            del self._children[id]
            if stored.read(folder / files.PROCESS, {"id": str}).get("id") != id:
                with suppress(OSError):
                    state = job.KILLED if status < 0 else job.FAILED
                    job.record_end(folder, id, state, f"its process ended with status {status}", status)
            if ended := job.read(folder):
                log.info("Job %s: %s%s", id, ended.state, f": {ended.reason}" if ended.reason else "")

    def _fail(self, each: Job, reason: str) -> None:
        log.warning("Job %s does not start: %s", each.id, reason)
        with suppress(HeldByAnother, OSError):
            held = FileLock(each.folder / files.JOB_LOCK)
            try:
                job.record_end(each.folder, each.id, job.FAILED, reason)
            finally:
                held.release()


class _Free:
    """The slots that are free. used: those of running jobs, as in "gpu 0,1" or "cpu"."""

    def __init__(self, slots: Slots, used: Sequence[str]):
        taken = {number for text in used if text.startswith("gpu ") for number in _numbers(text.removeprefix("gpu "))}
        self._all = set(slots.gpus)
        self._gpus = self._all - taken
        self._cpu = slots.cpu - sum(text == CPU for text in used)

    def take(self, gpus: str) -> str:
        """Takes a slot and returns it; "" where none is free. GPUs that a job of several waits for are kept for it."""
        if gpus == FREE:
            return FREE
        if not gpus or not self._all:
            self._cpu -= 1
            return CPU if self._cpu >= 0 else ""
        if gpus == ANY:
            if not self._gpus:
                return ""
            chosen = {min(self._gpus)}
        else:
            chosen = self._all if gpus == ALL else _numbers(gpus)
        complete = chosen & self._all <= self._gpus
        self._gpus -= chosen
        return f"gpu {','.join(map(str, sorted(chosen)))}" if complete else ""


def _numbers(text: str) -> set[int]:
    return {int(number) for number in text.split(",")}
