"""The owner of the files under a snapshot prefix: one run at a time writes there, and files of an earlier run are moved
first.

Every model and state holds the id of its run. The lock file `.<prefix>.lock` is locked while a run writes under the
prefix; afterwards it names the last run. Files of an earlier run with a name that is needed move to the folder of that
run's records.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import json
import logging
import os
import re
import secrets
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ... import caffelite_pb2 as pb, roots, stored, weights
from ...errors import CaffeliteError, Locator
from . import atomic_files, snapshot

log = logging.getLogger("caffelite")

RECORDS, RUN = "_run", "run.json"  # what records of a run are called behind its prefix, and the file that holds its ids
LATEST = 1 << 62  # nanoseconds since 1970, of a run's start; what is later is damaged
_LOCK = {"run": str, "began": int, "process": int, "host": str, "resumed": str}
_held: dict[str, tuple[int, Ownership]] = {}  # by the path of a lock file: what this process locked, and for whom


def new_id() -> str:
    return secrets.token_hex(8)


def lock_path(prefix: str) -> Path:
    return Path(prefix).with_name(f".{Path(prefix).name}.lock")


@dataclass(frozen=True)
class LockEntry:
    """The content of a lock file: the last run's id, the start of its session, its process, and the state that it
    continued from."""

    id: str
    began: int
    process: int
    host: str
    resumed: str

    @classmethod
    def read(cls, prefix: str) -> LockEntry | None:
        """The entry of a prefix; None where there is none, or none that can be read."""
        entry = stored.read(lock_path(prefix), _LOCK)
        if entry.keys() != _LOCK.keys() or not 0 <= entry["began"] < LATEST:
            return None
        return cls(*(entry[name] for name in _LOCK))


class Ownership:
    """The id of a run, and its lock on the names under a prefix.

    resumed: the state that the run continues from, and its content. A run that continues from its latest snapshot keeps
    its id; one that goes back, or continues from another folder, gets a new one.
    """

    def __init__(self, prefix: str, resumed: tuple[Path, snapshot.State] | None = None):
        self.prefix = prefix
        self.resumed = resumed[0] if resumed else None
        self.before = resumed[1].run.id if resumed and resumed[1].run else ""  # the run of the state
        mark, known = LockEntry.read(prefix), [origin for _, _, origin in _origins(prefix) if origin]
        latest = max([mark.began if mark else 0, *(origin.began for origin in known if origin.began < LATEST)])
        goes_on = resumed and self.before and _is_latest(prefix, *resumed, self.before)
        self.run = pb.RunOrigin(id=self.before if goes_on else new_id(), began=max(time.time_ns(), latest + 1))
        self._locked = ""  # the real path of the lock file
        self._folders: dict[str, Path] = {}  # of other runs, by id

    # one run at a time

    def claim(self, locate: Locator | None = None) -> None:
        """Locks the prefix until ``release``, once. Errors: another process has it; the lock file cannot be written."""
        path = lock_path(self.prefix)
        if self._locked:
            return
        key = os.path.realpath(path)
        try:
            handle = _held[key][0] if key in _held else self._lock(path, locate)
            _held[key], self._locked = (handle, self), key
            mark = {
                "run": self.run.id,
                "began": self.run.began,
                "process": os.getpid(),
                "host": socket.gethostname(),
                "resumed": os.fspath(self.resumed or ""),
            }
            text = json.dumps(mark).encode() + b"\n"
            os.pwrite(handle, text, 0)
            os.ftruncate(handle, len(text))
            recover(self.prefix)
        except OSError as error:
            self.release()
            what = f"snapshots cannot be written under {self.prefix}: {path}: {atomic_files.reason(error)}"
            where = locate("snapshot_prefix") if locate else None
            raise CaffeliteError(what, where=where, remedy="choose another snapshot_prefix") from None

    def _lock(self, path: Path, locate: Locator | None) -> int:
        handle = roots.open(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                os.close(handle)
                mark = LockEntry.read(self.prefix)
                who = f" (process {mark.process} on {mark.host}, since {_moment(mark.began)})" if mark else ""
                what = f"another run{who} writes snapshots under {self.prefix}"
                remedy = "let it end, or give this run a prefix of its own: -set snapshot_prefix=NAME"
                raise CaffeliteError(what, where=locate("snapshot_prefix") if locate else None, remedy=remedy) from None
            what = "%s cannot be locked (%s): let no second run write snapshots under %s meanwhile"
            log.warning(what, path, atomic_files.reason(error), self.prefix)
        return handle

    def release(self) -> None:
        """Unlocks the prefix, unless another trainer of this process has claimed it since."""
        key, self._locked = self._locked, ""
        if key in _held and _held[key][1] is self:
            os.close(_held.pop(key)[0])

    # files of earlier runs

    def make_way(self, paths: Iterable[Path]) -> None:
        """Moves files of other runs that have these names to the records of those runs. Errors: a file cannot be moved;
        no file is lost."""
        for path in paths:
            try:
                if not os.path.lexists(path):
                    continue
                origin = weights.run_of(path) if os.path.isfile(path) else None
                if origin and origin.id == self.run.id:
                    continue
                folder = self._aside(origin.id if origin else "", path.name)
                os.rename(path, folder / path.name)
                atomic_files.sync_folder(folder)
                atomic_files.sync_folder(path.parent)
                log.info("%s is of %s: moved to %s", path, described(origin), folder)
            except OSError as error:
                raise atomic_files.failed(path, error) from None

    def _aside(self, run: str, name: str) -> Path:
        """The folder for a file of another run: that of its records, else a new one."""
        folder = self._folders.get(run) or next(
            (f for f in _record_folders(self.prefix) if run in _ids(f, Path(self.prefix).name)), None
        )
        if not folder or os.path.lexists(folder / name):
            start = f"{self.prefix}{RECORDS}_"
            folder = Path(next(f"{start}{n}" for n in range(1, 10**6) if not os.path.lexists(f"{start}{n}")))
            os.mkdir(folder)
        self._folders[run] = folder
        return folder


def described(origin: pb.RunOrigin | None) -> str:
    return f"run {origin.id} (of {_moment(origin.began)})" if origin else "an earlier run"


def _moment(began: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(began / 1e9))
    except (OverflowError, ValueError, OSError):
        return "an unknown time"


def _record_folders(prefix: str) -> Iterator[Path]:
    """The folders of records of this prefix's runs, the latest first."""
    name = Path(prefix).name + RECORDS
    counts = {}
    for folder in Path(prefix).parent.glob(f"{glob.escape(name)}*"):
        if (match := re.fullmatch(r"(?:_(\d{1,6}))?", folder.name[len(name) :])) and folder.is_dir():
            counts[folder] = int(match[1] or 10**6)
    yield from sorted(counts, key=counts.__getitem__, reverse=True)


