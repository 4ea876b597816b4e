"""debug_info: the mean absolute value of every blob, gradient and parameter, in Caffe's format."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...devices.types import Array
from ...net.graph import Node
from ...net.partition.partition import partial_gradient
from ..iteration import Iteration
from ..state import TrainingState
from .hook import Hook, Observers

log = logging.getLogger("caffelite")

# What a line is about. The means of micro-batches of a divided batch are joined: averages of blobs; of gradients of
# blobs, which belong to the mean loss of fewer samples; and the last of parameters and their gradients, which add up.
BLOB, BLOB_GRADIENT, PARAMETER, PARAMETER_GRADIENT = range(4)


class DebugInfo(Hook):
    """Logs each layer of an iteration that is displayed. iteration: its nets and their parts."""

    def __init__(self, iteration: Iteration):
        self._iteration, self._net, self._division = iteration, iteration.net, iteration.division
        self._summed = self._division.summed_over_stage(self._net)

    def observers(self, state: TrainingState) -> Observers:
        return ([self.forward], [self.backward]) if state.displays else ((), ())

    def forward(self, node: Node) -> None:
        if node.layer_index < 0:  # not one of the file's layers
            return
        net, text = self._iteration.running, "    [Forward] Layer %s, top blob %s data: %.6g"
        for value in node.tops:
            self._log(BLOB, text, (node.name, value.name), net.mean_abs(net.data[value]))
        text = "    [Forward] Layer %s, param blob %d data: %.6g"
        for i, param in enumerate(node.layer.params):
            self._log(PARAMETER, text, (node.name, i), net.mean_abs(param.data))

    def backward(self, node: Node) -> None:
        if node.layer_index < 0:
            return
        net, text = self._iteration.running, "    [Backward] Layer %s, bottom blob %s diff: %.6g"
        for i, value in enumerate(node.bottoms):
            if (gradient := net.gradient(node, i)) is not None:
                complete = self._complete(gradient, partial_gradient(value))
                self._log(BLOB_GRADIENT, text, (node.name, value.name), net.mean_abs(complete))
        text = "    [Backward] Layer %s, param blob %d diff: %.6g"
        for i, param in enumerate(node.layer.params):
            if param.wanted:
                complete = self._complete(param.diff, self._summed[node.params[i].owner])
                self._log(PARAMETER_GRADIENT, text, (node.name, i), net.mean_abs(complete))

    def _complete(self, gradient: Array, partial: bool) -> Array:
        """A gradient; partial: of which each device of the stage has a summand."""
        return gradient

    def after_update(self, state: TrainingState) -> None:
        params, text = self._net.params, "    [Update] Layer %s, param %s data: %.6g; diff: %.6g"
        if not state.displays or params.diff is None:
            return
        for parameter, data, diff in zip(params.parameters, params.blobs, params.diffs, strict=True):
            values = [self._net.mean_abs(data), self._net.mean_abs(diff) / self._division.shares]
            self._log_update(text, (parameter.node.name, parameter.index), values)

    def _log(self, about: int, text: str, names: tuple[object, ...], value: float) -> None:
        log.info(text, *names, value)

    def _log_update(self, text: str, names: tuple[object, ...], values: list[float]) -> None:
        log.info(text, *names, *values)


@dataclass
class _Line:
    """A line of one stage, with a value for each micro-batch of a batch."""

    about: int
    text: str
    names: tuple[object, ...]
    values: list[float]

    def joined(self) -> float:
        """The value for the undivided batch."""
        count = len(self.values)
        if self.about in (BLOB, BLOB_GRADIENT):
            return float(np.mean(self.values)) / (count if self.about == BLOB_GRADIENT else 1)
        return self.values[-1] / (count if self.about == PARAMETER_GRADIENT else 1)


class DividedPasses(Hook):
    """Logs the lines of the passes. It acts before the iteration is displayed, the lines of the update come later."""

    def __init__(self, info: DividedDebugInfo):
        self._info = info

    def after_backward(self, state: TrainingState) -> None:
        self._info.log_passes(state)


class DividedDebugInfo(DebugInfo):
    """The same for a net whose parts are on several processes: each keeps its lines, and all are logged after the
    passes, as one process would log them. All processes call the hook."""

    def __init__(self, iteration: Iteration):
        super().__init__(iteration)
        self._lines: _Lines = {}
        self._updates: _Lines = {}

    def observers(self, state: TrainingState) -> Observers:
        self._lines = {}
        return super().observers(state)

    def _complete(self, gradient: Array, partial: bool) -> Array:
        if not partial:
            return gradient
        dev = self._net.dev
        dev.assign(gradient, summed := dev.empty(gradient.shape, gradient.dtype))
        self._division.add_up_stage(summed)
        return summed

    def log_passes(self, state: TrainingState) -> None:
        """Logs the lines of the iteration's passes."""
        if not state.displays:
            return
        stages = [_mean_of_shards(shards) for shards in self._division.gather_shards(self._lines)]
        for batch in range(self._iteration.micro_batches // self._division.divisions):
            for forward, ordered in ((True, stages), (False, stages[::-1])):
                self._log_stages(ordered, batch, forward)

    def _log_stages(self, stages: Sequence[_Lines], batch: int, forward: bool) -> None:
        for lines in stages:
            for line in lines.get((batch, forward), {}).values():
                log.info(line.text, *line.names, line.joined())

    def after_update(self, state: TrainingState) -> None:
        if not state.displays:
            return
        self._updates = {}
        super().after_update(state)
        for shards in self._division.gather_shards(self._updates):
            for line in _mean_of_shards(shards).get((0, True), {}).values():
                log.info(line.text, *line.names, *line.values)

    def _log(self, about: int, text: str, names: tuple[object, ...], value: float) -> None:
        batch = self._iteration.micro_batch // self._division.divisions
        lines = self._lines.setdefault((batch, about in (BLOB, PARAMETER)), {})
        lines.setdefault((about, *names), _Line(about, text, names, [])).values.append(value)

    def _log_update(self, text: str, names: tuple[object, ...], values: list[float]) -> None:
        self._updates.setdefault((0, True), {})[names] = _Line(PARAMETER, text, names, values)


# By batch of iter_size, and whether forward: the lines by what they are about
_Lines = dict[tuple[int, bool], dict[tuple[object, ...], _Line]]


def _mean_of_shards(shards: Sequence[_Lines]) -> _Lines:
    """The lines of a stage. Its devices have equal parts of a value, or all of it."""
    for key, lines in shards[0].items():
        for name, line in lines.items():
            others = [shard[key][name].values for shard in shards if name in shard.get(key, {})]
            line.values = [float(np.mean(values)) for values in zip(*others, strict=True)]
    return shards[0]
