"""Reports the losses of iterations to hooks: they wait on the device until the host reads them."""

from __future__ import annotations

from ..state import TrainingState
from .hook import Hook


class LossReports(Hook):
    """Sends the losses that no hook has received to ``hooks``."""

    def __init__(self, hooks: Hook):
        self._hooks = hooks

    def after_backward(self, state: TrainingState) -> None:
        if state.inspected:
            self.report(state, state.iteration + 1)

    def report(self, state: TrainingState, end: int | None = None) -> None:
        """Reports the pending losses of iterations before ``end``, or before the current one."""
        losses = state.losses
        if count := losses.pending:
            losses.reported = losses.recorded
            self._hooks.losses(state, (state.iteration if end is None else end) - count, losses.last(count))
