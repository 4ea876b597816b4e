"""caffelite queue list"""

from __future__ import annotations

import json as json_module

import click

from .. import options
from . import arguments


@click.command(short_help="List jobs")
@arguments.root
@click.option("--all", "everything", is_flag=True, help="Jobs that have ended too.")
@options.as_json
def list(root: str, everything: bool, as_json: bool) -> None:
    """Lists the jobs of the queue in the order in which they start: running ones first, then queued ones.

    \b
    Example:
      caffelite queue list -all
    """
    from ...runs.queue import edit, job

    found = [each for each in job.jobs(root) if everything or each.state in job.PENDING]
    found.sort(key=lambda each: (each.state in job.PENDING, each.state == job.QUEUED))
    holder = edit.scheduler(root)
    if as_json:
        click.echo(
            json_module.dumps({"scheduler": holder or None, "jobs": [each.to_json() for each in found]}, indent=2)
        )
        return
    rows = [["id", "state", "slot", "priority", "done", "command"]]
    rows += [[e.id, e.state, e.slot, str(e.priority), _done(e), e.shell_command] for e in found]
    from ..runs import aligned

    options.say(aligned(rows, left=(0, 1, 2, 5)))
    for each in found:
        if each.reason:
            options.say(f"{each.id}: {each.reason}")
    if not holder and any(each.state == job.QUEUED for each in found):
        click.echo("No scheduler works here; start one: caffelite queue run", err=True)


def _done(each) -> str:
    progress = each.progress() if each.state != "queued" else None
    if not progress:
        return ""
    return f"{progress.done}/{progress.total}" if progress.total else str(progress.done)
