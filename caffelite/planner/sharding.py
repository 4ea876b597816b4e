"""The layers that the devices of a stage divide, and what these devices exchange for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush

import numpy as np

from ..layers import Layer
from ..net.graph import Graph, Node, Value
from ..net.partition.placement import Division

OUTPUTS = ("InnerProduct", "Convolution", "Deconvolution", "Embed")
FOLLOWS = ("Pooling", "BatchNorm", "PReLU", "Eltwise", "Split", "Flatten", "Dropout")


class State(Enum):
    """What each device of a stage holds of a value: all of it, its channels, or its samples."""

    WHOLE = "whole"
    CHANNELS = "channels"
    SAMPLES = "samples"


@dataclass(frozen=True)
class Sharding:
    """How ``shards`` devices divide the layers of a net: by the indices of layers that are divided by outputs, and by
    samples."""

    shards: int = 1
    outputs: frozenset[int] = frozenset()
    batch: frozenset[int] = frozenset()

    def division(self, index: int) -> Division:
        """The division of a layer."""
        if index in self.outputs:
            return Division.OUTPUTS
        return Division.BATCH if index in self.batch else Division.WHOLE


@dataclass(frozen=True, eq=False)
class Exchange:
    """What a device computes and sends under a Sharding, for a complete batch.

    By layer: ``parts``: over how many devices its work is divided; ``parameter_parts``: its parameters; ``sent``
    (2, N): bytes that a device sends to those of its stage, forward and backward; ``messages`` (2, N); ``summed``:
    bytes of parameters whose gradients the stage sums; ``states``: of its tops. ``gathered``: the values that are
    assembled from their parts.
    """

    parts: np.ndarray
    parameter_parts: np.ndarray
    sent: np.ndarray
    messages: np.ndarray
    summed: np.ndarray
    states: list[State]
    gathered: set[Value]


def size(value: Value) -> int:
    """Bytes of a value in Caffe's format."""
    return 4 * math.prod(value.shape)


def parameter_bytes(graph: Graph) -> np.ndarray:
    """Bytes of the parameters that each layer owns."""
    found = np.zeros(len(graph.nodes))
    for parameter in graph.parameters:
        found[parameter.node.index] += 4 * math.prod(parameter.blob.shape)
    return found


def divisible(node: Node, shards: int) -> bool:
    """Whether ``shards`` devices can divide a layer by its outputs."""
    layer = node.layer
    if layer.spec.type not in OUTPUTS or layer.p.num_output % shards:
        return False
    if any(len(spec.shape) < 1 for spec in layer.param_blobs) or node.layer.spec.param and _shares(node):
        return False
    if layer.spec.type == "InnerProduct":
        return len(node.tops[0].shape) == 2 and not layer.p.transpose
    return layer.p.group == 1 or layer.p.group % shards == 0 if hasattr(layer.p, "group") else True


def _shares(node: Node) -> bool:
    return any(spec.name for spec in node.layer.spec.param)


def follows(layer: Layer) -> bool:
    """Whether a layer computes each channel of its top from the same channel of its bottoms."""
    return layer.in_place or layer.spec.type in FOLLOWS


class Reading(Enum):
    """How a layer reads a bottom: the part that the device has; its part of a value, which may be whole; the whole
    value, with a gradient that is a part of the sum over devices; the whole value, with the same gradient on each
    device."""

    PART = "part"
    SLICE = "slice"
    PARTIAL = "partial"
    COMPLETE = "complete"


@dataclass
class Move:
    """Bytes that a device sends for one value, forward and backward, and the layer that reads it first."""

    forward: float
    backward: float
    layer: int


