"""Finds the jobs below a folder."""

from __future__ import annotations

import os
import time
from pathlib import Path

from .. import folder as files
from . import job
from .job import Job

DEPTH = 16  # levels of folders below the root
SETTLED = 0.2  # seconds after which a folder's time of change is certain to change with the next change
_LEAVES = frozenset((files.JOB, files.RUN, files.CONFIG))


class Scanner:
    """Finds jobs again and again, and lists only folders that have changed.

    Jobs that have ended are read again only after a change of their folder.
    """

    def __init__(self, root: Path, depth: int = DEPTH):
        self._root, self._depth = root, depth
        self._folders: dict[str, tuple[int, bool, list[str]]] = {}  # path: (time of change, has a job, folders in it)
        self._ended: dict[str, tuple[int, Job]] = {}

    def jobs(self) -> list[Job]:
        """All jobs below the root, in the order in which they start. Folders that cannot be read are skipped."""
        found: list[Job] = []
        self._walk(str(self._root), self._depth, found)
        return sorted(found, key=lambda each: each.rank)

    def _walk(self, path: str, depth: int, found: list[Job]) -> None:
        try:
            changed = os.stat(path).st_mtime_ns
        except OSError:
            self._folders.pop(path, None)
            return
        known = self._folders.get(path)
        if known and known[0] == changed:
            _, has_job, children = known
        else:
            has_job, children = _list(path)
            if time.time_ns() - changed > SETTLED * 1e9:
                self._folders[path] = changed, has_job, children
        if has_job and (one := self._read(path, changed)):
            found.append(one)
        if depth:
            for child in children:
                self._walk(child, depth - 1, found)

    def _read(self, path: str, changed: int) -> Job | None:
        known = self._ended.get(path)
        if known and known[0] == changed:
            return known[1]
        one = job.read(Path(path))
        if one and one.state not in job.PENDING and time.time_ns() - changed > SETTLED * 1e9:
            self._ended[path] = changed, one
        return one


def _list(path: str) -> tuple[bool, list[str]]:
    """Whether a folder has a job, and the folders in it where it is not the folder of a run or a job."""
    names, folders = set(), []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name in _LEAVES and entry.is_file(follow_symlinks=False):
                    names.add(entry.name)
    except OSError:
        return False, []
    return files.JOB in names, [] if names else sorted(folders)


def jobs(root: str | Path) -> list[Job]:
    """All jobs below a folder, in the order in which they start. Jobs that have ended are among them."""
    return Scanner(Path(root)).jobs()
