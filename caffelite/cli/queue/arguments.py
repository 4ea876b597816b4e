"""What the commands of `caffelite queue` share."""

from __future__ import annotations

import click

from ...runs.queue.job import Job

root = click.option(
    "--root",
    metavar="DIR",
    default=".",
    show_default=True,
    type=click.Path(exists=True, file_okay=False),
    help="The folder of the queue: jobs are below it.",
)


def described(job: Job) -> str:
    """One line about a job."""
    reason = f": {job.reason}" if job.reason else ""
    return f"{job.id}  {job.state}{reason}  {job.folder}"
