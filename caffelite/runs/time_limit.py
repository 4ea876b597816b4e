"""The time limit of a run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ..training import Requests, Trainer

log = logging.getLogger("caffelite")


class TimeLimit:
    """Called after each iteration: requests a stop when ``time.monotonic()`` has reached ``end``.

    progress: is called first. ``expired``: whether this limit requested the stop.
    """

    def __init__(self, end: float, requests: Requests, progress: Callable[[Trainer, float], None] | None):
        self._end, self._requests, self._progress = end, requests, progress
        self.expired = False

    def __call__(self, trainer: Trainer, rate: float) -> None:
        if self._progress:
            self._progress(trainer, rate)
        if not self._requests.stop and time.monotonic() >= self._end:
            log.info("The time that -max_time gives is up.")
            self._requests.stop = self.expired = True
