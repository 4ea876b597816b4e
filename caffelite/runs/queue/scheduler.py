"""The scheduler of a queue: starts queued jobs in their order where its engine has room for them.

Everything that it knows is in the job folders. Where it is killed, running jobs continue, and the next scheduler finds
them by their locks, or in the cluster.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ...errors import CaffeliteError
from .. import folder as files
from .. import lock
from ..limits import Bounds
from ..lock import FileLock, HeldByAnother
from . import edit, job
from .job import Job, Scanner

log = logging.getLogger("caffelite")

PERIOD = 0.5  # seconds between steps


class Scheduler:
    """Starts the jobs below a folder that this user added. engine: runs them; the scheduler closes it. step: call it
    every PERIOD seconds. python: False where no job may run Python layers.

    Errors: CaffeliteError where another scheduler works there.
    """

    def __init__(self, root: str | Path, engine: Engine, python: bool = True):
        self.root, self._engine, self._python = Path(root), engine, python
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
        self._settled: set[str] = set()

    def step(self) -> list[Job]:
        """Starts what can start now and returns the jobs that it started."""
        self._engine.collect()
        every = self._scanner.jobs()
        states = {each.id: each.state for each in every}
        for each in every:
            if each.state == job.KILLED and each.id not in self._settled:
                self._settled.add(each.id)
                edit.settle(each)
        self._engine.look(every)
        started = []
        for each in every:
            if each.state != job.QUEUED or each.slurm:
                continue
            if not each.accepted:
                self._report(each)
                continue
            if failed := [id for id in each.after if states.get(id) not in (*job.PENDING, job.FINISHED)]:
                self._fail(each, f"job {failed[0]} did not finish: {states.get(failed[0], 'removed')}")
            elif all(states[id] == job.FINISHED for id in each.after) and (slot := self._engine.reserve(each)):
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
        return ended and not self._engine.is_busy()

    def _report(self, each: Job) -> None:
        if str(each.folder) not in self._reported:
            self._reported.add(str(each.folder))
            log.warning("Job %s in %s does not start: %s", each.id, each.folder, each.reason)

    def close(self) -> None:
        """Gives up the queue; running jobs continue."""
        self._engine.close()
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
            if not self._engine.start(now, held, slot, self._limited(bounds)):
                return False
        except (OSError, CaffeliteError) as error:
            with suppress(OSError):
                job.record_end(each.folder, each.id, job.FAILED, f"it cannot start: {error}")
            return False
        finally:
            held.release()
        log.info("Started job %s on %s: %s", each.id, slot, each.shell_command)
        return True

    def _limited(self, bounds: Bounds) -> Bounds:
        return dataclasses.replace(bounds, python=bounds.python and self._python)

    def _fail(self, each: Job, reason: str) -> None:
        log.warning("Job %s does not start: %s", each.id, reason)
        with suppress(HeldByAnother, OSError):
            held = FileLock(each.folder / files.JOB_LOCK)
            try:
                job.record_end(each.folder, each.id, job.FAILED, reason)
            finally:
                held.release()


class Engine(ABC):
    """Starts jobs that the scheduler chose, and collects their ends."""

    @abstractmethod
    def collect(self) -> None:
        """Records the ends of processes of this one, before the scheduler reads the jobs."""

    @abstractmethod
    def look(self, jobs: Sequence[Job]) -> None:
        """A step of the scheduler begins, with these jobs."""

    @abstractmethod
    def reserve(self, job: Job) -> str:
        """Takes a slot for a job in this step and returns it; "" where none is free."""

    @abstractmethod
    def start(self, job: Job, held: FileLock, slot: str, bounds: Bounds) -> bool:
        """Starts a job; False where that is to be tried again. held: job.lock, which the caller releases. Errors:
        OSError, CaffeliteError for what keeps this job from starting."""

    def is_busy(self) -> bool:
        """Whether the ends of jobs that started here are still to be collected."""
        return False

    @abstractmethod
    def close(self) -> None:
        """The scheduler gives up the queue; running jobs continue."""
