"""The training runs of a sweep: processes of this one, each on a device of its own, or jobs of a queue."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from ..errors import CaffeliteError
from ..parallel.transports import star
from ..runs.config import RunConfig
from ..runs.queue import edit, job
from ..runs.queue.local import THREADS
from ..runs.queue.process import last_line
from ..runs.queue.scheduler import Scheduler
from ..system import handling
from .trials import Trial

PERIOD = 0.05  # seconds between looks at processes
QUEUE_PERIOD = 0.3  # and at the jobs of a queue
TAIL = 1 << 14  # bytes of standard error that are read of a process
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
    """Runs trials, as many at a time as there is room for. A trial that runs is an object of the subclass's kind."""

    period = PERIOD

    def run(
        self,
        items: Sequence[Item],
        configuration: Callable[[Item], RunConfig | None],
        ended: Callable[[Item, int, str], bool],
        stop: Stop,
    ) -> None:
        """Runs all items in order.

        configuration(item): of the run; None where nothing is to run. ended(item, status, tail): called after a run
        with its exit status and the end of what it wrote; True: it is to run again. stop: once it is requested, runs
        are asked to stop with a snapshot, and no other one starts.
        """
        pending, running, stopping = list(items), list[tuple[Item, Any]](), False
        try:
            while (pending and not stop.requested) or running:
                self.look()
                while pending and not stop.requested and self.has_room():
                    item = pending.pop(0)
                    one = self.find(item)
                    if one is None and (config := configuration(item)):
                        one = self.start(config)
                    running += [(item, one)] if one else []
                if stop.requested and not stopping:
                    stopping = True
                    for _, one in reversed(running):
                        self.stop(one)
                for item, one in list(running):
                    if (result := self.result(one)) is None:
                        continue
                    running.remove((item, one))
                    if ended(item, *result) and not stop.requested:
                        pending.insert(0, item)
                time.sleep(self.period if running else 0)
        except BaseException as error:
            self.leave([one for _, one in running], isinstance(error, KeyboardInterrupt))
            raise

    def look(self) -> None:
        """Called again and again while trials run."""

    def close(self) -> None:
        """No other trial follows."""

    def has_room(self) -> bool:
        """Whether another run can start."""
        return True

    def find(self, item: Item) -> Any:
        """The run of an item that an earlier session started; None: none."""
        return None

    def start(self, config: RunConfig) -> Any:
        """Starts a run."""
        raise NotImplementedError

    def result(self, one: Any) -> tuple[int, str] | None:
        """(exit status, end of its output) of a run; None where it has not ended."""
        raise NotImplementedError

    def stop(self, one: Any) -> None:
        """Asks a run to stop."""
        raise NotImplementedError

    def leave(self, running: Sequence[Any], kill: bool) -> None:
        """The sweep ends with an error while these run. kill: the user wants an end at once."""


@dataclass(eq=False)
class _Process:
    device: int | None
    process: subprocess.Popen[bytes]
    output: IO[bytes]


class Processes(Jobs):
    """Runs each trial in a process, at most one for each entry of ``devices`` at a time.

    devices: the number of a GPU, or None for the CPU, of each process. threads: of a process on a CPU; 0: no limit.
    Processes are in sessions of their own. They receive SIGTERM when this process ends, however it ends (Linux), and
    when a signal stops the sweep; they write a snapshot then.
    """

    def __init__(self, devices: Sequence[int | None], threads: int = 0):
        self._free, self._threads = list(devices), threads
        self._environment = dict(os.environ) | {name: str(threads) for name in THREADS if threads}

    def has_room(self) -> bool:
        return bool(self._free)

    def start(self, config: RunConfig) -> _Process:
        device = self._free.pop(0)
        if device is not None:
            config = dataclasses.replace(config, gpus=str(device))
        if self._threads and config.data_threads is None:
            config = dataclasses.replace(config, data_threads=self._threads)
        output = tempfile.TemporaryFile()  # survives this process, unlike a pipe
        process = subprocess.Popen(
            star.command(["train", *config.arguments()]),
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            start_new_session=True,
            preexec_fn=star.bound_to(os.getpid()),
        )
        return _Process(device, process, output)

    def result(self, one: _Process) -> tuple[int, str] | None:
        status = one.process.poll()
        if status is None:
            return None
        self._free.append(one.device)
        with one.output as output:
            output.seek(max(0, output.seek(0, os.SEEK_END) - TAIL))
            return status, output.read().decode(errors="replace")

    def stop(self, one: _Process) -> None:
        one.process.send_signal(signal.SIGTERM)

    def leave(self, running: Sequence[_Process], kill: bool) -> None:
        for one in running:
            one.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        for one in running:
            one.process.wait()


class QueuedJobs(Jobs):
    """Runs trials as jobs of the queue in ``root``. gpus: see `runs.queue.job.Job`. scheduler: of that queue, which
    works in this process; None: in another one.

    Where this process ends, the jobs stay in the queue, and the next one that runs the same items waits for them.
    """

    period = QUEUE_PERIOD

    def __init__(self, root: Path, gpus: str, scheduler: Scheduler | None = None):
        self._root, self._gpus, self._scheduler = root, gpus, scheduler

    def look(self) -> None:
        if self._scheduler:
            self._scheduler.step()

    def close(self) -> None:
        if self._scheduler:
            self._scheduler.close()

    def find(self, item: Item) -> job.Job | None:
        earlier = job.read(item[0].run_folder)
        return earlier if earlier and earlier.state in job.PENDING else None

    def start(self, config: RunConfig) -> job.Job:
        return edit.submit_run(self._root, config, gpus=self._gpus, keep_folder=True)

    def result(self, one: job.Job) -> tuple[int, str] | None:
        """A job that someone stopped counts as failed."""
        now = job.read(one.folder)
        if now is None:
            return 2, "its job was removed"
        if now.id == one.id and now.state in job.PENDING:
            return None
        if now.state == job.STOPPED and (now.status is None or now.status):
            return 2, now.reason
        if now.state == job.KILLED or now.status is None:
            return KILLED_STATUS, now.reason
        return now.status, now.reason if now.state == job.FAILED else last_line(now.log)

    def stop(self, one: job.Job) -> None:
        with contextlib.suppress(CaffeliteError):  # it has ended
            edit.cancel(self._root, one.id)


@contextlib.contextmanager
def stopping(stop: Stop) -> Iterator[None]:
    """Within it SIGINT and SIGTERM are recorded in ``stop``; a second one raises KeyboardInterrupt."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.number:
            raise KeyboardInterrupt
        stop.number = number
        with contextlib.suppress(OSError):
            os.write(2, b"Stopping the trials, each with a snapshot; a second signal stops at once.\n")

    with handling((signal.SIGINT, signal.SIGTERM), handle):
        yield
