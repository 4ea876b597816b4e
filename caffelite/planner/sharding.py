"""The layers that the devices of a stage divide, and what these devices exchange for it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from ..errors import CaffeliteError
from ..layers.base.division import divides_outputs
from ..net.graph import Graph, Node, Value
from ..net.partition.division import Axis, LayerPlan, LayerPlanner, Need, feeds_divided, shard_layer
from ..net.partition.placement import Division, Placement


@dataclass(frozen=True)
class Sharding:
    """How ``shards`` devices divide the layers of a net: by the indices of layers that are divided by outputs, and by
    samples. Other layers compute parts where their bottoms are parts and they can."""

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
    bytes of parameters whose gradients the stage sums. ``divided``: the values of which each device has a part;
    ``gathered``: those that are also assembled from their parts.
    """

    parts: np.ndarray
    parameter_parts: np.ndarray
    sent: np.ndarray
    messages: np.ndarray
    summed: np.ndarray
    divided: set[Value]
    gathered: set[Value]


def size(value: Value) -> int:
    """Bytes of a value in Caffe's format."""
    return 4 * math.prod(value.shape)


def parameter_bytes(graph: Graph) -> np.ndarray:
    """Bytes of the parameters that each layer owns."""
    totals = np.zeros(len(graph.nodes))
    for parameter in graph.parameters:
        totals[parameter.node.index] += 4 * math.prod(parameter.blob.shape)
    return totals


class Divisions:
    """How each layer of a net can be divided over ``shards`` devices, as `partition` divides it. Each answer is
    computed once."""

    def __init__(self, graph: Graph, shards: int):
        self.graph, self.shards = graph, shards
        self._planner = LayerPlanner(graph, Placement(1, shards))
        self._along: dict[tuple[int, int], LayerPlan | None] = {}
        self._outputs: dict[int, LayerPlan | None] = {}
        self._whole = [LayerPlan(0, (Need(),) * len(n.bottoms), (None,) * len(n.tops)) for n in graph.nodes]
        self._parameter_parts: dict[tuple[int, Axis], float] = {}

    def whole(self, index: int) -> LayerPlan:
        """Each device computes the layer."""
        return self._whole[index]

    def along(self, index: int, axis: int) -> LayerPlan | None:
        """Each device computes a part along an axis; None where it cannot."""
        if (index, axis) not in self._along:
            self._along[index, axis] = self._planner.along(self.graph.nodes[index], 0, axis)
        return self._along[index, axis]

    def outputs(self, index: int) -> LayerPlan | None:
        """Each device computes a part of the outputs; None where it cannot, and where the layer shares a parameter."""
        if index not in self._outputs:
            self._outputs[index] = self._by_outputs(self.graph.nodes[index])
        return self._outputs[index]

    def _by_outputs(self, node: Node) -> LayerPlan | None:
        if not divides_outputs(node.layer) or not node.params or self._shares(node):
            return None
        try:
            return self._planner.by_outputs(node, 0)
        except CaffeliteError:
            return None

    def _shares(self, node: Node) -> bool:
        owners = {ref.owner for ref in node.params}
        return any(other is not node and any(ref.owner in owners for ref in other.params) for other in self.graph.nodes)

    def all_outputs(self) -> frozenset[int]:
        """The layers that can be divided by outputs."""
        return frozenset(n.index for n in self.graph.nodes if self.outputs(n.index))

    def parameter_parts(self, index: int, plan: LayerPlan) -> float:
        """Over how many devices the parameters of a layer are divided."""
        node = self.graph.nodes[index]
        if plan.message is None or not node.params:
            return 1.0
        if (index, plan.axis) not in self._parameter_parts:
            own = shard_layer(node, plan, 0, self.shards)[0].param_blobs
            count = sum(math.prod(spec.shape) for spec in own)
            self._parameter_parts[index, plan.axis] = (
                sum(math.prod(spec.shape) for spec in node.layer.param_blobs) / count
            )
        return self._parameter_parts[index, plan.axis]


@dataclass(frozen=True)
class Move:
    """Bytes that a device sends for one value, forward and backward, and the layer that needs it first."""

    forward: float
    backward: float
    layer: int


