"""debug_info: the mean absolute value of every blob, gradient and parameter, in Caffe's format."""

from __future__ import annotations

import logging

from ...net.graph import Node
from ...net.net import Net
from ..state import TrainingState
from .hook import Hook, Observers

log = logging.getLogger("caffelite")


class DebugInfo(Hook):
    """Logs each layer of an iteration that is displayed. processes: over how many of them gradients are summed when
    parameters are updated."""

    def __init__(self, net: Net, processes: int = 1):
        self._net, self._processes = net, processes

    def observers(self, state: TrainingState) -> Observers:
        return ([self.forward], [self.backward]) if state.displays else ((), ())

    def forward(self, node: Node) -> None:
        if node.place < 0:  # not one of the file's layers
            return
        net, text = self._net, "    [Forward] Layer %s, top blob %s data: %.6g"
        for value in node.tops:
            log.info(text, node.name, value.name, net.mean_abs(net.data[value]))
        text = "    [Forward] Layer %s, param blob %d data: %.6g"
        for i, param in enumerate(node.layer.params):
            log.info(text, node.name, i, net.mean_abs(param.data))

    def backward(self, node: Node) -> None:
        if node.place < 0:
            return
        net, text = self._net, "    [Backward] Layer %s, bottom blob %s diff: %.6g"
        for i, value in enumerate(node.bottoms):
            if (gradient := net.gradient(node, i)) is not None:
                log.info(text, node.name, value.name, net.mean_abs(gradient))
        text = "    [Backward] Layer %s, param blob %d diff: %.6g"
        for i, param in enumerate(node.layer.params):
            if param.wanted:
                log.info(text, node.name, i, net.mean_abs(param.diff))

    def after_update(self, state: TrainingState) -> None:
        params, text = self._net.params, "    [Update] Layer %s, param %s data: %.6g; diff: %.6g"
        if not state.displays or params.diff is None:
            return
        for parameter, data, diff in zip(params.parameters, params.blobs, params.diffs, strict=True):
            values = self._net.mean_abs(data), self._net.mean_abs(diff) / self._processes
            log.info(text, parameter.node.name, parameter.index, *values)
