"""The parts of a graph: values (versions of blobs), nodes (layers in their net) and learnable parameters.

Blobs are in single-assignment form: a layer that writes over its bottom makes a new Value with the same name. The
compiler decides whether the two share memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from .. import caffelite_pb2 as pb
from ..layers import CAFFE_FORMAT, Format, Layer, ParameterSpec, Shape
from ..layers.base.compilation import includes
from ..layers.base.feeding import Feeding, Scheduled, feeding
from ..layers.base.state import Varying, varies
from ..layers.data import Input
from .sealing import Sealable

T = TypeVar("T")
AUTOMATIC = (
    "(automatic)"  # Caffe's name for the top of a loss layer without one: no layer reads it, and it is no output
)


@dataclass(eq=False)
class Value(Sealable):
    """One version of a blob. ``readers``: (node, bottom index) in order; ``gradient``: whether backward computes one
    for it; ``format``: how the compiled net stores it."""

    name: str
    shape: Shape
    node: Node
    top: int
    readers: list[tuple[Node, int]] = field(default_factory=list)
    gradient: bool = False
    format: Format = CAFFE_FORMAT

    @property
    def channels_last(self) -> bool:
        return self.format.channels_last

    @property
    def dtype(self) -> str | None:
        """Of its array and its gradient's: "bfloat16" or "float16"; None: the net's."""
        return self.format.dtype

    @property
    def memory_shape(self) -> Shape:
        return self.format.memory_shape(self.shape)

    @property
    def source(self) -> Node:
        """The layer whose result this is, also where the compiler copied that."""
        node = self.node
        while node.layer_index < 0 and node.bottoms:
            node = node.bottoms[0].node
        return node


@dataclass(eq=False)
class ParameterRef(Sealable):
    """A parameter as one layer uses it. ``owner``: the index of the learnable parameter that it is, or shares;
    ``wanted``: whether its gradient is computed."""

    owner: int
    wanted: bool


@dataclass(eq=False)
class Parameter(Sealable):
    """A parameter that the solver updates: the first of those that share a name."""

    node: Node
    index: int
    name: str
    blob: ParameterSpec
    lr_mult: float | None
    decay_mult: float | None

    @property
    def label(self) -> str:
        return self.name or f"{self.node.name}[{self.index}]"


@dataclass(eq=False)
class Node(Sealable):
    """A layer in its net. ``index``: its position among layers that run; ``layer_index``: that in the file, -1 for a
    copy that the compiler inserted."""

    index: int
    layer_index: int
    layer: Layer
    bottoms: list[Value] = field(default_factory=list)
    tops: list[Value] = field(default_factory=list)
    params: list[ParameterRef] = field(default_factory=list)
    loss_weights: list[float] = field(default_factory=list)
    backward: bool = False
    gradient_to: list[bool] = field(default_factory=list)

    def reads_bottom(self, index: int) -> bool:
        """Whether the backward step reads a bottom."""
        return self.backward and includes(self.layer.backward_reads_bottoms, index)

    def reads_top(self, index: int) -> bool:
        """Whether the backward step reads a top."""
        return self.backward and includes(self.layer.backward_reads_tops, index)

    @property
    def name(self) -> str:
        return self.layer.name

    def unwired(self, layer: Layer) -> Node:
        """A copy with another layer and neither bottoms nor tops."""
        params = [ParameterRef(p.owner, p.wanted) for p in self.params]
        weights, gradient_to = [*self.loss_weights], [*self.gradient_to]
        return Node(self.index, self.layer_index, layer, [], [], params, weights, self.backward, gradient_to)


class _Derived(Generic[T]):
    """A property of a graph that is computed each time, and once only where the graph is ``complete``."""

    def __init__(self, compute: Callable[[Any], T]):
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, graph: None, owner: type) -> _Derived[T]: ...

    @overload
    def __get__(self, graph: Graph, owner: type) -> T: ...

    def __get__(self, graph: Graph | None, owner: type) -> Any:
        if graph is None:
            return self
        value = self._compute(graph)
        if graph.complete:
            graph.__dict__[self._name] = value  # which is read before this descriptor from now on
        return value


@dataclass(eq=False)
class Graph(Sealable):
    """``values`` maps each blob name to its last version; ``dropped``: the layers that the phase leaves out, each with
    the reason; ``outputs`` are the values that no layer reads and the losses, by name and in the order of layers."""

    name: str
    phase: int
    nodes: list[Node]
    values: dict[str, Value]
    parameters: list[Parameter]
    message: pb.NetParameter
    dropped: list[tuple[str, str]]
    notes: list[str] = field(default_factory=list)
    complete: bool = False  # no layer, blob or reader is added or taken away any more

    @property
    def batch_size(self) -> int:
        """Samples in a batch: the first axis of the first blob that feeds the net; 1 where there is none."""
        return next((v.shape[0] for n in self.feeds for v in n.tops if v.shape), 1)

    @_Derived
    def outputs(self) -> list[Value]:
        unread = [v for v in self.values.values() if not v.readers]
        outputs = dict.fromkeys([*(v for v, _ in self.losses if v.name in self.values), *unread])
        return sorted(outputs, key=lambda v: (v.name, v.source.layer_index))

    @_Derived
    def feeds(self) -> list[Node]:
        return [n for n in self.nodes if isinstance(n.layer, Feeding)]

    @_Derived
    def scheduled(self) -> list[Node]:
        """The nodes that take numbers of the iteration from the host, though their tops come from bottoms."""
        return [n for n in self.nodes if isinstance(n.layer, Scheduled) and not isinstance(n.layer, Feeding)]

    @property
    def sources(self) -> list[tuple[Node, Any]]:
        """The layers with an open source of data."""
        return [(n, source) for n in self.feeds if (source := feeding(n.layer).source) is not None]

    def close(self) -> None:
        """Closes the sources."""
        for _, source in self.sources:
            source.close()

    def varied(self) -> set[Node]:
        """The nodes whose blobs may change their shapes with the data, and which are stored as Caffe stores them: those
        of layers that vary and all that follow; all nodes where gradients pass through such a layer."""
        varying = [node for node in self.nodes if varies(node.layer)]
        if any([node.layer.differentiable for node in varying]):
            return set(self.nodes)
        varied: set[Node] = set()
        changing: set[Value] = set()
        for node in self.nodes if varying else ():
            follows = not changing.isdisjoint(node.bottoms)
            if node in varying or follows:
                varied.add(node)
                which = node.layer.varied_tops if isinstance(node.layer, Varying) else None
                changing.update(top for top in node.tops if follows or which is None or top.top in which)
        return varied

    @_Derived
    def inputs(self) -> dict[str, Value]:
        """The tops of Input layers by name: the first version of each, which in-place layers read."""
        return {v.name: v for n in self.feeds if isinstance(n.layer, Input) for v in n.tops}

    @property
    def loss_starts(self) -> list[tuple[Value, float]]:
        """(blob, loss weight) where backward starts: the losses, and outputs whose gradient the user sets (0)."""
        pairs = [(v, w) for n in self.nodes for v, w in zip(n.tops, n.loss_weights, strict=True)]
        return [(v, w) for v, w in pairs if v.gradient and (w or not v.readers)]

    @_Derived
    def losses(self) -> list[tuple[Value, float]]:
        return [(v, w) for n in self.nodes for v, w in zip(n.tops, n.loss_weights, strict=True) if w]

    def seal(self) -> None:
        """Seals the graph with all its nodes, values and parameters."""
        for node in self.nodes:
            for part in (node, *node.tops, *node.params):
                part.seal()
        for parameter in self.parameters:
            parameter.seal()
        super().seal()


def changed(layer: Layer, **attributes: Any) -> Layer:
    """A copy of a layer with other ``attributes``."""
    copied = copy.copy(layer)
    vars(copied).update(attributes)
    return copied


def copied(graph: Graph, layer_of: Callable[[Node], Layer]) -> tuple[Graph, Mapping[Node, Node], Mapping[Value, Value]]:
    """Copies a graph with its nodes, values and parameters, and layers from ``layer_of``; also returns the copies by
    their originals."""
    nodes = {n: n.unwired(layer_of(n)) for n in graph.nodes}
    values = {
        v: Value(v.name, v.shape, new, v.top, [(nodes[r], i) for r, i in v.readers], v.gradient, v.format)
        for old, new in nodes.items()
        for v in old.tops
    }
    for old, new in nodes.items():
        new.bottoms, new.tops = [values[v] for v in old.bottoms], [values[v] for v in old.tops]
    return replaced(graph, nodes, {name: values[v] for name, v in graph.values.items()}), nodes, values


def replaced(
    graph: Graph, nodes: Mapping[Node, Node], values: dict[str, Value], order: list[Node] | None = None
) -> Graph:
    """The graph with its nodes replaced, and ``values`` by name. order: all nodes, where there are
    more than these."""
    parameters = [Parameter(nodes[p.node], p.index, p.name, p.blob, p.lr_mult, p.decay_mult) for p in graph.parameters]
    order = [*nodes.values()] if order is None else order
    return Graph(graph.name, graph.phase, order, values, parameters, graph.message, [*graph.dropped], [*graph.notes])
