"""The state of runs: how sessions end, where the folders of runs are, and the state of each from its files."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import roots, stored
from ..errors import CaffeliteError, printable
from . import folder as files, lock

QUEUED, RUNNING, FINISHED, STOPPED = "queued", "running", "finished", "stopped"
OUT_OF_TIME, FAILED, KILLED = "out of time", "failed", "killed"
STATES = (QUEUED, RUNNING, FINISHED, STOPPED, OUT_OF_TIME, FAILED, KILLED)
EARLY, SIGNAL = "stopped early", "stopped by a signal"
CANCELLED = "cancelled"  # before its first session
PAUSED = "paused"  # by a signal that a user requested with `pause`
STOPS = (EARLY, SIGNAL, CANCELLED, PAUSED)  # how a session ends with the state STOPPED
ON_REQUEST = "killed on request"  # the reason of KILLED
CRASHED = "crashed"
SETTLED = 200_000_000  # nanoseconds after which a folder's time of change is certain to change with the next change
STALE = 30.0  # seconds after which a heartbeat is no sign of life, where the file system has no locks
_OUTCOME = {"kind": str, "reason": str, "ended": str, "iteration": int}
_SESSION = {
    **{name: str for name in ("run", "folder", "host", "started")},
    **{"command": [str], "process": int, "locked": bool, "iteration": int},
    **{"outcome": {str: Any}, "versions": {str: str}},
}


@dataclass(frozen=True)
class Outcome:
    """kind: one of STOPS, or of STATES. reason: the score that stopped improving, the signal, the error."""

    kind: str
    reason: str = ""


def failed_outcome(error: BaseException) -> Outcome:
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
            record_before_start(folder, failed_outcome(error))


def record_before_start(folder: Path, ended: Outcome) -> None:
    """Records how a run ended that has no session. Errors: OSError."""
    files.write_json(folder / files.OUTCOME, {"kind": ended.kind, "reason": ended.reason, "ended": files.now()})


def record_kill(folder: Path) -> None:
    """Records that a run whose process has ended was killed on request. A disk that fails is no error."""
    with suppress(OSError):
        record_before_start(folder, Outcome(KILLED, ON_REQUEST))


def discard_early_failure(folder: Path) -> None:
    """Removes the outcome of an earlier attempt or session. Errors: OSError."""
    with suppress(FileNotFoundError):
        with roots.folder(folder) as opened:
            os.unlink(opened / files.OUTCOME)


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

    @property
    def label(self) -> str:
        """The word for the state that a user sees, see ``label``."""
        return label(self.state, self.reason)


def state(folder: str | Path) -> str:
    """The state of a run, one of STATES. Errors: not the folder of a run."""
    return read(folder).state


def label(state: str, reason: str = "") -> str:
    """The word for a state that a user sees: a run or a job is "killed" where a user requested that, else "crashed"; it
    is "paused" where a user paused it, "finished" where tests ended it, else "stopped"."""
    if state == STOPPED and reason == PAUSED:
        return reason
    if stopped_early(state, reason):
        return FINISHED
    return CRASHED if state == KILLED and reason != ON_REQUEST else state


def stopped_early(state: str, reason: str) -> bool:
    """Whether tests ended a run, by its state and reason: it goes on with another early_stop only."""
    return state == STOPPED and reason.startswith(EARLY)


def read(folder: str | Path) -> RunStatus:
    """The status of the run in a folder. Errors: not the folder of a run."""
    folder = Path(folder)
    if not (folder / files.RUN).exists() and (folder / files.CONFIG).exists():
        ended = stored.read(folder / files.OUTCOME, _OUTCOME)
        if not ended or lock.is_held(folder):
            return RunStatus(folder, "", QUEUED)
        name, reason = _state({}, ended, False, None)
        return RunStatus(folder, "", name, reason, ended=str(ended.get("ended", "")))
    held = lock.is_held(folder)  # read before run.json, so that an outcome that is written in between counts
    sessions = files.load(folder)["sessions"]
    session = stored.chosen(sessions[-1], _SESSION)
    heartbeat = stored.read(folder / files.HEARTBEAT, {"time": float, "iteration": int})
    ended = stored.chosen(session.get("outcome") or {}, _OUTCOME)
    ended = ended or ({} if held else stored.read(folder / files.OUTCOME, _OUTCOME))
    moment = heartbeat.get("time")
    name, reason = _state(session, ended, held, moment)
    if name != RUNNING and _is_queued_again(folder, str(session.get("started", ""))):
        name, reason = QUEUED, ""
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


def find(root: str | Path, depth: int | None = None) -> Iterator[RunStatus]:
    """The runs below a folder, by name; see ``run_folders``. Runs that cannot be read are skipped."""
    for listing in run_folders(root, depth):
        with suppress(CaffeliteError):
            yield read(listing.path)


class Folders:
    """The folders below a root that hold one of some files, by name, each time that it is iterated; only folders that
    have changed are listed again.

    files: names of files; nothing is searched in a folder that has one. depth: the most levels below the root; None:
    any. hidden: whether hidden folders are searched. Links, of files too, are not followed; folders that cannot be
    read are skipped.
    """

    def __init__(self, root: str | Path, files: Collection[str], depth: int | None, hidden: bool):
        self._root, self._files, self._depth, self._hidden = str(root), frozenset(files), depth, hidden
        self._known: dict[str, Listing] = {}

    def __iter__(self) -> Iterator[Listing]:
        waiting, before, self._known = [(self._root, 0)], self._known, {}
        while waiting:
            path, level = waiting.pop()
            if not (listing := self._listed(path, before.get(path))):
                continue
            if listing.files:
                yield listing
            elif self._depth is None or level < self._depth:
                waiting += [(child, level + 1) for child in listing.folders]

    def _listed(self, path: str, known: Listing | None) -> Listing | None:
        try:
            changed = os.stat(path).st_mtime_ns
            if not known or known.changed != changed:
                with roots.folder(path) as opened, os.scandir(opened) as entries:
                    own = [entry for entry in entries if not entry.is_symlink()]
                below = sorted((entry.name for entry in own if entry.is_dir()), reverse=True)
                folders = [os.path.join(path, name) for name in below if self._hidden or name[0] != "."]
                files = self._files & {entry.name for entry in own if entry.is_file()}
                known = Listing(path, changed, files, folders)
        except (OSError, roots.Outside):
            return None
        if known.settled:
            self._known[path] = known
        return known


@dataclass(frozen=True)
class Listing:
    """A folder as it was when it changed last. files: those that are searched; folders: below it, in reverse order."""

    path: str
    changed: int
    files: frozenset[str]
    folders: list[str]

    @property
    def settled(self) -> bool:
        """Whether the time of change is certain to change with the next change."""
        return time.time_ns() - self.changed > SETTLED


def run_folders(root: str | Path, depth: int | None = None) -> Folders:
    """The run folders below a folder. depth: as for ``Folders``."""
    return Folders(root, (files.RUN, files.CONFIG), depth, hidden=False)


def _state(session: dict, ended: dict, held: bool, heartbeat: float | None) -> tuple[str, str]:
    """(state, reason) of a session."""
    if ended:
        kind, reason = str(ended.get("kind")), str(ended.get("reason", ""))
        if kind in STOPS:
            return STOPPED, f"{kind}: {reason}" if reason else kind
        return kind if kind in (FINISHED, OUT_OF_TIME, KILLED) else FAILED, reason
    beats = not session.get("locked", True) and heartbeat is not None and time.time() - heartbeat < STALE
    if held or beats:
        return RUNNING, ""
    if "locked" not in session:
        version = (session.get("versions") or {}).get("caffelite", "?")
        return KILLED, f"version {version} recorded no outcome"
    last = _clock(heartbeat) if heartbeat else str(session.get("started", ""))
    return KILLED, f"it ended without recording an outcome; the last sign of life is of {last}"


def _clock(seconds: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%dT%H:%M:%S%z")
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def _is_queued_again(folder: Path, started: str) -> bool:
    """Whether a job of the queue continues a run after the session that started at a time, and has no session yet."""
    id = stored.read(folder / files.JOB, {"id": str}).get("id")
    if not id:
        return False
    process = stored.read(folder / files.PROCESS, {"id": str, "started": str, "ended": str | None})
    if process.get("id") != id:
        return True
    return not process.get("ended") and str(process.get("started")) > started and lock.is_held(folder, files.JOB_LOCK)
