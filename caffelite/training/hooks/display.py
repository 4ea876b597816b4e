"""Displays the loss, the outputs and the rate of every ``display``-th iteration, in Caffe's format."""

from __future__ import annotations

import logging
import time

import numpy as np

from ... import caffelite_pb2 as pb
from ...net.net import Net
from ...parallel import SingleProcess
from .. import scores
from ..epochs import Epoch
from ..optim.clipping import Clipping
from ..optim.rates import Schedule
from ..state import TrainingState
from .hook import Hook, Outputs

log = logging.getLogger("caffelite")


class Display(Hook):
    """Logs the loss and the train net's outputs, as means over processes, then the rate; reports them to ``hooks``.

    epoch: adds a line with the epoch.
    """

    def __init__(self, p: pb.SolverParameter, net: Net, comm: SingleProcess, hooks: Hook, epoch: Epoch | None = None):
        self._p, self._net, self._comm, self._hooks, self._epoch = p, net, comm, hooks, epoch
        self._loss = 0.0
        self._outputs: Outputs = []

    def started(self, state: TrainingState) -> None:
        self._last, self._last_time = state.iteration, time.perf_counter()

    restored = started

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
        outputs = self._net.outputs()
        values = np.concatenate([values.astype(float) for _, _, values in outputs] or [np.zeros(0)])
        means = self._comm.total(values) / self._comm.size
        ends = np.cumsum([values.size for _, _, values in outputs])[:-1]
        return [(v.name, w, m) for (v, w, _), m in zip(outputs, np.split(means, ends), strict=bool(outputs))]

    def before_update(self, state: TrainingState, rate: float) -> None:
        if state.displays:
            log.info("Iteration %d, lr = %.6g", state.iteration, rate)
            if self._epoch:
                log.info("Iteration %d, epoch = %.6g", state.iteration, self._epoch.of(state.iteration))
            self._hooks.displayed(state, rate, self._loss, self._outputs)

    def finished(self, state: TrainingState) -> None:
        """Displays the loss after the last update, of one more batch."""
        net, dev = self._net, self._net.dev
        if not self._p.display or state.iteration % self._p.display:
            return
        net.clear_loss()
        net.forward(state.iteration, self._comm.rank)
        total = self._comm.total(dev.download(net.loss).astype(float), "the loss")
        dev.upload(net.loss, total.astype(dev.dtype))
        state.losses.append(net.loss, self._comm.size)
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
