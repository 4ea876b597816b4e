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
        """A test that is repeated counts once. A score that is not finite is never the best. Of equal scores the one
        with the lower loss is: its weights are written, yet it ends no wait of early_stop."""
        best = state.best
        if not self._name or state.iteration <= best.judged_iteration:
            return
        value, loss = self._scored(scores)
        best.judged_iteration = state.iteration
        is_better = self._is_better(value, best.value)
        if is_better or (value == best.value and loss < best.loss):
            best.value, best.loss, best.iteration = value, loss, state.iteration
            text = "Best %s so far: %.6g" if is_better else "Best %s so far: %.6g again, with the lowest loss, %.6g"
            log.info(text, self._name, value, *([] if is_better else [loss]))
            self._write(state)
        best.tests_since = 0 if is_better else best.tests_since + 1
        if self.over(state):
            text = "%s has not been better than %.6g in %d tests; the best weights are of iteration %d."
            log.info(text, self._name, best.value, best.tests_since, best.iteration)

    def _scored(self, scores: list[Scores]) -> tuple[float, float]:
        """The score, and the loss of the test net that has it."""
        named = ((values, each.loss) for each in scores for name, _, values in each.outputs if name == self._name)
        values, loss = next(named)
        return float(np.mean(values)), loss

    def _is_better(self, value: float, best: float) -> bool:
        if not math.isfinite(value) or math.isnan(best):
            return math.isfinite(value)
        return value < best if self._lowest else value > best

    def over(self, state: TrainingState) -> bool:
        """Whether early_stop ends the run: that many consecutive tests were no better."""
        return 0 < self._patience <= state.best.tests_since
