"""A job: a `caffelite` command in a folder of its own, and its state by the files and locks of that folder.

The folder of a job that trains is its run folder; the folder of another job is `jobs/ID` in the queue's root.
`job.json` is written by whoever changes the queue, `process.json` and `progress.json` by the process of the job.
`job.lock` is held from before the start of that process to its end, so a job is never started twice. The state of a
job that was submitted to SLURM is what SLURM says (slurm_jobs.py).

A folder of jobs may be written by others. So a record of each job that this user added is in the user's own folder
(`runs/state.py`), and a scheduler starts a job only where job.json says what that record says; what a job may do, and
its texts, are in the record alone. When the job starts its record gets another name, until the end is recorded.
"""

import dataclasses
import json
import math
import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import inputs, stored
from ...errors import reporting
from .. import folder as files, lock, registry, state
from ..config import shell_command
from ..limits import STORED, Bounds, Texts
from . import slurm_jobs
from .slurm_jobs import Submission

STATE_FOLDER = "jobs"


def write_accepted(id: str, identity: dict[str, Any], bounds: Bounds, texts: Texts | None) -> None:
    """Records that this user added a job. identity: what it does, and in which folder. Errors: the user's folder cannot
    be written."""
    folder = state.made(STATE_FOLDER)
    with reporting(f"write into {folder}", state.REMEDY):
        if texts is not None:
            files.write_json(folder / f"{id}.texts.json", dataclasses.asdict(texts))
        _begun_file(id).unlink(missing_ok=True)
        files.write_json(folder / f"{id}.json", {**identity, "bounds": bounds.to_json()})


def accepted_bounds(id: str, identity: dict[str, Any]) -> Bounds | None:
    """The bounds of a job that this user added, which has not started; None for any other job."""
    return _bounds(state.folder() / STATE_FOLDER / f"{id}.json", identity)


def _bounds(file: Path, identity: dict[str, Any]) -> Bounds | None:
    record = stored.read(file, stored.ANY)
    bounds = record.pop("bounds", None)
    if not stored.fits(bounds, STORED) or _canonical(record) != _canonical(identity):
        return None
    return Bounds.from_json(bounds)


def _begun_file(id: str) -> Path:
    return state.folder() / STATE_FOLDER / f"{id}.begun.json"


def _canonical(content: dict[str, Any]) -> str:
    return json.dumps(content, sort_keys=True)


def texts_file(id: str) -> Path | None:
    """The file with the texts of a job; None where it has none."""
    path = state.folder() / STATE_FOLDER / f"{id}.texts.json"
    return path if path.exists() else None


def begin_accepted(id: str) -> None:
    """Renames the record of a job that starts: it cannot start a second time. Errors: OSError."""
    os.rename(state.folder() / STATE_FOLDER / f"{id}.json", _begun_file(id))


def forget_accepted(id: str) -> None:
    """Removes what is left of a job that has ended."""
    for name in (f"{id}.json", f"{id}.begun.json", f"{id}.texts.json"):
        with suppress(OSError):
            (state.folder() / STATE_FOLDER / name).unlink()


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
    add, which never starts. slot: where it runs, as in "gpu 0" or "node n1". slurm: the number of a job that SLURM has,
    "?" where SLURM does not say it. submitted, started, ended: ISO 8601.
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
    slurm: str = ""

    @property
    def identity(self) -> dict[str, Any]:
        """What the job does, and where: what its record in the user's folder must say, too."""
        names = ("kind", "command", "working_directory", "gpus", "after")
        return {name: getattr(self, name) for name in names} | {"folder": os.path.realpath(self.folder)}

    def bounds(self) -> Bounds | None:
        """What the job may do; None where this user did not add it, or it has started."""
        return accepted_bounds(self.id, self.identity)

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
        return shell_command(self.command)

    @property
    def rank(self) -> tuple[int, float, str]:
        """Jobs start in ascending order of it."""
        return -self.priority, self.order, self.id

    def progress(self) -> Progress | None:
        """How much is done; None where that is not known."""
        if self.is_run:
            beat = stored.read(self.folder / files.HEARTBEAT, {"iteration": int}).get("iteration")
            return None if beat is None else Progress(beat, _max_iter(self.folder), "iterations")
        content = stored.read(self.folder / files.PROGRESS, {"done": int, "total": int, "text": str})
        return Progress(content["done"], content.get("total"), content.get("text", "")) if "done" in content else None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        values = dataclasses.asdict(self) | {"folder": str(self.folder), "shell_command": self.shell_command}
        progress = self.progress() if self.state != QUEUED else None
        return values | {"progress": dataclasses.asdict(progress) if progress else None}

    def write(self) -> None:
        """Writes job.json. Errors: CaffeliteError where that is impossible."""
        with reporting(f"write {self.folder / files.JOB}"):
            files.write_json(self.folder / files.JOB, {name: getattr(self, name) for name in _TYPES})


