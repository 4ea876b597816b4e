"""The output of a run: Caffe's log lines on standard error, and a progress bar below them on a terminal."""

import contextlib
import logging
import os
import sys
import time

from ..runs.log import GlogFormatter
from . import glog

LEVELS = (logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)  # by glog's numbers
SHOW_EVERY = 0.3  # seconds between looks at the loss, which may have to wait for the device


class BarHandler(logging.Handler):
    """Writes above a progress bar where one is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        from tqdm import tqdm

        try:
            # one write for a line: a signal between two would put its own line there
            tqdm.write(self.format(record) + "\n", file=sys.stderr, end="")
        except OSError:
            give_up_stderr()


def give_up_stderr() -> None:
    """Discards standard error after its reader is gone (a closed pipe or terminal); training continues."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno())
        os.close(nowhere)


def start(speaks: bool = True) -> None:
    """Sets up the log. speaks: whether this process logs; of several, one does."""
    handler = BarHandler()
    handler.setFormatter(GlogFormatter())
    log = logging.getLogger("caffelite")
    log.handlers[:] = [handler]
    log.setLevel(LEVELS[glog.minimum()] if speaks else logging.CRITICAL)
    log.propagate = False


class Progress:
    """A bar over a solver's iterations: epoch, loss, rate, iterations/s, images/s, time left. On a terminal only."""

    def __init__(self, solver):
        from tqdm import tqdm

        total = solver.p.max_iter
        self._bar = tqdm(
            total=total,
            initial=solver.iteration,
            unit="it",
            file=sys.stderr,
            disable=solver.comm.rank > 0 or not sys.stderr.isatty(),
            dynamic_ncols=True,
            mininterval=0.2,
        )
        self._started, self._from, self._next = time.perf_counter(), solver.iteration, 0.0
        self._images = solver.batch * solver.p.iter_size * solver.comm.size

    def __call__(self, solver, rate: float) -> None:
        if self._bar.disable:
            return
        try:
            self._bar.update(solver.iteration - self._bar.n)
        except OSError:
            give_up_stderr()
        now = time.perf_counter()
        if now >= self._next:
            self._next = now + SHOW_EVERY
            per_second = (solver.iteration - self._from) * self._images / max(now - self._started, 1e-9)
            epoch = f"epoch {solver.epoch.of(solver.iteration):.2f}, " if solver.epoch else ""
            text = f"{epoch}loss {solver.smoothed_loss():.4g}, lr {rate:.4g}, {per_second:.0f} images/s"
            self._bar.set_postfix_str(text, refresh=False)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._bar.close()
