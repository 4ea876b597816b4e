"""The weights of the best test so far, by the output that best_score names, and early stop."""

import logging
import math
from collections.abc import Callable

import numpy as np

from ... import caffelite_pb2 as pb
from ...errors import Locator, did_you_mean
from ...net.graph import Graph
from ..scores import Scores
from ..state import TrainingState
from .hook import Hook

log = logging.getLogger("caffelite")


class BestWeights(Hook):
    """Judges tests by best_score of the first test net that has it. Errors: none has it.

    tests: the complete graphs of the test nets. write: writes the current weights as the best.
    """

    def __init__(
        self, p: pb.SolverParameter, locate: Locator, tests: list[Graph], write: Callable[[TrainingState], None]
    ):
        self._name, self._patience, self._write = p.best_score, p.early_stop, write
        if not self._name:
            return
        known = {value.name: value for graph in reversed(tests) for value in graph.outputs}
        if self._name not in known:
            what = f'no test net has an output "{self._name}"'
            expected = f"one of {', '.join(known)}" if known else "a test net"
            raise locate.error(what, "best_score", expected=expected, remedy=did_you_mean(self._name, known))
        self._lowest = p.best_lowest if p.HasField("best_lowest") else known[self._name].node.layer.loss

    def all_tested(self, state: TrainingState, scores: list[Scores]) -> None:
        """A test that is repeated counts once. A score that is not finite is never the best."""
        best = state.best
        if not self._name or state.iteration <= best.judged_iteration:
            return
        outputs = (output for each in scores for output in each.outputs)
        value = float(np.mean(next(values for name, _, values in outputs if name == self._name)))
        best.judged_iteration = state.iteration
        if self._is_better(value, best.value):
            best.value, best.iteration, best.tests_since = value, state.iteration, 0
            log.info("Best %s so far: %.6g", self._name, value)
            self._write(state)
            return
        best.tests_since += 1
        if self.over(state):
            text = "%s has not been better than %.6g, of iteration %d, in %d tests."
            log.info(text, self._name, best.value, best.iteration, best.tests_since)

    def _is_better(self, value: float, best: float) -> bool:
        if not math.isfinite(value) or math.isnan(best):
            return math.isfinite(value)
        return value < best if self._lowest else value > best

    def over(self, state: TrainingState) -> bool:
        """Whether early_stop ends the run: that many consecutive tests were no better."""
        return 0 < self._patience <= state.best.tests_since
