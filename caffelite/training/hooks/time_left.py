"""Logs how long a run will still take, for those who see no progress bar."""

import logging
import time
from collections.abc import Callable

from ...progress import duration
from ..state import TrainingState
from .hook import Hook

log = logging.getLogger("caffelite")

FIRST = 10.0  # seconds after the first iteration, which compiles


class TimeLeft(Hook):
    """Logs the time left after FIRST seconds, and again whenever the run has taken twice as long, at the speed so far.
    Tests and snapshots count. Where no end is known, as for a solver that is stepped, it logs nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._start: tuple[int, float] | None = None
        self._next = 0.0

    def started(self, state: TrainingState) -> None:
        self._start = None

    restored = started

    def after_iteration(self, state: TrainingState) -> None:
        now = self._clock()
        if self._start is None:
            self._start, self._next = (state.iteration, now), now + FIRST
        elif now >= self._next:
            iteration, begin = self._start
            self._next = 2 * now - begin
            speed = (state.iteration - iteration) / (now - begin)
            if state.end:
                left = max(0, state.end - state.iteration) / speed
                log.info("Iteration %d of %d: %s left", state.iteration, state.end, duration(left))
