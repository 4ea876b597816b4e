"""The schedulers of the server: one for each root, in a thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import CaffeliteError
from ..runs.queue import scheduler
from ..runs.queue.local import Local, Slots
from ..runs.queue.scheduler import Scheduler
from .config import ServeConfig

log = logging.getLogger("caffelite")
RETRY = 3.0  # seconds until the server looks again whether it may schedule a root


@contextmanager
def running(config: ServeConfig) -> Iterator[None]:
    """Within it the jobs of every root are started, where no other scheduler does it. At the end jobs continue."""
    over = threading.Event()
    slots = Slots.of(config.gpus, config.cpu_slots)
    threads = [
        threading.Thread(
            target=_schedule, args=(root, slots, config.allow_python, over), name="caffelite scheduler", daemon=True
        )
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


def _schedule(root: Path, slots: Slots, python: bool, over: threading.Event) -> None:
    """Schedules a root until the end; another scheduler, or a disk that fails, makes it wait."""
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
