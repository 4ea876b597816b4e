"""caffelite queue move"""

from __future__ import annotations

import click

from . import arguments


@click.command(short_help="Change the order of jobs")
@arguments.root
@click.argument("job")
@click.option("--before", metavar="ID", help="Move it before this job.")
@click.option(
    "--position", type=click.IntRange(min=1), metavar="N", help="Move it to this place among the queued jobs, from 1."
)
def move(root: str, job: str, before: str | None, position: int | None) -> None:
    """Moves a queued job before another one, to a position, or to the end. It takes a priority that fits its new place.

    \b
    Example:
      caffelite queue move 1122-134512-3f9a -position 1
    """
    from ...runs.queue import edit

    if before and position:
        raise click.UsageError("-before and -position exclude each other")
    click.echo(arguments.described(edit.move(root, job, before=before, position=position)))
