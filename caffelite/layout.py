"""Which blobs of a graph lie channels last (N, H, W, C) in memory, for devices whose convolutions are faster so. Shapes, files and names
stay N×C×H×W.

A layer that prefers that layout pulls its bottoms and tops there, one that follows takes its blobs as its first one comes, all others have
them as Caffe does. Where a blob is wanted otherwise than it was made, a Transposition is put into the graph.
"""

from __future__ import annotations

from . import caffelite_pb2 as pb
from .errors import NOWHERE
from .graph import Graph, Node, Value
from .layers import Layer


class Transposition(Layer):
    """Copies x (N, C, H, W) into y (N, H, W, C), or back where not ``forth``; the same memory where both lie alike."""

    type = "Transposition"

    def __init__(self, value: Value, forth: bool, phase: int):
        super().__init__(pb.LayerParameter(name=f"{value.name} transposed", type=self.type), phase, NOWHERE)
        n, c, *spatial = value.shape
        self.split, self.forth = (n, c, spatial[0] * spatial[1]), forth
        self.view = self.split[1] == 1 or self.split[2] == 1

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def build(self, dev) -> None:
        n, c, p = self.split
        self.plain, self.swapped = (n, c, p), (n, p, c)
        self.op = dev.transpose

    def _run(self, source, target, forth: bool) -> None:
        if not self.view:
            self.op(source.reshape(self.plain if forth else self.swapped), target.reshape(self.swapped if forth else self.plain))

    def forward(self, x: list, y: list) -> None:
        self._run(x[0], y[0], self.forth)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._run(dy[0], dx[0], not self.forth)


def assign(graph: Graph, dev) -> None:
    """Decides where each blob of ``graph`` lies how on a device, and puts in what transpositions that takes."""
    if any(node.layer.varies for node in graph.nodes) or not any(n.layer.prefers_channels_last(dev) for n in graph.nodes):
        return
    nodes: list[Node] = []
    twins: dict[Value, Value] = {}  # a blob in the other layout

    def wanted(value: Value, last: bool) -> Value:
        if value.last == last or len(value.shape) != 4:
            return value
        if value not in twins:
            layer = Transposition(value, last, graph.phase)
            node = Node(-1, -1, layer, [value], loss_weights=[0.0], gradient_to=[False])
            twin = twins[value] = Value(value.name, value.shape, node, 0, last=last)
            node.tops = [twin]
            value.readers.append((node, 0))
            nodes.append(node)
        return twins[value]

    for node in graph.nodes:
        layer = node.layer
        images = [b for b in node.bottoms if len(b.shape) == 4]
        layer.last = layer.prefers_channels_last(dev) or (bool(images) and layer.follows_layout and images[0].last)
        for i, bottom in enumerate(node.bottoms):
            value = wanted(bottom, layer.last)
            if value is not bottom:
                bottom.readers.remove((node, i))
                value.readers.append((node, i))
                node.bottoms[i] = value
                twin = value.node
                if node.gradient_to[i]:
                    value.gradient = twin.backward = twin.gradient_to[0] = True
        if layer.last:
            layer.lie_last()
            for top in node.tops:
                top.last = len(top.shape) == 4
        nodes.append(node)
    for value in graph.outputs:
        if value.last:
            twin = graph.values[value.name] = wanted(value, False)
            twin.gradient = twin.node.backward = twin.node.gradient_to[0] = value.gradient
            twin.node.loss_weights, value.node.loss_weights[value.top] = [value.node.loss_weights[value.top]], 0.0
    for index, node in enumerate(nodes):
        node.index = index
    graph.nodes[:] = nodes
