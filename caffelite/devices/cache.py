"""Choices of devices, as selected plans, kept between runs."""

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterator

from .. import stored
from ..errors import CaffeliteError
from ..system import cache_folder

log = logging.getLogger("caffelite")


class ChoiceCache:
    """Strings by key, in a JSON file of the folder that several processes may write at the same time."""

    def __init__(self, name: str):
        self._path = cache_folder() / name
        self._entries = self._read()

    def _read(self) -> dict[str, str]:
        if not self._path.exists():
            return {}
        try:
            return stored.load(self._path, {str: str})
        except CaffeliteError:
            log.warning("%s is damaged; its contents are measured again", self._path)
            return {}

    def get(self, key: str) -> str | None:
        return self._entries.get(key)

    def put(self, key: str, value: str, suits: Callable[[str], bool] = lambda value: False) -> str:
        """Writes the file at once, with the entries that other processes wrote meanwhile; where that fails the entry is
        kept for this run only. suits: whether an entry of another process for this key takes precedence. Returns the
        entry."""
        try:
            with self._locked():
                return self._put(key, value, suits)
        except OSError as mistake:
            log.info("cannot keep %s: %s", self._path, mistake.strerror)
            self._entries = {**self._entries, key: value}
            return value

    def _put(self, key: str, value: str, suits: Callable[[str], bool]) -> str:
        there = self._read()
        chosen = there[key] if key in there and suits(there[key]) else value
        self._entries = {**there, **self._entries, key: chosen}
        draft = self._path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(self._entries, indent=0, sort_keys=True))
        draft.replace(self._path)
        return chosen

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """While one process reads and replaces the file, no other one does, where the file system can lock."""
        with self._path.with_suffix(".lock").open("a") as handle:
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
