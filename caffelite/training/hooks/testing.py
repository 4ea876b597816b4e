"""Tests: every ``test_interval`` iterations each test net runs ``test_iter`` batches."""

import logging
from collections.abc import Callable

from ... import caffelite_pb2 as pb
from ...net.net import Net
from ...parallel import TESTING
from .. import scores
from ..optim.average import Average
from ..requests import Agreement
from ..state import TrainingState
from ..statistics import average_statistics
from ..trigger import due
from ..whole_net import WholeNet
from .hook import Hook

log = logging.getLogger("caffelite")


class Testing(Hook):
    """Logs the mean of each score and reports the scores to ``hooks``. tests: each test net with its number of
    batches. division: of the nets that the processes hold. recover_bad_weights: of ``NanRecovery``. The run stops after
    a test where a stop is requested, or where it is ``over``."""

    def __init__(
        self,
        p: pb.SolverParameter,
        net: Net,
        tests: list[tuple[Net, int]],
        average: Average,
        division: WholeNet,
        agreement: Agreement,
        over: Callable[[TrainingState], bool],
        recover_bad_weights: Callable[[TrainingState], bool],
        hooks: Hook,
    ):
        self._interval, self._at_start, self._logs_loss = p.test_interval, p.test_initialization, p.test_compute_loss
        self._ap_version = p.ap_version if p.HasField("ap_version") else None
        self._shows_classes = p.show_per_class_result
        self._net, self._tests, self._average, self._division = net, tests, average, division
        self._agreement, self._over, self._hooks = agreement, over, hooks
        self._recover_bad_weights = recover_bad_weights

    def before_iteration(self, state: TrainingState) -> bool:
        if due(self._interval, state.iteration) and (state.iteration or self._at_start):
            self.test(state)
            return self._agreement.stop or self._over(state)
        return False

    def finished(self, state: TrainingState) -> None:
        if due(self._interval, state.iteration):
            self.test(state)

    def test(self, state: TrainingState) -> None:
        """Tests with the averaged weights, where there are any. A request to stop ends it early. Weights that are not
        finite are not tested: the run ends with the cause, or continues from an earlier snapshot."""
        average_statistics(self._net, self._division.mesh.data)
        if self._recover_bad_weights(state):
            return
        with self._average.as_weights():
            if all_scores := self._scores(state):
                self._hooks.all_tested(state, all_scores)

    def _scores(self, state: TrainingState) -> list[scores.Scores]:
        """The scores of each test net; none where the test ended early. Then the data goes back to where it was, so
        that a resumed run tests the same."""
        done = []
        positions = [entry.source.position for entry in state.sources]
        for which, (net, count) in enumerate(self._tests):
            log.info("Iteration %d, Testing net (#%d)", state.iteration, which)
            if mark := self._division.mesh.data.mark:
                mark(TESTING, iteration=state.iteration)
            version = self._ap_version
            mean = scores.mean_scores(net, count, self._agreement.stop_now, division=self._division, ap_version=version)
            if mean is None:
                log.info("Test interrupted.")
                for entry, position in zip(state.sources, positions, strict=True):
                    if entry.source.position != position:
                        entry.source.seek(position)
                return []
            if self._logs_loss:
                log.info("Test loss: %.6g", mean.loss)
            for each in mean.by_class.values() if self._shows_classes else ():
                for label, value in each.items():
                    log.info("class%d: %.6g", label, value)
            scores.show("Test", mean.outputs)
            self._hooks.tested(state, which, mean)
            done.append(mean)
        return done
