"""Choices of devices, as selected plans, kept between runs."""

import json
import logging
import os

from .. import stored
from ..errors import CaffeliteError
from ..system import cache_folder

log = logging.getLogger("caffelite")


class ChoiceCache:
    """Strings by key, in a JSON file of the folder that several processes may write at the same time."""

    def __init__(self, name: str):
        self._path = cache_folder() / name
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
