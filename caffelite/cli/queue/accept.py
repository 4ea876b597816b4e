"""caffelite queue accept"""

from __future__ import annotations

import click

from . import arguments


@click.command(short_help="Let a job start that this user did not add")
@arguments.root
@click.argument("job")
def accept(root: str, job: str) -> None:
    """Lets a job start that lies in the queue's folder, but that you did not add: one of another user or machine, of an
    earlier version, or in a folder that was moved. It prints the command of the job: read it first with queue list.

    \b
    Example:
      caffelite queue accept 1122-134512-3f9a
    """
    from ...runs.queue import edit

    found = edit.accept(root, job)
    click.echo(f"accepted {found.shell_command}; in {found.working_directory}", err=True)
