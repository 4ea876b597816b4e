"""The jobs of a queue that SLURM runs: what SLURM says about them, and what is requested of it.

A job is SLURM's from the moment that slurm.json is in its folder until its end is recorded in process.json. Its name in
SLURM is caffelite-ID, so whoever reads the folder finds it, also after a scheduler was killed.
"""

import os
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import stored
from ...errors import CaffeliteError, printable
from .. import folder as files, registry

PREFIX = "caffelite-"
LIFE = 2.0  # seconds for which an answer of squeue holds
PATIENCE = 20.0  # seconds for an answer
WAITING = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
BY_PROCESS = ("COMPLETED", "FAILED", "CANCELLED")  # ends that the process of the job describes better
ENDS = {
    "COMPLETED": (registry.FINISHED, ""),
    "FAILED": (registry.FAILED, "it failed in SLURM"),
    "CANCELLED": (registry.STOPPED, "cancelled in SLURM"),
    "TIMEOUT": (registry.OUT_OF_TIME, "its time in SLURM is over"),
    "DEADLINE": (registry.OUT_OF_TIME, "its deadline in SLURM is over"),
    "NODE_FAIL": (registry.KILLED, "its node failed"),
    "OUT_OF_MEMORY": (registry.KILLED, "out of memory in SLURM"),
    "PREEMPTED": (registry.KILLED, "SLURM preempted it"),
    "BOOT_FAIL": (registry.KILLED, "its node did not boot"),
}
_RECORD = {"id": str, "submitted": float, "number": str}


@dataclass(frozen=True)
class Seen:
    """A job as squeue shows it. number: of the job. state: SLURM's word for it. reason: why it waits, or ended. nodes:
    on which it runs."""

    number: int
    state: str
    reason: str
    nodes: str


def command(*words: str) -> str:
    """Runs a command of SLURM and returns what it prints. Errors: it is not installed, fails, or does not return."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise CaffeliteError(f"SLURM is not installed here: no {words[0]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CaffeliteError(f"{words[0]} does not answer", found=printable(str(error))) from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise CaffeliteError(f"{' '.join(words[:2])} failed", found=printable(lines[-1]))
    return done.stdout


class _Table:
    """What squeue says about all jobs of this user, asked at most once in ``LIFE`` seconds."""

    def __init__(self) -> None:
        self._lock, self._time = threading.Lock(), 0.0
        self._jobs: dict[str, Seen] | CaffeliteError = {}

    def jobs(self, since: float) -> dict[str, Seen]:
        """By id; the answer is of a moment after ``since``. Errors: SLURM does not answer."""
        with self._lock:
            now = time.time()
            if not self._time or now - self._time > LIFE or self._time <= since:
                try:
                    self._jobs = _asked()
                except CaffeliteError as error:
                    self._jobs = error
                self._time = now
            if isinstance(self._jobs, CaffeliteError):
                raise self._jobs
            return self._jobs


def _asked() -> dict[str, Seen]:
    text = command("squeue", "-h", "-t", "all", "-u", str(os.getuid()), "-o", "%i|%j|%T|%r|%N")
    jobs: dict[str, Seen] = {}
    for line in text.splitlines():
        number, name, state, reason, nodes = (*line.split("|"), "", "", "", "")[:5]
        id = name.removeprefix(PREFIX)
        if name != id and number.isdigit() and (id not in jobs or jobs[id].number < int(number)):
            jobs[id] = Seen(int(number), state, "" if reason == "None" else reason, nodes)
    return jobs


_table = _Table()


def record(folder: Path, id: str, number: str = "") -> None:
    """Records that a job is about to be submitted, or was submitted with a number. Errors: OSError."""
    files.write_json(folder / files.SLURM, {"id": id, "submitted": time.time(), "number": number})


def forget(folder: Path) -> None:
    """The job is not SLURM's any more. Errors: OSError."""
    (folder / files.SLURM).unlink(missing_ok=True)


@dataclass(frozen=True)
class Submission:
    """time: in seconds since 1970. number: in SLURM, "?" where it is not known."""

    time: float
    number: str


def submitted(folder: Path, id: str) -> Submission | None:
    """The submission of a job; None where it is not SLURM's."""
    content = stored.read(folder / files.SLURM, _RECORD)
    if content.get("id") != id:
        return None
    return Submission(content.get("submitted", 0.0), content.get("number") or "?")


def seen(id: str, since: float) -> Seen | None:
    """A job that was submitted at a time; None where SLURM does not know it. Errors: SLURM does not answer."""
    return _table.jobs(since).get(id)


def fields(id: str, submission: Submission, process: dict[str, Any], ended: dict[str, Any]) -> dict[str, Any]:
    """The fields of a job that was submitted, by SLURM. process: what its process recorded; ended: the fields
    of the end that this names, if any."""
    own: dict[str, Any] = {"slurm": submission.number}
    ended = ended and ended | own
    if ended.get("state") == registry.FINISHED:
        return ended
    try:
        known = seen(id, submission.time)
    except CaffeliteError as error:
        state = registry.RUNNING if process.get("started") else registry.QUEUED
        return own | {"state": state, "reason": str(error)}
    if known is None:
        return ended or own | {"state": registry.KILLED, "reason": "SLURM does not know it any more"}
    own = {"slurm": str(known.number), "started": str(process.get("started", ""))}
    if known.state in WAITING:
        again = "requeued, " if process else ""
        return own | {"state": registry.QUEUED, "reason": f"{again}waits in SLURM: {known.reason or known.state}"}
    if known.state not in ENDS:
        reason = "" if known.state == "RUNNING" else f"in SLURM: {known.state.lower()}"
        return own | {"state": registry.RUNNING, "slot": f"node {known.nodes}", "host": known.nodes, "reason": reason}
    if ended and known.state in BY_PROCESS:
        return ended
    state, reason = ENDS[known.state]
    detail = known.reason if known.reason not in ("", "NonZeroExitCode") else ""
    return own | {"state": state, "reason": f"{reason}: {detail}" if detail and reason else reason}


def cancel(number: str, kill: bool = False) -> None:
    """Cancels a job, whose processes receive SIGTERM first; kill: they are killed at once. Errors: SLURM refuses."""
    command("scancel", *(("--signal=KILL", "--full") if kill else ()), number)


def set_priority(number: str, priority: int) -> None:
    """Errors: SLURM refuses, as for a priority above 0 of a user who is not an operator."""
    command("scontrol", "update", f"JobId={number}", f"Nice={-priority}")
