"""What ends a run before its last iteration: a time limit, or signals. The first signal requests a stop, after
which training finishes its iteration; a second one ends the process at once."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable
from types import FrameType

from ..training import Requests, Trainer

ENDING = (signal.SIGTERM, signal.SIGUSR1)
STOPPING = b"Stopping after this iteration, with a snapshot; a second signal stops at once.\n"


def write_to_stderr(line: bytes) -> None:
    """Writes a line from a signal handler. No log here: the signal may have come in the middle of a line of it."""
    with contextlib.suppress(OSError):
        os.write(2, line)


class Signals:
    """Turns SIGINT, SIGHUP, SIGTERM and SIGUSR1 into requests.

    ``status`` is the exit status: 128 + 15 after a SIGTERM, 128 + 10 after a SIGUSR1, which schedulers of clusters send
    before the time of a job is over. ``stopped_by`` is the name of the signal that requested the
    stop. report: writes the line that says so. min_interval: seconds within which the same signal counts once, since
    both a terminal and the process that started this one may pass it on.
    """

    def __init__(
        self,
        sigint_effect: str = "stop",
        sighup_effect: str = "snapshot",
        *,
        report: Callable[[bytes], None] | None = write_to_stderr,
        min_interval: float = 0,
    ):
        self.requests, self.status, self.stopped_by = Requests(), 0, ""
        self._report, self._min_interval = report, min_interval
        self._last: dict[int, float] = {}
        self._effects = {signal.SIGINT: sigint_effect, signal.SIGHUP: sighup_effect}
        self._effects |= dict.fromkeys(ENDING, "stop")

    def __enter__(self) -> Signals:
        self._before = {number: signal.signal(number, self._handle) for number in self._effects}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        effect = self._effects[signal.Signals(number)]
        last, self._last[number] = self._last.get(number, -self._min_interval), time.monotonic()
        if self._last[number] - last < self._min_interval:
            return
        if effect == "snapshot":
            self.requests.snapshot = True
        elif effect == "stop":
            if self.requests.stop:
                os._exit(128 + number)
            self.requests.stop, self.stopped_by = True, signal.Signals(number).name
            if self._report:
                self._report(STOPPING)
            self.status = 128 + number if number in ENDING else 0


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
