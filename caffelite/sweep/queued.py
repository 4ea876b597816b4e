"""Trials of a sweep as jobs of a queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from ..errors import CaffeliteError
from ..runs.config import RunConfig
from ..runs.queue import edit, job
from ..runs.queue.edit import submit_run
from ..runs.queue.job import Job
from ..runs.queue.process import last_line
from .jobs import Stop

PERIOD = 0.3  # seconds between looks at the jobs
KILLED_STATUS = -9

T = TypeVar("T")


class QueuedJobs(Generic[T]):
    """Runs training runs for items as jobs of the queue in ``root``.

    gpus: see `runs.queue.job.Job`. folder: the run folder of an item. Where this process ends, the jobs stay in the
    queue, and the next one that runs the same items waits for them.
    """

    def __init__(self, root: Path, gpus: str, folder: Callable[[T], Path]):
        self._root, self._gpus, self._folder = root, gpus, folder

    def run(
        self,
        items: Sequence[T],
        configuration: Callable[[T], RunConfig | None],
        ended: Callable[[T, int, str], bool],
        stop: Stop,
    ) -> None:
        """Adds jobs for all items and waits until they have ended; the other parameters as `jobs.Jobs.run` has them."""
        pending: dict[str, tuple[T, Path]] = {}
        for item in items:
            if stop.requested:
                break
            self._submit(item, configuration, pending)
        cancelled = False
        while pending:
            if stop.requested and not cancelled:
                cancelled = True
                self._cancel(pending)
            for id, (item, folder) in list(pending.items()):
                found = job.read(folder)
                if found and found.id == id and found.state in job.PENDING:
                    continue
                del pending[id]
                status, tail = _result(found)
                if ended(item, status, tail) and not stop.requested:
                    self._submit(item, configuration, pending)
            time.sleep(PERIOD)

    def _submit(
        self, item: T, configuration: Callable[[T], RunConfig | None], pending: dict[str, tuple[T, Path]]
    ) -> None:
        """Adds the job of an item, or finds the one that an earlier session added."""
        found = job.read(self._folder(item))
        if not found or found.state not in job.PENDING:
            config = configuration(item)
            if config is None:
                return
            found = submit_run(self._root, config, gpus=self._gpus, keep_folder=True)
        pending[found.id] = item, found.folder

    def _cancel(self, pending: dict[str, tuple[T, Path]]) -> None:
        for id in reversed(pending):
            try:
                edit.cancel(self._root, id)
            except CaffeliteError:  # it has ended
                continue


def _result(found: Job | None) -> tuple[int, str]:
    """(exit status, end of the log) of a job that has ended; a job that someone stopped counts as failed."""
    if found is None:
        return 2, "its job was removed"
    if found.state == job.STOPPED and (found.status is None or found.status):
        return 2, found.reason
    if found.state == job.KILLED or found.status is None:
        return KILLED_STATUS, found.reason
    return found.status, found.reason if found.state == job.FAILED else last_line(found.log)
