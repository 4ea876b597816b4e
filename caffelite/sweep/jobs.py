"""The trials of a sweep as jobs of a queue: of the sweep's own, or of one in which another process starts them."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ..errors import CaffeliteError
from ..runs.config import RunConfig
from ..runs.queue import edit, job
from ..runs.queue.job import Job
from ..runs.queue.process import last_line
from ..runs.queue.scheduler import Scheduler
from ..system import handling
from .trials import Trial

PERIOD = 0.05  # seconds between looks at jobs of this machine
QUEUE_PERIOD = 0.3  # and at those that others start
KILLED_STATUS = -9

Item = tuple[Trial, int]  # a trial and the rung to which it trains


@dataclass
class Stop:
    """A request to stop. number: of the signal that made it; 0: none. deadline: of time.monotonic(), after which a stop
    is requested too; None: none."""

    number: int = 0
    deadline: float | None = None

    @property
    def requested(self) -> bool:
        return bool(self.number) or (self.deadline is not None and time.monotonic() >= self.deadline)


class Jobs:
    """Runs trials as jobs of the queue in ``root``.

    gpus: see `runs.queue.job.Job`. scheduler: of that queue, which works in this process; None: in another one. most:
    how many jobs run at a time, which end with ``run``; None: as many as the scheduler has room for, which stay in the
    queue where this process ends. Either way jobs survive where it is killed, and the next one that runs the same items
    waits for them.
    """

    def __init__(self, root: Path, gpus: str, scheduler: Scheduler | None = None, most: int | None = None):
        self._root, self._gpus, self._scheduler, self._most = root, gpus, scheduler, most

    def run(
        self,
        items: Sequence[Item],
        configuration: Callable[[Item], RunConfig | None],
        ended: Callable[[Item, int, str], bool],
        stop: Stop,
    ) -> None:
        """Runs all items in order.

        configuration(item): of the run; None where nothing is to run. ended(item, status, reason): called after a run
        with its exit status and the last line of what it wrote; True: it is to run again. stop: once it is requested,
        runs are asked to stop with a snapshot, and no other one starts.
        """
        pending, running, stopping = list(items), list[tuple[Item, Job]](), False
        try:
            while (pending and not stop.requested) or running:
                while pending and not stop.requested and (self._most is None or len(running) < self._most):
                    item = pending.pop(0)
                    one = self._earlier(item)
                    if one is None and (config := configuration(item)):
                        one = edit.submit_run(self._root, config, gpus=self._gpus, keep_folder=True)
                    running += [(item, one)] if one else []
                if stop.requested and not stopping:
                    stopping = True
                    for _, one in reversed(running):
                        self._cancel(one)
                if self._scheduler:
                    self._scheduler.step()
                at_work = len(running)
                uncollected = self._scheduler.children if self._scheduler else {}
                for item, one in list(running):
                    # a process that has ended but is not collected yet has not recorded its status
                    if one.id in uncollected or (result := _result(one)) is None:
                        continue
                    running.remove((item, one))
                    if ended(item, *result) and not stop.requested:
                        pending.insert(0, item)
                if running and len(running) == at_work:
                    time.sleep(QUEUE_PERIOD if self._most is None else PERIOD)
        except BaseException as error:
            if self._scheduler and self._most:
                self._end_all(self._scheduler, edit.KILL if isinstance(error, KeyboardInterrupt) else edit.PAUSE)
            raise

    def close(self) -> None:
        """No other trial follows."""
        if self._scheduler:
            self._scheduler.close()

    def _earlier(self, item: Item) -> Job | None:
        """The job of an item that an earlier session started and that has not ended; None: none."""
        earlier = job.read(item[0].run_folder)
        if not earlier or earlier.state not in job.PENDING:
            return None
        if not earlier.accepted:  # nobody starts it
            self._cancel(earlier)
            return None
        return earlier

    def _cancel(self, one: Job, manner: str = edit.PAUSE) -> None:
        children = self._scheduler.children.values() if self._scheduler else ()
        with contextlib.suppress(CaffeliteError):  # it has ended
            edit.cancel(self._root, one.id, manner, children)

    def _end_all(self, scheduler: Scheduler, manner: str) -> None:
        """Ends all jobs of this machine and waits for them."""
        for one in reversed(job.jobs(self._root)):
            if one.state in job.PENDING:
                self._cancel(one, manner)
        while not scheduler.idle():
            scheduler.step()
            time.sleep(PERIOD)


def _result(one: Job) -> tuple[int, str] | None:
    """(exit status, last line of its output) of a job; None where it has not ended. One that someone stopped counts as
    failed."""
    now = job.read(one.folder)
    if now is None:  # also for an instant, while its process renames the folder of an earlier run
        time.sleep(PERIOD)
        now = job.read(one.folder)
    if now is None:
        return 2, "its job was removed"
    if now.state in job.PENDING:
        return None
    if now.state == job.STOPPED and (now.status is None or now.status):
        return 2, now.reason
    if now.state == job.KILLED or now.status is None:
        edit.settle(now)
        return now.status or KILLED_STATUS, now.reason
    return now.status, now.reason if now.state == job.FAILED else last_line(now.log)


@contextlib.contextmanager
def stopping(stop: Stop) -> Iterator[None]:
    """Within it SIGINT and SIGTERM are recorded in ``stop``, and SIGHUP where it would end this process; a second one
    raises KeyboardInterrupt."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.number:
            raise KeyboardInterrupt
        stop.number = number
        with contextlib.suppress(OSError):
            os.write(2, b"Stopping the trials, each with a snapshot; a second signal stops at once.\n")

    hangup = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL else []
    with handling((signal.SIGINT, signal.SIGTERM, *hangup), handle):
        yield
