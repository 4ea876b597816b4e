"""A job: a `caffelite` command in a folder of its own, and its state by the files and locks of that folder.

The folder of a job that trains is its run folder; the folder of another job is `jobs/ID` in the queue's root.
`job.json` is written by whoever changes the queue, `process.json` and `progress.json` by the process of the job.
`job.lock` is held from before the start of that process to its end, so a job is never started twice.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import inputs, stored
from ...errors import CaffeliteError
from .. import folder as files
from .. import lock, registry
from ..bounds.bounds import Bounds
from . import accepted

ANY, ALL = "any", "all"  # values of Job.gpus besides numbers
FREE = "none"  # a slot that is always free
QUEUED, RUNNING, FINISHED, STOPPED = registry.QUEUED, registry.RUNNING, registry.FINISHED, registry.STOPPED
FAILED, KILLED = registry.FAILED, registry.KILLED
PENDING = (QUEUED, RUNNING)


@dataclass(frozen=True)
class Progress:
    """total: None where it is not known. text: what is counted."""

    done: int
    total: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Job:
    """A job and its state when it was read.

    kind: the name of the command. command: the arguments of `caffelite`. gpus: "" for a slot on the CPU, "any" for one
    free GPU, which the command receives as -gpu, "all" or numbers as in "0,1" for these; "none" for a command that
    needs no slot. priority: higher ones start first. order: the place among those of one priority. after: the ids of
    jobs that must finish before. state: one of registry.STATES. accepted: False of a queued job that this user did not
    add, which never starts. slot: where it runs, as in "gpu 0". submitted, started,
    ended: ISO 8601.
    """

    id: str
    folder: Path
    kind: str
    command: tuple[str, ...]
    working_directory: str
    gpus: str = ""
    priority: int = 0
    order: float = 0.0
    after: tuple[str, ...] = ()
    submitted: str = ""
    state: str = QUEUED
    reason: str = ""
    process: int | None = None
    host: str = ""
    slot: str = ""
    started: str = ""
    ended: str = ""
    status: int | None = None
    accepted: bool = True

    @property
    def identity(self) -> dict[str, Any]:
        """What the job does, and where: what its record in the user's folder must say, too."""
        names = ("kind", "command", "working_directory", "gpus", "after")
        return {name: getattr(self, name) for name in names} | {"folder": os.path.realpath(self.folder)}

    def bounds(self) -> Bounds | None:
        """What the job may do; None where this user did not add it, or it has started."""
        return accepted.read(self.id, self.identity)

    @property
    def is_run(self) -> bool:
        """Whether the folder is a run folder."""
        return self.kind == "train"

    @property
    def log(self) -> Path:
        """The file with what the process printed."""
        return self.folder / (files.OUTPUT if self.is_run else files.LOG)

    @property
    def shell_command(self) -> str:
        """The command as one writes it in a shell, in the working directory."""
        words = ["caffelite"]
        for word in self.command:
            name, equals, value = word.partition("=")
            if not (word.startswith("--") and len(word) > 2):
                words.append(word)
            else:
                words += [name[1:], value] if equals and not value.startswith("-") else [word[1:]]
        return shlex.join(words)

    @property
    def rank(self) -> tuple[int, float, str]:
        """Jobs start in ascending order of it."""
        return -self.priority, self.order, self.id

    def progress(self) -> Progress | None:
        """How much is done; None where that is not known."""
        if self.is_run:
            beat = stored.read(self.folder / files.HEARTBEAT, {"iteration": int}).get("iteration")
            return None if beat is None else Progress(beat, _max_iter(self.folder), "iterations")
        found = stored.read(self.folder / files.PROGRESS, {"done": int, "total": int, "text": str})
        return Progress(found["done"], found.get("total"), found.get("text", "")) if "done" in found else None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        found = dataclasses.asdict(self) | {"folder": str(self.folder), "shell_command": self.shell_command}
        progress = self.progress() if self.state != QUEUED else None
        return found | {"progress": dataclasses.asdict(progress) if progress else None}

    def write(self) -> None:
        """Writes job.json. Errors: CaffeliteError where that is impossible."""
        names = ("id", "kind", "command", "working_directory", "gpus", "priority", "order", "after", "submitted")
        content = {name: getattr(self, name) for name in names}
        try:
            files.write_json(self.folder / files.JOB, content)
        except OSError as error:
            raise CaffeliteError(f"cannot write {self.folder / files.JOB}: {error.strerror}") from None


def _max_iter(folder: Path) -> int | None:
    """The length of a run, by the solver that the run wrote; None where it has not begun."""
    try:
        found = re.search(r"^max_iter: (\d+)$", inputs.read_text(folder / files.SOLVER), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return int(found[1]) if found else None


_PROCESS = {**{name: str for name in ("id", "started", "ended", "slot", "state", "reason")}, "status": int}
_HOLDER = {**{name: str for name in ("id", "started", "slot", "host")}, "process": int}
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TYPES = {
    "id": str,
    "kind": str,
    "command": [str],
    "working_directory": str,
    "gpus": str,
    "priority": int,
    "order": float,
    "after": [str],
    "submitted": str,
}


def read(folder: Path) -> Job | None:
    """The job in a folder with its state; None where there is none, or job.json is damaged."""
    held = lock.is_held(folder, files.JOB_LOCK)  # read before process.json, so that an end in between counts
    content = stored.read(folder / files.JOB, _TYPES)
    if content.keys() != _TYPES.keys() or not content["command"] or not math.isfinite(content["order"]):
        return None
    if not _ID.fullmatch(content["id"]):
        return None
    given = content | {"command": tuple(content["command"]), "after": tuple(content["after"])}
    found = dataclasses.replace(Job(folder=folder, **given), **_state(folder, content["id"], held))
    if found.state != QUEUED or found.bounds() is not None:
        return found
    reason = f"this user did not add it; if you trust its command: caffelite queue accept {found.id}"
    return dataclasses.replace(found, accepted=False, reason=reason)


def _state(folder: Path, id: str, held: bool) -> dict[str, Any]:
    """The fields of a job that its process decides."""
    process = stored.read(folder / files.PROCESS, _PROCESS)
    process = process if process.get("id") == id else {}
    if held:
        holder = stored.read(folder / files.JOB_LOCK, _HOLDER)
        if holder.get("id") != id:  # held for an instant by whoever changes the queue
            return {}
        started = str(process.get("started", "") or holder.get("started", ""))
        found: dict[str, Any] = {"state": RUNNING, "started": started, "slot": str(holder.get("slot", ""))}
        return found | {"process": holder.get("process"), "host": str(holder.get("host", ""))}
    if not process:
        return {}
    found = {"started": str(process.get("started", "")), "slot": str(process.get("slot", ""))}
    if not process.get("ended"):
        return found | {"state": KILLED, "reason": "it ended without recording an outcome"}
    state = str(process.get("state"))
    found |= {"state": state if state in registry.STATES else FAILED, "reason": str(process.get("reason", ""))}
    status = process.get("status")
    return found | {"ended": str(process["ended"]), "status": status if isinstance(status, int) else None}


def record_end(folder: Path, id: str, state: str, reason: str = "", status: int | None = None) -> None:
    """Records how a job ended. Errors: OSError."""
    before = stored.read(folder / files.PROCESS, _PROCESS)
    content = before if before.get("id") == id else {"id": id}
    files.write_json(
        folder / files.PROCESS, content | {"ended": now(), "state": state, "reason": reason, "status": status}
    )
    accepted.forget(id)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
