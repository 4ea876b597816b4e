"""caffelite queue remove"""

from __future__ import annotations

import click

from . import arguments


@click.command(short_help="Remove a job that has ended from the list")
@arguments.root
@click.argument("job")
def remove(root: str, job: str) -> None:
    """Removes a job that has ended from the list. A training run keeps its records; the folder of another job, with its
    log, is deleted.

    \b
    Example:
      caffelite queue remove 1122-134512-3f9a
    """
    from ...runs.queue import edit

    edit.remove(root, job)
