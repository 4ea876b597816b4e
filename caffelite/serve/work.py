"""Work that pages hand to the queue, and the state of it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import CaffeliteError, printable
from ..runs.queue import edit
from ..runs.queue.job import FREE, Job
from . import paths
from .config import ServeConfig

TAIL = 1 << 16  # bytes of a job's output that a page shows


def submit(
    config: ServeConfig, folder: Path, command: Sequence[str], *, quick: bool = False, directory: Path | None = None
) -> Job:
    """Adds a command to the queue of the root that holds ``place``.

    quick: it needs no slot. directory: where it runs; default: that root. Errors: CaffeliteError where the job
    cannot be written.
    """
    root = config.root_of(folder)
    return edit.add(
        root, command, gpus=FREE if quick else "", working_directory=directory or root, bounds=config.bounds
    )


def new_name() -> str:
    """A name for what a page makes: the time, and digits that no other request has."""
    return time.strftime("%m%d-%H%M%S-") + secrets.token_hex(2)


def describe(config: ServeConfig, id: str) -> dict[str, Any]:
    """A job as plain values with the end of its output. Errors: no such job."""
    for root in config.roots:
        for job in _named(root, id):
            return {**summary(config, job), "output": tail(job.log)}
    raise CaffeliteError("no such job", found=id[:80])


def _named(root: Path, id: str) -> list[Job]:
    try:
        return [edit.find(root, id)] if id else []
    except CaffeliteError:
        return []


def summary(config: ServeConfig, job: Job) -> dict[str, Any]:
    """id, state, reason, progress, command and folder of a job."""
    record = job.to_json()
    names = ("id", "state", "reason", "progress", "shell_command")
    return {name: record[name] for name in names} | {"folder": paths.address(config, job.folder)}


def tail(path: Path) -> str:
    """The end of a text file; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            return printable(file.read().decode(errors="replace"), keep="\n\t")
    except OSError:
        return ""
