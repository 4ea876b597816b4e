"""debug_info: the mean absolute value of every blob, gradient and parameter, in Caffe's words."""

from __future__ import annotations

import logging

from ...net.graph import Node
from ...net.net import Net

log = logging.getLogger("caffelite")


class Watch:
    """Logs as a net runs; its methods are the net's ``watch`` callbacks. Gradients are sums over ``size`` processes
    when they update."""

    def __init__(self, net: Net, size: int = 1):
        self._net, self._size = net, size

    def forward(self, node: Node) -> None:
        if node.place < 0:  # none of the file's layers
            return
        for value in node.tops:
            log.info(
                "    [Forward] Layer %s, top blob %s data: %.6g",
                node.name,
                value.name,
                self._net.mean_abs(self._net.data[value]),
            )
        for i, param in enumerate(node.layer.params):
            log.info("    [Forward] Layer %s, param blob %d data: %.6g", node.name, i, self._net.mean_abs(param.data))

    def backward(self, node: Node) -> None:
        if node.place < 0:
            return
        for i, value in enumerate(node.bottoms):
            if (found := self._net.gradient(node, i)) is not None:
                log.info(
                    "    [Backward] Layer %s, bottom blob %s diff: %.6g",
                    node.name,
                    value.name,
                    self._net.mean_abs(found),
                )
        for i, param in enumerate(node.layer.params):
            if param.wanted:
                log.info(
                    "    [Backward] Layer %s, param blob %d diff: %.6g", node.name, i, self._net.mean_abs(param.diff)
                )

    def update(self) -> None:
        params = self._net.params
        for parameter, data, diff in zip(params.parameters, params.blobs, params.diffs, strict=True):
            values = self._net.mean_abs(data), self._net.mean_abs(diff) / self._size
            log.info(
                "    [Update] Layer %s, param %s data: %.6g; diff: %.6g", parameter.node.name, parameter.index, *values
            )
