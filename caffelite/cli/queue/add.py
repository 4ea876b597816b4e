"""caffelite queue add"""

from __future__ import annotations

import click

from . import arguments


@click.command(
    short_help="Add a job",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@arguments.root
@click.option(
    "--priority", type=int, default=0, show_default=True, metavar="N", help="Jobs of a higher priority start first."
)
@click.option(
    "--after",
    multiple=True,
    metavar="ID",
    help="Start when this job has finished; where it fails, this one fails too. Repeatable.",
)
@click.option(
    "--gpu",
    "gpus",
    metavar="GPUS",
    help="any: one free GPU, which the command gets as -gpu; all, or numbers as in 0,1: these, when all are free. "
    "Default: the GPUs that the command names with -gpu, for train also by solver_mode; else a slot on the CPU.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def add(root: str, priority: int, after: tuple[str, ...], gpus: str | None, command: tuple[str, ...]) -> None:
    """Adds a caffelite command to the queue, and prints the id of the job.

    The command runs in the current folder. Its options are checked now. The folder of a training is its run folder,
    with a number where another run has it; other jobs get the folder jobs/ID in the root.

    \b
    Examples:
      caffelite queue add -- train -solver solvers/lenet_solver.prototxt
      caffelite queue add -priority 5 -gpu any -- train -solver solvers/lenet_solver.prototxt -max_time 1h
      caffelite queue add -- convert_imageset flowers/ flowers_lmdb -encoded
    """
    from .submission import submit

    job = submit(root, command, gpus=gpus, priority=priority, after=after)
    click.echo(f"{job.id}")
    click.echo(f"added {job.shell_command}; folder {job.folder}", err=True)
