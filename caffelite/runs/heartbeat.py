"""The heartbeat of a run: a thread that writes the iteration and the time to the run folder."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from . import folder as files

log = logging.getLogger("caffelite")

PERIOD = 2.0  # seconds


class Heartbeat:
    """Writes ``{"iteration", "time"}`` to heartbeat.json every ``period`` seconds until ``stop``.

    iteration: returns the number of iterations that are done. The training thread does nothing for it. A disk that
    fails costs the heartbeat, not the run, and brings one warning.
    """

    def __init__(self, folder: Path, iteration: Callable[[], int], period: float = PERIOD):
        self._path, self._iteration, self._period = folder / files.HEARTBEAT, iteration, period
        self._ended, self._warned = threading.Event(), False
        self._write()
        self._thread = threading.Thread(target=self._run, name="caffelite heartbeat", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self._period):
            self._write()

    def _write(self) -> None:
        text = json.dumps({"iteration": self._iteration(), "time": round(time.time(), 3)}) + "\n"
        try:
            files.write_atomically(self._path, text)
        except OSError as error:
            if not self._warned:
                self._warned = True
                reason = (error.strerror or str(error)).lower()
                log.warning("%s: %s; other programs may take the run for dead", self._path, reason)

    def stop(self) -> None:
        """Writes the last iteration and ends the thread."""
        self._ended.set()
        self._thread.join()
        self._write()