def _ids(folder: Path, name: str) -> set[str]:
    """The ids of the runs with records or moved files in a folder; "" for a session without an id."""
    try:
        sessions = stored.load(folder / RUN, {"sessions": [{}]})["sessions"]
        return {str(session.get("run", "")) for session in sessions}
    except CaffeliteError:
        return {snapshot.run_of(path) for path in folder.glob(f"{glob.escape(name)}_*") if path.is_file()} - {""}


def _origins(prefix: str) -> list[tuple[int, Path, pb.RunOrigin | None]]:
    """(iteration, state, its run) of the states with a prefix, the latest iteration first."""
    snapshots = []
    for iteration, path in snapshot.states(prefix):
        try:
            snapshots.append((iteration, path, weights.run_of(path)))
        except OSError:
            snapshots.append((iteration, path, None))
    return snapshots


def _is_latest(prefix: str, path: Path, state: snapshot.State, run: str) -> bool:
    """Whether a state is the latest sound one of its run under the prefix."""
    mine = [(at, other) for at, other, origin in _origins(prefix) if origin and origin.id == run]
    here = any(os.path.realpath(other) == os.path.realpath(path) for _, other in mine)
    return here and not any(at > state.iteration and snapshot.sound(other) for at, other in mine)


# recovery after a killed run


def recover(prefix: str) -> None:
    """Restores the models that a killed run was replacing, where their state is still the old one; removes other
    backups."""
    for backup in atomic_files.hidden(prefix, "old"):
        path = backup.with_name(backup.name[1 : -len(".old")])
        if "_average.caffemodel" not in path.name:
            state = path.with_name(path.name.replace(".caffemodel", ".solverstate"))
            average = snapshot.average_name(path)
            if _belong(state, path) or not _belong(state, backup):
                backup.unlink(missing_ok=True)
                continue
            if atomic_files.backup_of(average).exists():
                os.replace(atomic_files.backup_of(average), average)
            os.replace(backup, path)
    for backup in atomic_files.hidden(prefix, "old"):
        backup.unlink(missing_ok=True)


def _belong(state: Path, model: Path) -> bool:
    """Whether a file is the model of a state."""
    try:
        return snapshot.read_state(state).digest == weights.digest(weights.read_bytes(model))
    except CaffeliteError:
        return False


# -resume auto


def newest(p: pb.SolverParameter, solver_path: str) -> str | None:
    """The newest valid state of the last run under the solver's prefix, or None. Logs a warning on each damaged one.

    The last run is the one with the most recently started session. If it left no valid snapshot, the result is the
    state that it continued from. Among files without a run id, as Caffe's, the highest iteration is the newest.
    """
    prefix = snapshot.prefix(p, solver_path)
    snapshots, mark = _origins(prefix), LockEntry.read(prefix)
    origins = [origin for _, _, origin in snapshots if origin]
    last = max(origins, key=lambda origin: origin.began).id if origins else ""
    if mark and mark.began > max((origin.began for origin in origins), default=0):
        last = mark.id
    mine = [entry for entry in snapshots if not last or entry[2] is None or entry[2].id == last]
    mine.sort(key=lambda entry: (entry[2].began if entry[2] else 2**63, entry[0]), reverse=True)
    for _, path, origin in mine:
        fault = snapshot.fault(path)
        if fault is None and (origin or not last):
            return str(path)
        if isinstance(fault, snapshot.Mismatch):
            log.warning("%s: passed over", fault)
        elif fault is not None:
            log.warning("%s is damaged, or its model is: passed over", path)
    if last and mark and mark.id == last and mark.resumed and snapshot.sound(Path(mark.resumed)):
        return mark.resumed
    if others := [entry for entry in snapshots if entry not in mine or (entry[2] is None and last)]:
        if good := next((path for _, path, _ in others if snapshot.sound(path)), None):
            what = (
                "the last run under %s, %s, left no good snapshot; %s is of an earlier run: -snapshot %s continues "
                "from it"
            )
            log.warning(what, prefix, last, good, good)
    return None