class Plans:
    """How a Sharding divides each layer; ``set`` changes the division of one."""

    def __init__(self, divisions: Divisions, sharding: Sharding):
        self.divisions, self.shards, nodes = divisions, divisions.shards, divisions.graph.nodes
        self.nodes = nodes
        self.division = [sharding.division(n.index) for n in nodes]
        self.readers = [sorted({r.index for top in n.tops for r, _ in top.readers}) for n in nodes]
        self.of: list[LayerPlan] = []
        for node in nodes:
            self.of.append(self._plan(node))

    def axis(self, value: Value) -> Axis:
        """The axis along which a value is divided."""
        return self.of[value.node.index].tops[value.top]

    def _plan(self, node: Node) -> LayerPlan:
        division, index = self.division[node.index], node.index
        if division is Division.OUTPUTS:
            return self.divisions.outputs(index) or self.divisions.whole(index)
        if division is Division.BATCH:
            return self.divisions.along(index, 0) or self.divisions.whole(index)
        for axis in dict.fromkeys(map(self.axis, node.bottoms)):
            if axis is not None and (along := self.divisions.along(index, axis)):
                return along
        return self.divisions.whole(index)

    def set(self, index: int, division: Division) -> list[int]:
        """Sets a layer's division; returns the layers that this can concern."""
        self.division[index] = division
        waiting, touched = [index], list[int]()
        while waiting:
            layer = heappop(waiting)
            if touched and touched[-1] == layer:
                continue
            touched.append(layer)
            plan = self._plan(self.nodes[layer])
            if plan.tops != self.of[layer].tops:
                for reader in self.readers[layer]:
                    heappush(waiting, reader)
            self.of[layer] = plan
        return touched

    def move(self, value: Value) -> Move | None:
        """What devices exchange for a value: they gather it where a reader needs all of it, and they sum gradients
        that are parts of a sum: only their own part where all readers' gradients are such parts."""
        axis, node = self.axis(value), value.node
        needs = [(r.index, self.of[r.index].needs[i], r.gradient_to[i]) for r, i in value.readers]
        needs = [each for each in needs if each[1] != Need(axis)]
        result = axis is not None and (not value.readers or bool(node.loss_weights[value.top]))
        if not needs and not result:
            return None
        amount = size(value) * (self.shards - 1) / self.shards
        complete = axis is not None and (result or any(not need.partial for _, need, _ in needs))
        backward = 0.0
        if any(need.partial and wanted for _, need, wanted in needs):
            backward += amount * (1 if axis is not None and not complete else 2)
        backward += amount * any(need.axis is not None and wanted for _, need, wanted in needs)
        return Move(amount if axis is not None else 0.0, backward, needs[0][0] if needs else node.index)


def moves(plans: Plans, values: Iterator[Value]) -> Iterator[tuple[Value, Move]]:
    """What devices exchange for some values."""
    for value in values:
        if move := plans.move(value):
            yield value, move


def exchange(divisions: Divisions, sharding: Sharding) -> Exchange:
    """What the devices of a stage exchange under ``sharding``."""
    nodes, shards = divisions.graph.nodes, sharding.shards
    divisors, parameter_parts, summed = np.ones(len(nodes)), np.ones(len(nodes)), np.zeros(len(nodes))
    sent, messages = np.zeros((2, len(nodes))), np.zeros((2, len(nodes)))
    if shards == 1:
        return Exchange(divisors, parameter_parts, sent, messages, summed, set(), set())
    plans = Plans(divisions, sharding)
    for node, plan in zip(nodes, plans.of, strict=True):
        divisors[node.index] = 1 if plan.message is None else shards
        parameter_parts[node.index] = divisions.parameter_parts(node.index, plan)
        if plan.sums_gradients:
            wanted = zip(node.params, node.layer.param_blobs, strict=True)
            summed[node.index] = sum(4 * math.prod(spec.shape) for ref, spec in wanted if ref.wanted)
    tops = [top for node in nodes for top in node.tops]
    gathered = set()
    for value, move in moves(plans, iter(tops)):
        for way, amount in enumerate((move.forward, move.backward)):
            sent[way, move.layer] += amount
            messages[way, move.layer] += (shards - 1) * (amount > 0)
        if move.forward:
            gathered.add(value)
    divided = {top for top in tops if plans.axis(top) is not None}
    return Exchange(divisors, parameter_parts, sent, messages, summed, divided, gathered)


def hybrid(divisions: Divisions) -> Sharding | None:
    """Krizhevsky's division: inner products by outputs, and by samples the layers with parameters before them. None
    where the net does not allow it."""
    products, batch, behind = set(), set(), set()
    for node in divisions.graph.nodes:
        product = not node.layer.needs_images and divisions.outputs(node.index) is not None
        if product or any(bottom.node in behind for bottom in node.bottoms):
            behind.add(node)
            if product:
                products.add(node.index)
        elif node.bottoms and node.params:
            if divisions.along(node.index, 0) is None:
                return None
            batch.add(node.index)
    nodes = divisions.graph.nodes
    divided = {nodes[index] for index in batch}
    feeds = {n.index for n in nodes if feeds_divided(n, divided) and divisions.along(n.index, 0)}
    return Sharding(divisions.shards, frozenset(products), frozenset(batch | feeds)) if products and batch else None
