"""Divides the graph of a net into the graphs of its devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import CaffeliteError
from ..nodes import AUTOMATIC, Graph, Node, Parameter, ParameterRef, Value
from .placement import DevicePosition, LayerPlacement, Placement
from .transfers import Receive, Send


def partition(graph: Graph, placement: Placement, position: DevicePosition) -> Graph:
    """The part of a net's graph that the device at ``position`` runs, with layers that exchange values with the other
    parts. ``graph`` does not change, and the parts share its layers where these are not divided.

    Errors: a placement that the net does not allow.
    """
    return Partition(graph, placement).part(position)


@dataclass(frozen=True, eq=False)
class Transfer:
    """A value that moves from its stage to a later one. gradient: a reader there computes one for it; first_read: the
    index of its first reader there. Its number decides its tags."""

    number: int
    value: Value
    stage: int
    gradient: bool
    first_read: int

    @property
    def tag(self) -> int:
        """The tag of the value's message; the next one is the gradient's."""
        return 2 * self.number


class Partition:
    """The division of a net's graph by a placement. ``transfers``: of all stages, in the order of the graph."""

    def __init__(self, graph: Graph, placement: Placement):
        self.graph, self.placement = graph, placement
        check_stages(graph, placement)
        self.transfers = tuple(self._find_transfers())

    def stage(self, node: Node) -> int:
        """The stage of a layer."""
        return self.placement.layers.get(node.name, LayerPlacement()).stage

    def part(self, position: DevicePosition) -> Graph:
        """The graph of one device."""
        return _Builder(self, position).graph()

    def _find_transfers(self) -> Iterator[Transfer]:
        number = 0
        for node in self.graph.nodes:
            for value in node.tops:
                readers: dict[int, list[tuple[Node, int]]] = {}
                for reader, i in value.readers:
                    readers.setdefault(self.stage(reader), []).append((reader, i))
                for stage in sorted(readers.keys() - {self.stage(node)}):
                    found = readers[stage]
                    gradient = any(reader.gradient_to[i] for reader, i in found)
                    yield Transfer(number, value, stage, gradient, min(reader.index for reader, _ in found))
                    number += 1


def check_stages(graph: Graph, placement: Placement) -> None:
    """Raises an error for a layer on an earlier stage than one of its bottoms, and for a parameter that layers of
    several stages share."""
    stages = {node: placement.layers.get(node.name, LayerPlacement()).stage for node in graph.nodes}
    for node in graph.nodes:
        layer = node.layer
        for i, bottom in enumerate(node.bottoms):
            if stages[bottom.node] > stages[node]:
                what = f'runs on stage {stages[node]}, but its bottom "{bottom.name}" is computed on stage'
                remedy = f"place it on stage {stages[bottom.node]} or later"
                raise layer.outer_error(f"{what} {stages[bottom.node]}", "bottom", i, remedy=remedy)
        for i, ref in enumerate(node.params):
            owner = graph.parameters[ref.owner]
            if stages[owner.node] != stages[node]:
                what = f'layer "{node.name}" on stage {stages[node]} shares parameter "{owner.name}" with layer'
                raise CaffeliteError(
                    f'{what} "{owner.node.name}" on stage {stages[owner.node]}',
                    where=layer.locate("param", i, "name"),
                    remedy="place both on one stage",
                )


class _Builder:
    """Builds the graph of one device. Its nodes are in the order of the complete graph: a value is sent as soon as it
    is computed, and received just before its first reader. Values of one peer are received in the order in which they
    are sent, and gradients in the reverse order, so that no stage waits for a message behind another."""

    def __init__(self, whole: Partition, position: DevicePosition):
        self.whole, self.position = whole, position
        self.phase = whole.graph.phase
        self.nodes: list[Node] = []
        self.values: dict[Value, Value] = {}  # of the complete graph → here
        self._made: dict[Node, Node] = {}
        stage = position.stage
        self._sends: dict[Value, list[Transfer]] = {}
        for transfer in whole.transfers:
            if whole.stage(transfer.value.node) == stage:
                self._sends.setdefault(transfer.value, []).append(transfer)
        self._receives = _receive_times([t for t in whole.transfers if t.stage == stage], whole)

    def graph(self) -> Graph:
        whole, graph = self.whole, self.whole.graph
        owners = [i for i, p in enumerate(graph.parameters) if whole.stage(p.node) == self.position.stage]
        local = {owner: i for i, owner in enumerate(owners)}
        for node in graph.nodes:
            for transfer in self._receives.get(node.index, ()):
                self._receive(transfer)
            if whole.stage(node) == self.position.stage:
                self._add(node, local)
        parameters = []
        for owner in owners:
            p = graph.parameters[owner]
            node = self._made[p.node]
            blob = node.layer.param_blobs[p.index]
            parameters.append(Parameter(node, p.index, p.name, blob, p.lr_mult, p.decay_mult))
        for index, node in enumerate(self.nodes):
            node.index = index
        values = {top.name: top for node in self.nodes for top in node.tops if top.name != AUTOMATIC}
        return Graph(graph.name, self.phase, self.nodes, values, parameters, graph.message, [*graph.dropped])

    def _add(self, node: Node, owners: dict[int, int]) -> None:
        """Adds a layer of this stage, then sends its tops."""
        new = self._made[node] = node.unwired(node.layer)
        new.params = [ParameterRef(owners[ref.owner], ref.wanted) for ref in node.params]
        for i, bottom in enumerate(node.bottoms):
            self._read(self.values[bottom], new, i)
        new.tops = [Value(top.name, top.shape, new, top.top, [], top.gradient) for top in node.tops]
        self.nodes.append(new)
        for top, own in zip(node.tops, new.tops, strict=True):
            self.values[top] = own
            for transfer in self._sends.get(top, ()):
                self._send(transfer, own)

    def _read(self, value: Value, reader: Node, i: int) -> None:
        reader.bottoms.append(value)
        value.readers.append((reader, i))

    def _send(self, transfer: Transfer, value: Value) -> None:
        peer = (transfer.stage, self.position.shard)
        layer = Send(value, self.phase, peer, transfer.tag, transfer.gradient, value.shape)
        node = Node(-1, -1, layer, backward=transfer.gradient, gradient_to=[transfer.gradient])
        self._read(value, node, 0)
        self.nodes.append(node)

    def _receive(self, transfer: Transfer) -> None:
        value = transfer.value
        peer = (self.whole.stage(value.node), self.position.shard)
        layer = Receive(value, self.phase, peer, transfer.tag, transfer.gradient, value.shape)
        node = Node(-1, -1, layer, backward=transfer.gradient, loss_weights=[0.0])
        node.tops = [Value(value.name, value.shape, node, 0, [], transfer.gradient)]
        self.values[value] = node.tops[0]
        self.nodes.append(node)


def _receive_times(transfers: list[Transfer], whole: Partition) -> dict[int, list[Transfer]]:
    """Before which node of the complete graph each transfer is received, in the order of ``transfers``."""
    latest: dict[int, int] = {}  # by sending stage: when the transfers behind are received at the latest
    times: dict[int, list[Transfer]] = {}
    for transfer in reversed(transfers):
        source = whole.stage(transfer.value.node)
        time = latest[source] = min(latest.get(source, transfer.first_read), transfer.first_read)
        times.setdefault(time, []).insert(0, transfer)
    return times
