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
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import CaffeliteError
from . import folder as files
from . import listing, lock, registry
from .listing import RunSummary
from .notes import Notes
from .registry import RunStatus

NAME = ".caffelite_runs.json"
FORMAT = 1  # of the file; another one is not read
WATCHED = (files.RUN, files.CONFIG, files.OUTCOME, files.METRICS, files.LOSSES, files.SOLVER, files.NOTES)
FRESH = 0.7  # seconds for which a list is not made again
SAVED = 10.0  # seconds between writes of the file


class Index:
    """Lists the runs below folders. file: where the index is kept; None: in memory only. Safe for several threads."""

    def __init__(self, roots: Sequence[Path], depth: int, file: Path | None):
        self._roots, self._depth, self._file = list(roots), depth, file
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
        for root in self._roots:
            for folder in _run_folders(root, self._depth):
                found.setdefault(os.path.realpath(folder), folder)
        return list(found.values())

    def _summary(self, folder: Path) -> RunSummary | None:
        key, stamps = str(folder), _stamps(folder)
        held = lock.is_held(folder)
        entry = self._entries.get(key)
        if entry and entry[0] == stamps and not held and entry[1].status.state != registry.RUNNING:
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
        content = files.read_json(self._file) if self._file else {}
        if content.get("format") != FORMAT:
            return
        entries = content.get("entries")
        for key, entry in entries.items() if isinstance(entries, dict) else ():
            with suppress(TypeError, ValueError, KeyError, AttributeError):
                self._entries[key] = entry[0], _summary_of(key, entry[1])

    def _save(self) -> None:
        self._saved, self._changed = time.monotonic(), False
        if self._file:
            content = {key: [stamps, _values(run)] for key, (stamps, run) in self._entries.items()}
            with suppress(OSError):
                files.write_atomically(self._file, json.dumps({"format": FORMAT, "entries": content}))


def _run_folders(folder: Path, depth: int) -> Iterator[Path]:
    """The run folders at most ``depth`` levels below a folder, by name, without links."""
    try:
        entries = {entry.name: entry for entry in os.scandir(folder)}
    except OSError:
        return
    if files.RUN in entries or files.CONFIG in entries:
        yield folder
    elif depth > 0:
        for name in sorted(entries):
            if entries[name].is_dir(follow_symlinks=False):
                yield from _run_folders(folder / name, depth - 1)


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
