"""The division of a net's graph by a placement: stages, transfers between them, and where the parameters are."""

from collections.abc import Iterator
from dataclasses import dataclass

from ...devices.links import Peer
from ...layers import Shape
from ...layers.base.state import varies
from ..nodes import Graph, Node, Value
from .division import Axis, LayerPlan, check_shared_parameters, plan, shard_layer, shard_shape
from .placement import LayerPlacement, Placement


@dataclass(frozen=True, eq=False)
class Transfer:
    """A value that moves from its stage to a later one. axis: along which the devices divide it; shape: of what one
    device sends; gradient: a reader there computes one for it; first_read: the index of its first reader there. Its
    number decides its tags."""

    number: int
    value: Value
    source: int
    stage: int
    axis: Axis
    shape: Shape
    gradient: bool
    first_read: int

    @property
    def tag(self) -> int:
        """The tag of the value's message; the next one is the gradient's."""
        return 2 * self.number


@dataclass(frozen=True)
class ParameterPlace:
    """Where a parameter of the complete net is. layer, index: its name in a snapshot; shape: of the whole parameter.

    axis: along which the devices of the stage have a part each, in the order of shards; None: each has all of it.
    sums_gradients: each device of the stage computes the gradient of its samples, and theirs are to be summed.
    """

    layer: str
    index: int
    shape: Shape
    stage: int
    axis: Axis = None
    sums_gradients: bool = False


class Analysis:
    """The division of a net's graph by a placement. ``plans``: of each layer; ``axes``: along which each value is
    divided; ``transfers``: of all stages, in the order of the graph; ``parameters``: the place of each, in the order of
    the graph.

    Errors: a placement that the net does not allow.
    """

    def __init__(self, graph: Graph, placement: Placement):
        self.graph, self.placement = graph, placement
        check_stages(graph, placement)
        self.plans: dict[Node, LayerPlan] = plan(graph, placement)
        check_shared_parameters(graph, self.plans, placement.shards)
        self.axes: dict[Value, Axis] = {
            top: axis for node in graph.nodes for top, axis in zip(node.tops, self.plans[node].tops, strict=True)
        }
        self.transfers = tuple(self._find_transfers())
        self.parameters = tuple(self._find_parameters())

    def links(self) -> Iterator[tuple[Peer, Peer]]:
        """Sender and receiver of every message between stages."""
        for transfer in self.transfers:
            for shard in range(self.placement.shards):
                ends = (transfer.source, shard), (transfer.stage, shard)
                yield ends
                if transfer.gradient:
                    yield ends[::-1]

    def _find_transfers(self) -> Iterator[Transfer]:
        number = 0
        for node in self.graph.nodes:
            source = self.plans[node].stage
            for value in node.tops:
                readers: dict[int, list[tuple[Node, int]]] = {}
                for reader, i in value.readers:
                    readers.setdefault(self.plans[reader].stage, []).append((reader, i))
                axis = self.axes[value]
                shape = shard_shape(value.shape, axis, self.placement.shards)
                for stage in sorted(readers.keys() - {source}):
                    gradient = any(reader.gradient_to[i] for reader, i in readers[stage])
                    first = min(reader.index for reader, _ in readers[stage])
                    yield Transfer(number, value, source, stage, axis, shape, gradient, first)
                    number += 1

    def _find_parameters(self) -> Iterator[ParameterPlace]:
        for parameter in self.graph.parameters:
            node, plan = parameter.node, self.plans[parameter.node]
            axis, shape = None, parameter.blob.shape
            if plan.message is not None:
                layer, _ = shard_layer(node, plan, 0, self.placement.shards)
                shard = layer.param_blobs[parameter.index].shard
                axis = shard.axis if shard else None
            yield ParameterPlace(node.name, parameter.index, shape, plan.stage, axis, plan.sums_gradients)


def check_stages(graph: Graph, placement: Placement) -> None:
    """Raises an error for a layer on an earlier stage than one of its bottoms, for a parameter that layers of several
    stages share, and for layers with shapes that depend on the data."""
    stages = {node: placement.layers.get(node.name, LayerPlacement()).stage for node in graph.nodes}
    for node in graph.nodes:
        layer = node.layer
        if varies(layer) and placement.devices > 1:
            what = "cannot run in a net that several devices divide: its shapes depend on the data"
            raise layer.error(what, remedy="train without -split", outer=True)
        for i, bottom in enumerate(node.bottoms):
            if stages[bottom.node] > stages[node]:
                what = f'runs on stage {stages[node]}, but its bottom "{bottom.name}" is computed on stage'
                remedy = f"place it on stage {stages[bottom.node]} or later"
                raise layer.error(f"{what} {stages[bottom.node]}", "bottom", i, remedy=remedy, outer=True)
        for i, ref in enumerate(node.params):
            owner = graph.parameters[ref.owner]
            if stages[owner.node] != stages[node]:
                what = f'layer "{node.name}" on stage {stages[node]} shares parameter "{owner.name}" with layer'
                what += f' "{owner.node.name}" on stage {stages[owner.node]}'
                raise layer.locate.error(what, "param", i, "name", remedy="place both on one stage")