class States:
    """The states of a net's values under ``shards`` devices; ``set`` changes how a layer is divided."""

    def __init__(self, graph: Graph, sharding: Sharding):
        self.graph, self.shards, nodes = graph, sharding.shards, graph.nodes
        self.division = [sharding.division(n.index) for n in nodes]
        self.makers = [sorted({b.node.index for b in n.bottoms}) for n in nodes]
        self.readers = [sorted({r.index for top in n.tops for r, _ in top.readers}) for n in nodes]
        self._follows = [bool(n.bottoms) and follows(n.layer) for n in nodes]
        self._grouped = [getattr(n.layer.p, "group", 1) > 1 for n in nodes]
        self.of: list[State] = []
        for node in nodes:
            self.of.append(self._state(node.index))

    def _state(self, index: int) -> State:
        division = self.division[index]
        if division is Division.WHOLE:
            parts = self._follows[index] and all(self.of[m] is State.CHANNELS for m in self.makers[index])
            return State.CHANNELS if parts else State.WHOLE
        return State.CHANNELS if division is Division.OUTPUTS else State.SAMPLES

    def set(self, index: int, division: Division) -> tuple[list[int], dict[int, State]]:
        """Sets a layer's division; returns the layers that this can concern, and the states that it changed, with the
        old ones."""
        self.division[index] = division
        waiting = [index]
        touched: list[int] = []
        old: dict[int, State] = {}
        while waiting:
            layer = heappop(waiting)
            if touched and touched[-1] == layer:
                continue
            touched.append(layer)
            state = self._state(layer)
            if state is not self.of[layer]:
                old[layer], self.of[layer] = self.of[layer], state
                for reader in self.readers[layer]:
                    heappush(waiting, reader)
        return touched, old

    def reading(self, reader: int) -> Reading:
        """How a layer reads its bottoms."""
        division = self.division[reader]
        if division is Division.OUTPUTS:
            return Reading.SLICE if self._grouped[reader] else Reading.PARTIAL
        return Reading.COMPLETE if self.of[reader] is State.WHOLE else Reading.PART

    def move(self, value: Value) -> Move | None:
        """What devices exchange for a value. Partial gradients are summed: only the device's own part where the value
        is divided and all gradients are partial."""
        divided = self.of[value.node.index] is not State.WHOLE
        whole = [(r.index, self.reading(r.index), r.gradient_to[i]) for r, i in value.readers]
        whole = [f for f in whole if f[1] is not Reading.PART and not (f[1] is Reading.SLICE and divided)]
        if not whole:
            return None
        amount = size(value) * (self.shards - 1) / self.shards
        partial = any(reading is Reading.PARTIAL and wanted for _, reading, wanted in whole)
        complete = any(reading is Reading.COMPLETE and wanted for _, reading, wanted in whole)
        backward = amount * (1 if divided and not complete else 2) if partial else 0.0
        if not divided:  # the gradients of slices are gathered
            backward += amount * any(reading is Reading.SLICE and wanted for _, reading, wanted in whole)
        return Move(amount if divided else 0.0, backward, whole[0][0])


def exchange(graph: Graph, sharding: Sharding) -> Exchange:
    """What the devices of a stage exchange under ``sharding``."""
    count, shards = len(graph.nodes), sharding.shards
    parts, parameter_parts, summed = np.ones(count), np.ones(count), np.zeros(count)
    sent, messages = np.zeros((2, count)), np.zeros((2, count))
    gathered: set[Value] = set()
    if shards == 1:
        return Exchange(parts, parameter_parts, sent, messages, summed, [State.WHOLE] * count, gathered)
    states, parameters = States(graph, sharding), parameter_bytes(graph)
    for node in graph.nodes:
        state = states.of[node.index]
        parts[node.index] = 1 if state is State.WHOLE else shards
        parameter_parts[node.index] = shards if state is State.CHANNELS else 1
        if state is State.SAMPLES and any(ref.wanted for ref in node.params):
            summed[node.index] = parameters[node.index]
        for top in node.tops:
            move = states.move(top)
            if move is None:
                continue
            for way, amount in enumerate((move.forward, move.backward)):
                sent[way, move.layer] += amount
                messages[way, move.layer] += (shards - 1) * (amount > 0)
            if move.forward:
                gathered.add(top)
    return Exchange(parts, parameter_parts, sent, messages, summed, states.of, gathered)


def hybrid(graph: Graph, shards: int) -> Sharding | None:
    """Krizhevsky's division: all layers before the first inner product by samples, all inner products by outputs that
    can be. None where the net does not allow it."""
    dense = [n.index for n in graph.nodes if n.layer.spec.type == "InnerProduct" and divisible(n, shards)]
    first = dense[0] if dense else 0
    batch = graph.nodes[:first]
    if not any(n.params for n in batch) or graph.batch_size % shards or any(couples_samples(n) for n in batch):
        return None
    if any(v.shape[:1] != (graph.batch_size,) for n in batch for v in n.tops):
        return None
    return Sharding(shards, frozenset(dense), frozenset(range(first)))


def couples_samples(node: Node) -> bool:
    """Whether a layer's numbers for a sample depend on other samples of the batch."""
    layer = node.layer
    return layer.spec.type in ("BatchReindex", "Filter", "LSTM", "RNN", "GRU", "Recurrent", "Attention") or (
        layer.spec.type == "BatchNorm" and node.backward
    )


def all_outputs(graph: Graph, shards: int) -> frozenset[int]:
    """The layers that ``shards`` devices can divide by outputs."""
    return frozenset(n.index for n in graph.nodes if divisible(n, shards))
