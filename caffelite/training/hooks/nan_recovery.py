"""NaN recovery: diagnoses a loss or weights that are NaN or infinite, and ends the run or continues it from an earlier
snapshot."""

import logging
import math

from ..diagnosis.diagnosis import LOSS, WEIGHTS, Diagnosis, refusal
from ..iteration import Iteration, Norms
from ..state import TrainingState
from .hook import Hook, LossReports

log = logging.getLogger("caffelite")


class NanRecovery(Hook):
    """Checks every loss, and the weights at each display; tests and snapshots call ``recover_bad_weights``.

    limit: how often a run restores its last good snapshot and continues at half the rate; after that it ends with an
    error. ``enabled``: whether it checks anything.
    """

    def __init__(self, iteration: Iteration, diagnosis: Diagnosis, losses: LossReports, hooks: Hook, limit: int):
        self._iteration, self._diagnosis, self._losses, self._hooks = iteration, diagnosis, losses, hooks
        self._dev, self._learns = iteration.net.dev, iteration.division.learns(iteration.net)
        self.limit, self.enabled = limit, True
        self._norms: list[Norms] = []  # of the last iterations that were displayed

    def after_backward(self, state: TrainingState) -> bool:
        if not self.enabled:
            return False
        finite = True
        if state.displays and self._learns:
            self._norms = [*self._norms[-4:], self._iteration.norms(state.losses.last(1)[0])]
            finite = self._diagnosis.finite(state, self._norms[-1].weights)
        bad = self._first_bad(state)
        if bad is None and finite:
            return False
        self._losses.report(state, state.iteration + 1)
        if bad is None:
            self._recover(state, state.iteration, WEIGHTS, state.iteration + 1)
        else:
            self._recover(state, bad, LOSS, state.iteration + 1)
        return True

    def recover_bad_weights(self, state: TrainingState) -> bool:
        """Between two iterations: diagnoses weights that are not finite, as a loss. True: an earlier state was
        restored. Costs the sum of their squares. All processes call it."""
        if not self.enabled or self._diagnosis.finite(state):
            return False
        self._losses.report(state)
        state.start.record()
        self._recover(state, state.iteration, WEIGHTS, state.iteration)
        return True

    def _first_bad(self, state: TrainingState) -> int | None:
        """The first iteration with a NaN or infinite loss. Where reading a loss means waiting for the device, all
        pending losses are read at once, when the iteration is inspected."""
        if self._dev.traits.synchronous:
            return None if math.isfinite(self._dev.download(self._iteration.net.loss)[0]) else state.iteration
        losses = state.losses.last(state.losses.pending) if state.inspected else []
        first = state.iteration + 1 - len(losses)
        return next((i for i, loss in enumerate(losses, first) if not math.isfinite(loss)), None)

    def _recover(self, state: TrainingState, bad: int, what: str, end: int) -> None:
        """Restores the last good snapshot. end: the losses of iterations before it are known. Errors: the cause of the
        NaN, where this is not to be."""
        comm = self._iteration.comm
        report = self._diagnosis.examine(state, bad, self._known_norms(state, end), what)
        for line in report.lines():
            log.error("%s", line)
        snapshot = self._diagnosis.checkpoints.last_good(bad)
        possible = comm.gather(comm.rank > 0 or snapshot is not None)
        if state.nan_recoveries >= self.limit or not all(possible):
            raise refusal(report, comm.size)
        factor, count = state.rate_factor / 2, state.nan_recoveries + 1
        self._diagnosis.checkpoints.restore(state, comm.gather(snapshot)[0])
        state.rate_factor, state.nan_recoveries = factor, count
        text = "NaN recovery (%d of %d): continuing from iteration %d with %g of the rate"
        log.warning(text, count, self.limit, state.iteration, factor)
        self._hooks.restored(state)

    def _known_norms(self, state: TrainingState, end: int) -> list[Norms]:
        """The losses of the last iterations, with the norms of those that were displayed."""
        losses = state.losses.last(10)
        norms_of = {i: Norms(i, loss) for i, loss in enumerate(losses, end - len(losses))}
        norms_of |= {norms.iteration: norms for norms in self._norms[-5:]}
        return [norms_of[i] for i in sorted(norms_of)]
