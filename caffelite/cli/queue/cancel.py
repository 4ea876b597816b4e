"""caffelite queue cancel"""

from __future__ import annotations

import click

from . import arguments


@click.command(short_help="End a job")
@arguments.root
@click.argument("job")
@click.option("--kill", is_flag=True, help="Kill a running job and all its processes at once, without a snapshot.")
def cancel(root: str, job: str, kill: bool) -> None:
    """Ends a job: a queued one does not start, a running one receives SIGTERM. A training run then ends after its
    iteration with a snapshot, and -resume auto continues it.

    \b
    Example:
      caffelite queue cancel 1122-134512-3f9a
    """
    from ...runs.queue import edit

    click.echo(arguments.described(edit.cancel(root, job, edit.KILL if kill else edit.PAUSE)))
