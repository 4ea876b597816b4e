"""An index of the summaries of runs, so that many runs are listed at once.

An entry is valid while the files that it was made from have the same size and time. The index is kept in a file that
may be deleted at any time: it holds nothing that the run folders do not.
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import stored
from ..errors import CaffeliteError
from . import folder as files
from . import listing, lock, registry
from .listing import RunSummary
from .notes import Notes
from .registry import RunStatus

_STATUS = {
    **{name: str for name in ("id", "state", "reason", "working_directory", "host", "started", "ended")},
    **{"iteration": int | None, "heartbeat": float | None, "process": int | None, "command": [str], "sessions": int},
}
_SUMMARY = {
    **{"status": _STATUS, "notes": {"tags": [str], "note": str}, "scores": {str: float}, "best": {str: float}},
    **{"name": str, "net": str, "device": str, "max_iterations": int, "curve": [float]},
    **{"loss": float, "seconds": float, "pace": float},
}
NAME = ".caffelite_runs.json"
FORMAT = 1  # of the file; another one is not read
WATCHED = (
    files.RUN,
    files.CONFIG,
    files.OUTCOME,
    files.METRICS,
    files.LOSSES,
    files.SOLVER,
    files.NOTES,
    files.JOB,
    files.PROCESS,
)
CHANGING = (registry.RUNNING, registry.QUEUED)  # states that also change without a change of these files
FRESH = 0.7  # seconds for which a list is not made again
SAVED = 10.0  # seconds between writes of the file


class Index:
    """Lists the runs below folders. file: where the index is kept; None: in memory only. Safe for several threads."""

    def __init__(self, roots: Sequence[Path], depth: int | None, file: Path | None):
        self._roots, self._file = list(roots), file
        self._run_folders = [registry.RunFolders(root, depth) for root in roots]
        self._entries: dict[str, tuple[list[Any], RunSummary]] = {}
        self._lock = threading.Lock()
        self._made, self._saved = -FRESH, -SAVED
        self._runs: list[RunSummary] = []
        self._changed = False
        self._load()

    def runs(self) -> list[RunSummary]:
        """The summaries of all runs, by folder."""
        with self._lock:
            if time.monotonic() - self._made > FRESH:
                self._runs = [run for folder in self._folders() if (run := self._summary(folder))]
                self._made = time.monotonic()
                known = {str(run.status.folder) for run in self._runs}
                for gone in self._entries.keys() - known:
                    del self._entries[gone]
                    self._changed = True
                if self._changed and time.monotonic() - self._saved > SAVED:
                    self._save()
            return list(self._runs)

    def read_ahead(self) -> None:
        """Reads the runs, so that the first list need not."""
        with self._lock:
            for folder in self._folders():
                self._summary(folder)

    def forget(self) -> None:
        """Makes the next list read the folders again."""
        self._made = -FRESH

    def save(self) -> None:
        """Writes the file if anything changed."""
        with self._lock:
            if self._changed:
                self._save()

    def _folders(self) -> list[Path]:
        found: dict[str, Path] = {}
        for root in self._run_folders:
            for folder in root:
                if not files.leads_out(folder, self._roots):
                    found.setdefault(os.path.realpath(folder), folder)
        return list(found.values())

    def _summary(self, folder: Path) -> RunSummary | None:
        key, stamps = str(folder), _stamps(folder)
        held = lock.is_held(folder)
        entry = self._entries.get(key)
        if entry and entry[0] == stamps and not held and entry[1].status.state not in CHANGING:
            return entry[1]
        try:
            status = registry.read(folder)
        except CaffeliteError:
            return None
        if entry and entry[0] == stamps:
            found = dataclasses.replace(entry[1], status=status)
        else:
            found = listing.summary(status)
            self._changed = True
        self._entries[key] = stamps, found
        return found

    def _load(self) -> None:
        content = stored.read(self._file, {"format": int, "entries": {str: [Any]}}) if self._file else {}
        if content.get("format") != FORMAT:
            return
        for key, entry in content.get("entries", {}).items():
            if len(entry) == 2 and isinstance(entry[0], list) and stored.fits(entry[1], _SUMMARY):
                with suppress(TypeError, ValueError, KeyError):
                    self._entries[key] = entry[0], _summary_of(key, entry[1])

    def _save(self) -> None:
        self._saved, self._changed = time.monotonic(), False
        if self._file:
            content = {key: [stamps, _values(run)] for key, (stamps, run) in self._entries.items()}
            with suppress(OSError):
                files.write_atomically(self._file, json.dumps({"format": FORMAT, "entries": content}))


def _stamps(folder: Path) -> list[Any]:
    found: list[Any] = []
    for name in WATCHED:
        try:
            status = os.stat(f"{folder}/{name}")
            found.append([status.st_mtime_ns, status.st_size])
        except OSError:
            found.append(None)
    return found


def _values(run: RunSummary) -> dict[str, Any]:
    found = {each.name: getattr(run, each.name) for each in dataclasses.fields(run)}
    found["status"] = dataclasses.asdict(run.status) | {"folder": str(run.status.folder)}
    found["notes"] = dataclasses.asdict(run.notes)
    return found


def _summary_of(key: str, values: dict[str, Any]) -> RunSummary:
    status, notes = values["status"], values["notes"]
    status |= {"folder": Path(key), "command": tuple(status["command"])}
    found = {**values, "status": RunStatus(**status), "notes": Notes(tuple(notes["tags"]), notes["note"])}
    return RunSummary(**found)