def _max_iter(folder: Path) -> int | None:
    """The length of a run, by the solver that the run wrote; None where it has not begun."""
    try:
        match = re.search(r"^max_iter: (\d+)$", inputs.read_text(folder / files.SOLVER), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return int(match[1]) if match else None


_PROCESS = {**{name: str for name in ("id", "started", "ended", "slot", "state", "reason")}, "status": int}
_HOLDER = {**{name: str for name in ("id", "started", "slot", "host")}, "process": int}
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TYPES = {
    **{name: str for name in ("id", "kind", "working_directory", "gpus", "submitted")},
    **{"command": [str], "priority": int, "order": float, "after": [str]},
}


def read(folder: Path) -> Job | None:
    """The job in a folder with its state; None where there is none, or job.json is damaged."""
    held = lock.is_held(folder, files.JOB_LOCK)  # read before process.json, so that an end in between counts
    content = stored.read(folder / files.JOB, _TYPES)
    if content.keys() != _TYPES.keys() or not content["command"] or not math.isfinite(content["order"]):
        return None
    if not _ID.fullmatch(content["id"]):
        return None
    fields = content | {"command": tuple(content["command"]), "after": tuple(content["after"])}
    queued = Job(folder=folder, **fields)
    submission = slurm_jobs.submitted(folder, queued.id)
    if submission and queued.bounds() is None:  # it was submitted to its end
        return dataclasses.replace(queued, **_state(folder, queued.id, False, submission))
    queued = dataclasses.replace(queued, **_state(folder, queued.id, held))
    if queued.state != QUEUED or queued.bounds() is not None:
        return queued
    if _bounds(_begun_file(queued.id), queued.identity) is not None:
        return dataclasses.replace(queued, **_begun(folder, queued.id))
    reason = f"this user did not add it; if you trust its command: caffelite queue accept {queued.id}"
    return dataclasses.replace(queued, accepted=False, reason=reason)


def _state(folder: Path, id: str, held: bool, submission: Submission | None = None) -> dict[str, Any]:
    """The fields of a job that its process decides, and SLURM, if it was submitted."""
    process = stored.read(folder / files.PROCESS, _PROCESS)
    process = process if process.get("id") == id else {}
    if held:
        holder = stored.read(folder / files.JOB_LOCK, _HOLDER)
        if holder.get("id") != id:  # held for an instant by whoever changes the queue
            return {}
        started = str(process.get("started", "") or holder.get("started", ""))
        fields: dict[str, Any] = {"state": RUNNING, "started": started, "slot": str(holder.get("slot", ""))}
        return fields | {"process": holder.get("process"), "host": str(holder.get("host", ""))}
    if submission:
        return slurm_jobs.fields(id, submission, process, _end(process) if process.get("ended") else {})
    if not process:
        return {}
    return _end(process)


def _begun(folder: Path, id: str) -> dict[str, Any]:
    """The fields of a job that had begun after its files were read."""
    held = lock.is_held(folder, files.JOB_LOCK)
    if fields := _state(folder, id, held):
        return fields
    return {"state": RUNNING} if held else {"state": KILLED, "reason": "it was killed while it started"}


def _end(process: dict[str, Any]) -> dict[str, Any]:
    """The fields of a job whose process has ended."""
    fields = {"started": str(process.get("started", "")), "slot": str(process.get("slot", ""))}
    if not process.get("ended"):
        return fields | {"state": KILLED, "reason": "it ended without recording an outcome"}
    state = str(process.get("state"))
    fields |= {"state": state if state in registry.STATES else FAILED, "reason": str(process.get("reason", ""))}
    status = process.get("status")
    return fields | {"ended": str(process["ended"]), "status": status if isinstance(status, int) else None}


def record_end(
    folder: Path, id: str, state: str, reason: str = "", status: int | None = None, *, may_return: bool = False
) -> None:
    """Records how a job ended. may_return: a cluster may start it again, with the same texts. Errors: OSError."""
    before = stored.read(folder / files.PROCESS, _PROCESS)
    content = before if before.get("id") == id else {"id": id}
    content |= {"ended": files.now(), "state": state, "reason": reason, "status": status}
    files.write_json(folder / files.PROCESS, content)
    if not may_return:
        forget_accepted(id)


def new_id() -> str:
    """An id for a job: the time, and digits that hardly any other job of that second has."""
    return time.strftime("%m%d-%H%M%S-") + secrets.token_hex(2)


DEPTH = 16  # levels of folders below the root


class JobScanner:
    """Finds jobs again and again, and lists only folders that have changed.

    Jobs that have ended are read again only after a change of their folder.
    """

    def __init__(self, root: Path, depth: int = DEPTH):
        self._folders = registry.Folders(root, (files.JOB, files.RUN, files.CONFIG), depth, hidden=True)
        self._ended: dict[str, tuple[int, Job]] = {}

    def jobs(self) -> list[Job]:
        """All jobs below the root, in the order in which they start. Folders that cannot be read are skipped."""
        jobs = [self._read(listing) for listing in self._folders if files.JOB in listing.files]
        return sorted((job for job in jobs if job), key=lambda each: each.rank)

    def _read(self, listing: registry.Listing) -> Job | None:
        changed, ended = self._ended.get(listing.path, (0, None))
        if ended and changed == listing.changed:
            return ended
        job = read(Path(listing.path))
        if job and job.state not in PENDING and listing.settled:
            self._ended[listing.path] = listing.changed, job
        return job


def jobs(root: str | Path) -> list[Job]:
    """All jobs below a folder, in the order in which they start. Jobs that have ended are among them."""
    return JobScanner(Path(root)).jobs()
