"""How a session of a run ended."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .. import stored
from ..errors import CaffeliteError, printable
from . import folder as files

FINISHED, EARLY, TIME, SIGNAL, FAILED = "finished", "stopped early", "out of time", "stopped by a signal", "failed"
CANCELLED = "cancelled"  # before its first session
PAUSED = "paused"  # by a signal that a user requested with `pause`
KILLED = "killed"
ON_REQUEST = "killed on request"  # the reason of KILLED


@dataclass(frozen=True)
class Outcome:
    """kind: one of the names above. reason: the score that stopped improving, the signal, the error."""

    kind: str
    reason: str = ""


def failure(error: BaseException) -> Outcome:
    """The outcome of a session that an exception ended."""
    if isinstance(error, CaffeliteError):
        return Outcome(FAILED, str(error))
    if isinstance(error, MemoryError):
        return Outcome(FAILED, f"out of memory{f' ({error})' if str(error) else ''}")
    return Outcome(FAILED, printable(f"{type(error).__name__}: {error}"))


def announce_pause(folder: Path, process: int | None, started: str) -> None:
    """Records that the session with this process was requested to pause. A disk that fails is no error."""
    with suppress(OSError):
        files.write_json(folder / files.PAUSE, {"process": process, "started": started})


def is_pausing(folder: Path, process: int | None, started: str) -> bool:
    """Whether the session with this process was requested to pause."""
    return stored.read(folder / files.PAUSE, stored.ANY) == {"process": process, "started": started}


def is_queued(folder: Path) -> bool:
    """Whether a folder holds nothing but the configuration of a run that has not trained yet."""
    unused = {files.CONFIG, files.LOCK, files.OUTCOME, files.NOTES, *files.JOB_FILES}
    return folder.is_dir() and {path.name for path in folder.iterdir()} <= unused


def record_early_failure(folder: Path, error: BaseException) -> None:
    """Records the error of a queued run that failed before its first session."""
    with suppress(OSError):
        if (folder / files.CONFIG).exists() and is_queued(folder):
            record_before_start(folder, failure(error))


def record_before_start(folder: Path, ended: Outcome) -> None:
    """Records how a run ended that has no session. Errors: OSError."""
    content = {"kind": ended.kind, "reason": ended.reason, "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    files.write_json(folder / files.OUTCOME, content)


def record_kill(folder: Path) -> None:
    """Records that a run whose process has ended was killed on request. A disk that fails is no error."""
    with suppress(OSError):
        record_before_start(folder, Outcome(KILLED, ON_REQUEST))


def discard_early_failure(folder: Path) -> None:
    """Removes the outcome of an earlier attempt or session. Errors: OSError."""
    with suppress(FileNotFoundError):
        os.unlink(folder / files.OUTCOME)
