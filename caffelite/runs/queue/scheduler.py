"""The scheduler of a queue: starts queued jobs in their order where its engine has room for them.

Everything that it knows is in the job folders. Where it is killed, running jobs continue, and the next scheduler finds
them by their locks, or in the cluster.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ...errors import CaffeliteError, reporting
from .. import folder as files, lock
from ..limits import Bounds
from ..lock import FileLock, HeldByAnother
from . import edit, job
from .job import Job, JobScanner

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
        path = folder / edit.SCHEDULER_LOCK
        try:
            with reporting(f"write {path}"):
                self._lock = FileLock(path)
        except HeldByAnother:
            who, remedy = lock.holder(path) or None, "it starts your jobs too; or stop it first"
            raise CaffeliteError(f"another scheduler works in {root}", found=who, remedy=remedy) from None
        self._path = Path(os.path.realpath(root))
        self._scanner = JobScanner(self.root)
        self._settled: set[str] = set()

    def step(self) -> list[Job]:
        """Starts what can start now and returns the jobs that it started."""
        self._engine.collect()
        known = self._scanner.jobs()
        states = {each.id: each.state for each in known}
        every = [each for each in known if each.state not in job.PENDING or self._serves(each)]
        for each in every:
            if each.state == job.KILLED and each.id not in self._settled and each.id not in self.children:
                self._settled.add(each.id)
                edit.settle(each)
        self._engine.look(every)
        started = []
        for each in every:
            if each.state != job.QUEUED or each.slurm:
                continue
            if not each.accepted:
                if each.id not in self.children and str(each.folder) not in self._reported:
                    self._reported.add(str(each.folder))
                    log.warning("Job %s in %s does not start: %s", each.id, each.folder, each.reason)
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
        pending = (each for each in self._scanner.jobs() if each.state in job.PENDING and each.accepted)
        return not any(map(self._serves, pending)) and not self.children

    @property
    def children(self) -> Mapping[str, int]:
        """The processes of jobs that started here, by id of the job, whose ends are still to be collected."""
        return self._engine.children()

    def close(self) -> None:
        """Gives up the queue; running jobs continue."""
        self._engine.close()
        self._lock.release()

    def _serves(self, each: Job) -> bool:
        """Whether the job is this scheduler's, and not that of one further down, as of a sweep."""
        return edit.serving(each.folder) == self._path

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
            held.describe({"process": None, "id": each.id, "slot": slot, "started": files.now()})
            bounds = dataclasses.replace(bounds, python=bounds.python and self._python)
            if not self._engine.start(now, held, slot, bounds):
                return False
        except (OSError, CaffeliteError) as error:
            with suppress(OSError):
                job.record_end(each.folder, each.id, job.FAILED, f"it cannot start: {error}")
            return False
        finally:
            held.release()
        log.info("Started job %s on %s: %s", each.id, slot, each.shell_command)
        return True

    def _fail(self, each: Job, reason: str) -> None:
        log.warning("Job %s does not start: %s", each.id, reason)
        with suppress(HeldByAnother, OSError), FileLock(each.folder / files.JOB_LOCK):
            job.record_end(each.folder, each.id, job.FAILED, reason)


class Engine:
    """Starts jobs that the scheduler chose, and collects their ends."""

    def collect(self) -> None:
        """Records the ends of processes of this one, before the scheduler reads the jobs."""

    def look(self, jobs: Sequence[Job]) -> None:
        """A step of the scheduler begins, with these jobs."""

    def reserve(self, job: Job) -> str:
        """Takes a slot for a job in this step and returns it; "" where none is free."""
        raise NotImplementedError

    def start(self, job: Job, held: FileLock, slot: str, bounds: Bounds) -> bool:
        """Starts a job; False where that is to be tried again. held: job.lock, which the caller releases. Errors:
        OSError, CaffeliteError for what keeps this job from starting."""
        raise NotImplementedError

    def children(self) -> Mapping[str, int]:
        """The processes of jobs that started here, by id of the job, whose ends are still to be collected."""
        return {}

    def close(self) -> None:
        """The scheduler gives up the queue; running jobs continue."""
