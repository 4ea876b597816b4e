"""caffelite queue run"""

from __future__ import annotations

import signal
from types import FrameType

import click

from .. import options
from ..logs import start
from . import arguments


@click.command(short_help="Run the jobs of the queue")
@arguments.root
@options.job_gpus
@options.cpu_slots
@click.option("--until_idle", is_flag=True, help="Stop when no job is queued or running.")
def run(root: str, gpus: str, cpu_slots: int, until_idle: bool) -> None:
    """Runs the scheduler of the queue in the foreground, until Ctrl-C. Running jobs then continue.

    Only one scheduler works in a root. A new job starts within a second.

    \b
    Examples:
      caffelite queue run
      caffelite queue run -gpu 0,1 -cpu_slots 2 -until_idle
    """
    start()
    from ...runs.queue.scheduler import Scheduler, Slots

    scheduler = Scheduler(root, Slots.of(gpus, cpu_slots))
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        scheduler.run(lambda: bool(stopped) or (until_idle and scheduler.idle()))
    finally:
        scheduler.close()
        for number, handler in before.items():
            signal.signal(number, handler)
