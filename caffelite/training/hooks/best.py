"""The best test so far, by the output that best_score names, and whether tests have long been no better."""

from __future__ import annotations

import logging
import math

import numpy as np

from ... import caffelite_pb2 as pb
from ...errors import CaffeliteError, Locator, did_you_mean
from ...net.net import Net
from .hook import Outputs

log = logging.getLogger("caffelite")


class Best:
    """Judges tests by best_score of the first test net that has it. Errors: none has it."""

    def __init__(self, p: pb.SolverParameter, locate: Locator, tests: list[tuple[Net, int]]):
        self.name, self._patience = p.best_score, p.early_stop
        self.value, self.iteration, self.since, self._judged = math.nan, 0, 0, -1
        if not self.name:
            return
        known = {value.name: value for net, _ in reversed(tests) for value in net.graph.outputs}
        if self.name not in known:
            what, expected = (
                f'no test net has an output "{self.name}"',
                f"one of {', '.join(known)}" if known else "a test net",
            )
            raise CaffeliteError(
                what, where=locate("best_score"), expected=expected, remedy=did_you_mean(self.name, known)
            )
        self._lowest = p.best_lowest if p.HasField("best_lowest") else known[self.name].node.layer.loss

    def see(self, iteration: int, tests: list[Outputs]) -> bool:
        """Takes in the outputs of a test, net by net; whether they are the best so far.

        A test that is repeated counts once. A score that is not finite is never the best.
        """
        if not self.name or not tests or iteration <= self._judged:
            return False
        values = next(values for outputs in tests for name, _, values in outputs if name == self.name)
        value, self._judged = float(np.mean(values)), iteration
        if math.isfinite(value) and (
            math.isnan(self.value) or (value < self.value if self._lowest else value > self.value)
        ):
            self.value, self.iteration, self.since = value, iteration, 0
            log.info("Best %s so far: %.6g", self.name, value)
            return True
        self.since += 1
        if self.over:
            log.info(
                "%s has not been better than %.6g, of iteration %d, in %d tests.",
                self.name,
                self.value,
                self.iteration,
                self.since,
            )
        return False

    @property
    def over(self) -> bool:
        """Whether it is time to stop."""
        return 0 < self._patience <= self.since

    def save(self, state: pb.ResumeState) -> None:
        if self._judged >= 0:
            state.best_value, state.best_iteration = self.value, self.iteration
            state.tests_since_best, state.judged_iteration = self.since, self._judged

    def load(self, state: pb.ResumeState) -> None:
        if state.HasField("judged_iteration"):
            self.value, self.iteration = state.best_value, state.best_iteration
            self.since, self._judged = state.tests_since_best, state.judged_iteration
        else:
            self.value, self.since, self._judged = math.nan, 0, -1
