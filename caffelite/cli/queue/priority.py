"""caffelite queue priority"""

from __future__ import annotations

import click

from . import arguments


@click.command(
    short_help="Change the priority of a job",
    context_settings={"ignore_unknown_options": True},
)
@arguments.root
@click.argument("job")
@click.argument("value", type=int, metavar="N")
def priority(root: str, job: str, value: int) -> None:
    """Changes the priority of a queued job; jobs of a higher priority start first, the default is 0.

    \b
    Example:
      caffelite queue priority 1122-134512-3f9a 10
    """
    from ...runs.queue import edit

    click.echo(arguments.described(edit.set_priority(root, job, value)))
