"""Finds the folders of runs, and derives the state of each from its files."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import CaffeliteError
from . import folder as files
from . import lock, outcome

QUEUED, RUNNING, FINISHED, STOPPED = "queued", "running", "finished", "stopped"
OUT_OF_TIME, FAILED, KILLED = "out of time", "failed", "killed"
STATES = (QUEUED, RUNNING, FINISHED, STOPPED, OUT_OF_TIME, FAILED, KILLED)
CRASHED = "crashed"
STALE = 30.0  # seconds after which a heartbeat is no sign of life, where the file system has no locks
_STATE_OF_OUTCOME = {
    outcome.FINISHED: FINISHED,
    outcome.EARLY: STOPPED,
    outcome.SIGNAL: STOPPED,
    outcome.TIME: OUT_OF_TIME,
    outcome.FAILED: FAILED,
    outcome.CANCELLED: STOPPED,
    outcome.KILLED: KILLED,
}


@dataclass(frozen=True)
class RunStatus:
    """The state of a run in its last session, from its folder.

    state: one of STATES. reason: why it ended. iteration: the number completed, None where that is not known.
    heartbeat: the time of the last one, in seconds since 1970. started, ended: ISO 8601.
    """

    folder: Path
    id: str
    state: str
    reason: str = ""
    iteration: int | None = None
    heartbeat: float | None = None
    command: tuple[str, ...] = ()
    working_directory: str = ""
    host: str = ""
    process: int | None = None
    started: str = ""
    ended: str = ""
    sessions: int = 0


def state(folder: str | Path) -> str:
    """The state of a run, one of STATES. Errors: not the folder of a run."""
    return read(folder).state


def label(state: str, reason: str = "") -> str:
    """The word for a state on pages: a run or a job is "killed" where a user requested that, else "crashed"."""
    return CRASHED if state == KILLED and reason != outcome.ON_REQUEST else state


def read(folder: str | Path) -> RunStatus:
    """The status of the run in a folder. Errors: not the folder of a run."""
    folder = Path(folder)
    if not (folder / files.RUN).exists() and (folder / files.CONFIG).exists():
        ended = files.read_json(folder / files.OUTCOME)
        if not ended or lock.is_held(folder):
            return RunStatus(folder, "", QUEUED)
        name, reason = _state({}, ended, False, None)
        return RunStatus(folder, "", name, reason, ended=str(ended.get("ended", "")))
    held = lock.is_held(folder)  # read before run.json, so that an outcome that is written in between counts
    sessions = _sessions(folder)
    session = sessions[-1]
    heartbeat = files.read_json(folder / files.HEARTBEAT)
    ended = session.get("outcome") or ({} if held else files.read_json(folder / files.OUTCOME))
    moment = _number(heartbeat.get("time"))
    name, reason = _state(session, ended, held, moment)
    iteration = ended.get("iteration", heartbeat.get("iteration", session.get("iteration")))
    return RunStatus(
        folder,
        str(session.get("run", "")),
        name,
        reason,
        iteration if isinstance(iteration, int) else None,
        moment,
        tuple(map(str, session.get("command", ()))),
        str(session.get("folder", "")),
        str(session.get("host", "")),
        session.get("process"),
        str(session.get("started", "")),
        str(ended.get("ended", "")),
        len(sessions),
    )


def find(root: str | Path, depth: int = 3) -> Iterator[RunStatus]:
    """The runs with folders at most ``depth`` levels below a folder, by name. Folders that cannot be read are
    skipped."""
    root = Path(root)
    if (root / files.RUN).exists() or (root / files.CONFIG).exists():
        with suppress(CaffeliteError):
            yield read(root)
            return
    if depth > 0:
        children: list[Path] = []
        with suppress(OSError):
            children = sorted(path for path in root.iterdir() if path.is_dir() and not path.is_symlink())
        for child in children:
            yield from find(child, depth - 1)


def _sessions(folder: Path) -> list[dict]:
    """The sessions of a run; at least one. Errors: the folder has none."""
    content = files.load(folder)
    sessions = content.get("sessions") if isinstance(content, dict) else None
    if not isinstance(sessions, list) or not sessions or not isinstance(sessions[-1], dict):
        raise CaffeliteError(f"{folder / files.RUN} lists no session", expected="a file that caffelite train wrote")
    return sessions


def _state(session: dict, ended: dict, held: bool, heartbeat: float | None) -> tuple[str, str]:
    """(state, reason) of a session."""
    if ended:
        kind, reason = str(ended.get("kind")), str(ended.get("reason", ""))
        early = {outcome.EARLY, outcome.SIGNAL, outcome.CANCELLED}
        text = f"{kind}: {reason}" if kind in early and reason else kind if kind in early else reason
        return _STATE_OF_OUTCOME.get(kind, FAILED), text
    beats = not session.get("locked", True) and heartbeat is not None and time.time() - heartbeat < STALE
    if held or beats:
        return RUNNING, ""
    if "locked" not in session:
        version = (session.get("versions") or {}).get("caffelite", "?")
        return KILLED, f"version {version} recorded no outcome"
    last = _clock(heartbeat) if heartbeat else str(session.get("started", ""))
    return KILLED, f"it ended without recording an outcome; the last sign of life is of {last}"


def _clock(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%dT%H:%M:%S%z")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
