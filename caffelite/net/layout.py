"""Which blobs of a graph lie channels last (N, H, W, C) in memory, for devices whose convolutions are faster so, and
which of these are of bfloat16 numbers. Shapes, files and names stay N×C×H×W.

A layer that prefers that layout pulls its bottoms and tops there, one that follows takes its blobs as its first one
comes, all others have them as Caffe does; and so for the numbers. Where a blob is wanted otherwise than it was made, a
Transposition or a Rounding is put into the graph.
"""

from __future__ import annotations

import math

from .. import caffelite_pb2 as pb
from ..errors import NOWHERE
from ..layers import Layer
from .graph import Graph, Node, Value


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
            self.op(
                source.reshape(self.plain if forth else self.swapped),
                target.reshape(self.swapped if forth else self.plain),
            )

    def forward(self, x: list, y: list) -> None:
        self._run(x[0], y[0], self.forth)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._run(dy[0], dx[0], not self.forth)


class Rounding(Layer):
    """Copies x of float32 numbers into y of bfloat16 ones, or back where not ``forth``; both lie alike."""

    type = "Rounding"

    def __init__(self, value: Value, forth: bool, phase: int):
        super().__init__(pb.LayerParameter(name=f"{value.name} rounded", type=self.type), phase, NOWHERE)
        self.forth = forth

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def build(self, dev) -> None:
        narrow, widen = dev.conversions()
        self.op, self.back = (narrow, widen) if self.forth else (widen, narrow)

    def forward(self, x: list, y: list) -> None:
        self.op(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.back(dy[0], dx[0])


def multiply_adds(node: Node) -> int:
    """Products in the forward pass of a convolution."""
    return sum(math.prod(top.shape) for top in node.tops) * math.prod(node.layer.param_blobs[0].shape[1:])


def assign(graph: Graph, dev) -> None:
    """Decides how each blob of ``graph`` is stored on a device, and puts in the copies that it takes. All stay as Caffe
    has them where the convolutions have, on average, less than ``dev.little_work``: there the copies would cost more
    than the layout saves."""
    work = [multiply_adds(node) for node in graph.nodes if node.layer.prefers_channels_last(dev)]
    if not work or sum(work) < dev.little_work * len(work) or any(node.layer.varies for node in graph.nodes):
        return
    nodes: list[Node] = []
    twins: dict[tuple[Value, bool], Value] = {}  # a blob stored one step further from Caffe's way, or nearer to it

    def wanted(value: Value, last: bool, narrow: bool) -> Value:
        if len(value.shape) != 4 or (value.last, value.narrow) == (last, narrow):
            return value
        forth = (last, narrow) > (value.last, value.narrow)  # numbers are rounded only where they lie channels last
        if (value, forth) not in twins:
            rounds = value.last if forth else value.narrow
            layer = (Rounding if rounds else Transposition)(value, forth, graph.phase)
            node = Node(-1, -1, layer, [value], loss_weights=[0.0], gradient_to=[False])
            twin = twins[value, forth] = Value(
                value.name, value.shape, node, 0, last=forth or rounds, narrow=forth and rounds
            )
            node.tops = [twin]
            value.readers.append((node, 0))
            nodes.append(node)
        return wanted(twins[value, forth], last, narrow)

    def learn(twin: Value, value: Value) -> None:
        """Gradients go from a twin down to the value that it was made of."""
        while twin is not value:
            twin.gradient = twin.node.backward = twin.node.gradient_to[0] = True
            twin = twin.node.bottoms[0]

    for node in graph.nodes:
        layer = node.layer
        images = [b for b in node.bottoms if len(b.shape) == 4]
        first = layer.prefers_channels_last(dev)
        layer.last = first or (bool(images) and layer.follows_layout and images[0].last)
        layer.narrow = layer.last and dev.narrow and (first or (layer.follows_precision and images[0].narrow))
        for i, bottom in enumerate(node.bottoms):
            value = wanted(bottom, layer.last, layer.narrow)
            if value is not bottom:
                bottom.readers.remove((node, i))
                value.readers.append((node, i))
                node.bottoms[i] = value
                if node.gradient_to[i]:
                    learn(value, bottom)
        if layer.last:
            layer.use_channels_last()
            for top in node.tops:
                top.last = len(top.shape) == 4
                top.narrow = top.last and layer.narrow
        nodes.append(node)
    outputs = [value for value in graph.outputs if value.last]
    for value in [*outputs, *(v for v, _ in graph.losses if v.narrow and v not in outputs)]:
        twin = wanted(value, False, False)
        if value in outputs:
            graph.values[value.name] = twin
        if value.gradient:
            learn(twin, value)
        twin.node.loss_weights, value.node.loss_weights[value.top] = [value.node.loss_weights[value.top]], 0.0
    for index, node in enumerate(nodes):
        node.index = index
    graph.nodes[:] = nodes
