"""Signals of a training run: the first asks the solver, which finishes its iteration; a second one ends the process at
once."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from types import FrameType

from ..training import Requests


class Signals:
    """Turns SIGINT, SIGHUP and SIGTERM into requests. ``status`` is what to exit with: 128 + 15 after a SIGTERM.

    told: says on standard error that it stops. apart: seconds within which the same signal counts once, since both a
    terminal and the process that started this one may pass it on.
    """

    def __init__(
        self, sigint_effect: str = "stop", sighup_effect: str = "snapshot", *, told: bool = True, apart: float = 0
    ):
        self.requests, self.status, self._told, self._apart = Requests(), 0, told, apart
        self._last: dict[int, float] = {}
        self._effects = {signal.SIGINT: sigint_effect, signal.SIGHUP: sighup_effect, signal.SIGTERM: "stop"}

    def __enter__(self) -> Signals:
        self._before = {number: signal.signal(number, self._handle) for number in self._effects}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        effect = self._effects[signal.Signals(number)]
        last, self._last[number] = self._last.get(number, -self._apart), time.monotonic()
        if self._last[number] - last < self._apart:
            return
        if effect == "snapshot":
            self.requests.snapshot = True
        elif effect == "stop":
            if self.requests.stop:
                os._exit(128 + number)
            self.requests.stop = True
            if self._told:
                with contextlib.suppress(OSError):  # no log here: the signal may have come amid a line of it
                    os.write(2, b"Stopping after this iteration, with a snapshot; a second signal stops at once.\n")
            self.status = 128 + number if number == signal.SIGTERM else 0
