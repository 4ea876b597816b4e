"""`caffelite queue`: jobs on the free devices of this machine. Each command is a file here."""

from __future__ import annotations

import click

from .. import Commands

COMMANDS = ("add", "list", "run", "accept", "move", "priority", "cancel", "remove")


@click.group(
    cls=Commands, package=__name__, groups={"Commands": COMMANDS}, short_help="Queue jobs, and run them on free devices"
)
def queue() -> None:
    """Keeps a queue of caffelite commands, and runs them: one job on each GPU, and some on the CPU.

    Jobs are folders below the root of the queue; the folder of a training job is its run folder. A scheduler starts
    them (caffelite queue run). Running jobs survive its end, and the next one continues the queue.

    \b
    Examples:
      caffelite queue add -- train -solver solvers/lenet_solver.prototxt
      caffelite queue run
    """
