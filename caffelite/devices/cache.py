"""The cache folder of devices: compiled kernels and selected plans, kept between runs."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from pathlib import Path

from .. import stored
from ..errors import CaffeliteError

log = logging.getLogger("caffelite")


def folder() -> Path:
    """$CAFFELITE_CACHE, else caffelite in the user's cache folder, else a temporary one."""
    chosen = os.environ.get("CAFFELITE_CACHE")
    home = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "caffelite"
    try:
        home.mkdir(parents=True, exist_ok=True)
        if os.access(home, os.W_OK):
            return home
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="caffelite-"))


class ChoiceCache:
    """Strings by key, in a JSON file of the folder that several processes may write at the same time."""

    def __init__(self, name: str):
        self._path = folder() / name
        self._kept = self._read()

    def _read(self) -> dict[str, str]:
        if not self._path.exists():
            return {}
        try:
            return stored.load(self._path, {str: str})
        except CaffeliteError:
            log.warning("%s is damaged; its contents are measured again", self._path)
            return {}

    def get(self, key: str) -> str | None:
        return self._kept.get(key)

    def put(self, key: str, value: str) -> None:
        """Writes the file at once, with the entries that other processes wrote meanwhile; where that fails the entry is
        kept for this run only."""
        self._kept = {**self._read(), **self._kept, key: value}
        draft = self._path.with_suffix(f".{os.getpid()}")
        try:
            draft.write_text(json.dumps(self._kept, indent=0, sort_keys=True))
            draft.replace(self._path)
        except OSError as mistake:
            log.info("cannot keep %s: %s", self._path, mistake.strerror)
