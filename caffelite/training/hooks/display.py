"""Displays the loss, the outputs and the rate of every ``display``-th iteration, in Caffe's format."""

import logging
import time

import numpy as np

from ... import caffelite_pb2 as pb
from ...net.net import Net
from .. import scores
from ..epochs import Epoch
from ..iteration import Iteration
from ..optim.clipping import Clipping
from ..optim.rates import Schedule
from ..state import TrainingState
from ..trigger import due
from .hook import Hook, Observers, Outputs

log = logging.getLogger("caffelite")


class Display(Hook):
    """Logs the loss and the train net's outputs, as means over processes, then the rate; reports them to ``hooks``.

    epoch: adds a line with the epoch.
    """

    def __init__(self, p: pb.SolverParameter, iteration: Iteration, hooks: Hook, epoch: Epoch | None = None):
        self._p, self._iteration, self._division, self._hooks = p, iteration, iteration.division, hooks
        self._epoch = epoch
        self._loss: float = 0.0
        self._outputs: Outputs = []
        self._displays = False
        self._passed: list[list[np.ndarray]] = []  # outputs of the passes of the displayed batch
        if self._division.divisions > 1:
            iteration.after_forward.append(self._keep_outputs)

    def started(self, state: TrainingState) -> None:
        self._last, self._last_time = state.iteration, time.perf_counter()

    restored = started

    def observers(self, state: TrainingState) -> Observers:
        self._displays, self._passed = state.displays, []
        return (), ()

    def _keep_outputs(self, net: Net) -> None:
        """Keeps the outputs of a part of a batch."""
        if self._displays:
            self._passed = [*self._passed[1 - self._division.divisions :], [values for _, _, values in net.outputs()]]

    def after_backward(self, state: TrainingState) -> None:
        if not state.displays:
            return
        now, self._loss = time.perf_counter(), state.losses.smoothed()
        done, lapse = state.iteration - self._last, now - self._last_time
        speed = done / lapse if lapse else 0
        text = "Iteration %d (%.6g iter/s, %.3gs/%d iters), loss = %.6g"
        log.info(text, state.iteration, speed, lapse, self._p.display, self._loss)
        self._last, self._last_time = state.iteration, now
        self._outputs = self._mean_outputs()
        scores.show("Train", self._outputs)

    def _mean_outputs(self) -> Outputs:
        """The outputs of all stages, by name; means over processes, and over the parts of a batch."""
        outputs, data = self._iteration.net.outputs(), self._division.mesh.data
        passed = self._passed or [[values for _, _, values in outputs]]
        batches = [np.concatenate([each.astype(float) for each in one] or [np.zeros(0)]) for one in passed]
        means = data.total(np.sum(batches, 0)) / (data.size * len(passed))
        ends = np.cumsum([values.size for _, _, values in outputs])[:-1]
        named = [(v.name, w, m) for (v, w, _), m in zip(outputs, np.split(means, ends), strict=bool(outputs))]
        return sorted((output for stage in self._division.gather(named) for output in stage), key=lambda each: each[0])

    def before_update(self, state: TrainingState, rate: float) -> None:
        if state.displays:
            log.info("Iteration %d, lr = %.6g", state.iteration, rate)
            if self._epoch:
                log.info("Iteration %d, epoch = %.6g", state.iteration, self._epoch.of(state.iteration))
            self._hooks.displayed(state, rate, self._loss, self._outputs)

    def finished(self, state: TrainingState) -> None:
        """Displays the loss after the last update, of one more batch."""
        net, dev = self._iteration.net, self._iteration.net.dev
        if not due(self._p.display, state.iteration):
            return
        net.clear_loss()
        self._iteration.forward(state.iteration)
        total = self._division.mesh.world.total(dev.download(net.loss).astype(float), "the loss")
        dev.upload(net.loss, total.astype(dev.dtype))
        state.losses.append(net.loss, self._division.shares)
        state.losses.reported = state.losses.recorded  # it belongs to no iteration
        log.info("Iteration %d, loss = %.6g", state.iteration, state.losses.smoothed())


class PlateauReports(Hook):
    """Passes every loss to lr_policy "plateau", and logs when the rate falls."""

    def __init__(self, schedule: Schedule):
        self._schedule = schedule

    def after_backward(self, state: TrainingState) -> None:
        if state.plateau and self._schedule.receive_loss(state.iteration, state.losses.smoothed()):
            log.info("Plateau Status: Iteration %d, step = %d", state.iteration, state.plateau.steps)


class ClippingReports(Hook):
    """Logs the norms of the gradients that clip_gradients scaled down."""

    def __init__(self, clipping: Clipping, limit: float, every_iteration: bool):
        self._clipping, self._limit, self._every_iteration = clipping, limit, every_iteration

    def after_update(self, state: TrainingState) -> None:
        if not self._every_iteration and not state.inspected:
            return
        for norm in self._clipping.new_norms():
            if norm > self._limit:
                text = "Gradient clipping: scaling down gradients (L2 norm %.6g > %.6g) by scale factor %.6g"
                log.info(text, norm, self._limit, self._limit / norm)
