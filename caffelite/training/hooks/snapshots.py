"""Writes snapshots: every ``snapshot`` iterations, when requested, and after training."""

from collections.abc import Callable

from ... import caffelite_pb2 as pb
from ...net.net import Net
from ...parallel import SNAPSHOT, SingleProcess
from ..checkpoint.checkpoints import Checkpoints
from ..requests import Agreement
from ..state import TrainingState
from ..statistics import average_statistics
from ..trigger import due
from .hook import Hook, LossReports


class Snapshots(Hook):
    """enabled: whether this run writes any. recover_bad_weights: of ``NanRecovery``."""

    def __init__(
        self,
        p: pb.SolverParameter,
        net: Net,
        comm: SingleProcess,
        checkpoints: Checkpoints,
        agreement: Agreement,
        losses: LossReports,
        recover_bad_weights: Callable[[TrainingState], bool],
        enabled: bool,
    ):
        self._p, self._net, self._comm, self._checkpoints = p, net, comm, checkpoints
        self._agreement, self._losses, self.enabled = agreement, losses, enabled
        self._recover_bad_weights = recover_bad_weights

    def after_iteration(self, state: TrainingState) -> None:
        requested = self._agreement.take_snapshot()
        if requested or self._agreement.stop or due(self._p.snapshot, state.iteration):
            self.write(state)

    def finished(self, state: TrainingState) -> None:
        """A run that ends before max_iter writes a snapshot too."""
        if not due(self._p.snapshot, state.iteration) and (
            self._p.snapshot_after_train or state.iteration < self._p.max_iter
        ):
            self.write(state)

    def write(self, state: TrainingState) -> None:
        """Writes the model, then the state; of several processes the first does. Weights that are not finite are not
        written: the run ends with the cause, or continues from an earlier snapshot."""
        self._losses.report(state)
        if not self.enabled:
            return
        if self._comm.mark:
            self._comm.mark(SNAPSHOT, iteration=state.iteration)
        average_statistics(self._net, self._comm)
        if not self._recover_bad_weights(state):
            self._checkpoints.write(state)

    def write_best(self, state: TrainingState) -> None:
        """Writes the weights with the best score so far."""
        if self.enabled:
            self._checkpoints.write_best(state)
