"""caffelite queue run"""

from __future__ import annotations

import signal
from types import FrameType

import click

from ..logs import start
from . import arguments


@click.command(short_help="Run the jobs of the queue")
@arguments.root
@click.option(
    "--gpu",
    "gpus",
    metavar="IDS",
    default="all",
    show_default=True,
    help='GPUs for jobs, one job on each: "all", numbers as in 0,1, or "none".',
)
@click.option(
    "--cpu_slots",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="Jobs on the CPU at a time. With more than one they divide the cores.",
)
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
    from ...runs.queue.scheduler import Scheduler

    scheduler = Scheduler(root, slots(gpus, cpu_slots))
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


def slots(gpus: str, cpu_slots: int):
    """The slots that the options name. Errors: no list of numbers."""
    from ...runs.device_choice import gpu_numbers
    from ...runs.queue.scheduler import Slots

    if gpus == "all":
        from ...devices import cuda

        return Slots(tuple(range(cuda.count())), cpu_slots)
    return Slots(tuple(gpu_numbers(gpus)) if gpus != "none" else (), cpu_slots)
