"""Work that pages hand to the queue, the state of it, and the schedulers that start it: one for each root."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import CaffeliteError, printable
from ..runs import folder as files
from ..runs.queue import edit, scheduler
from ..runs.queue.job import FREE, Job, jobs
from ..runs.queue.local import Local, Slots
from ..runs.queue.scheduler import Scheduler
from .config import ServeConfig

TAIL = 1 << 16  # bytes of a job's output that a page shows


def submit(
    config: ServeConfig, folder: Path, command: Sequence[str], *, quick: bool = False, directory: Path | None = None
) -> Job:
    """Adds a command to the queue of the root that holds ``place``.

    quick: it needs no slot. directory: where it runs; default: that root. Errors: CaffeliteError where the job
    cannot be written.
    """
    root = config.root_of(folder)
    return edit.add(
        root, command, gpus=FREE if quick else "", working_directory=directory or root, bounds=config.bounds
    )


def queued(
    config: ServeConfig, folder: Path, command: Sequence[str], result: Path, **options: Any
) -> tuple[Job, dict[str, Any]]:
    """Adds a command that writes ``result``, as ``submit`` does; the job, and what pages say of both."""
    job = submit(config, folder, command, **options)
    return job, {**summary(config, job), "result": config.address(result)}


def find(config: ServeConfig, id: str) -> tuple[Path, Job]:
    """The root that has a job, and the job. Errors: none has it."""
    for root in config.roots:
        if any(each.id == id for each in jobs(root)):
            return root, edit.find(root, id)
    raise CaffeliteError("there is no such job", found=printable(id, keep="")[:100])


def summary(config: ServeConfig, job: Job) -> dict[str, Any]:
    """id, state, reason, progress, command and folder of a job."""
    record = job.to_json()
    names = ("id", "state", "reason", "progress", "shell_command")
    return {name: record[name] for name in names} | {"folder": config.address(job.folder)}


def tail(path: Path) -> str:
    """The end of a text file; empty where there is none."""
    return printable(files.tail(path, TAIL))


log = logging.getLogger("caffelite")
RETRY = 3.0  # seconds until the server looks again whether it may schedule a root


@contextmanager
def schedulers_running(config: ServeConfig) -> Iterator[None]:
    """Within it the jobs of every root are started, where no other scheduler does it. At the end jobs continue."""
    over = threading.Event()
    slots = Slots.of(config.gpus, config.cpu_slots)
    threads = [
        threading.Thread(target=_schedule, args=(config, root, slots, over), name="caffelite scheduler", daemon=True)
        for root in config.roots
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _schedule(config: ServeConfig, root: Path, slots: Slots, over: threading.Event) -> None:
    """Schedules a root until the end; another scheduler, or a disk that fails, makes it wait."""
    with config.bounds.confined():
        _schedule_within(root, slots, config.allow_python, over)


def _schedule_within(root: Path, slots: Slots, python: bool, over: threading.Event) -> None:
    while not over.is_set():
        try:
            active = Scheduler(root, Local(slots), python)
        except CaffeliteError:
            over.wait(RETRY)
            continue
        try:
            while not over.wait(scheduler.PERIOD):
                active.step()
        except (CaffeliteError, OSError) as error:
            log.warning("The scheduler of %s starts again: %s", root, error)
            over.wait(RETRY)
        finally:
            active.close()
