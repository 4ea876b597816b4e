"""Weight gradients of inner products that are computed once for all micro-batches of an iteration.

Each backward pass of a large inner product over a few samples reads and writes its complete weight gradient. So a
pipeline keeps the rows that the gradient is a product of, x and dy of each micro-batch, and computes one product of all
rows. Its sums are in another order than those of one product for each micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..devices.interfaces import Array
from ..devices.protocol import Device
from ..layers import Layer
from .nodes import Graph, Node
from .parameters import ParameterView

LEAST_WEIGHTS = 1 << 20  # fewer stay in the caches from one micro-batch to the next


def pays(rows: float, inputs: float, outputs: float) -> bool:
    """Whether the gradient of a layer's weights (outputs, inputs) is computed once for ``rows`` rows: they take no more
    memory than the weights."""
    return inputs * outputs >= LEAST_WEIGHTS and rows * (inputs + outputs) <= inputs * outputs


def defers(stages: int, micro_batches: int) -> bool:
    """Whether a pipeline computes weight gradients once for all micro-batches of an iteration."""
    return stages > 1 and micro_batches > 1


def candidates(graph: Graph) -> list[tuple[Node, int, int, int]]:
    """The layers of a net with weight gradients that can be computed once for several passes, each with its sizes as of
    ``Layer.gradient_rows``. Layers that share a parameter are not among them: their gradients are added in the order of
    the backward pass."""
    readers: dict[int, int] = {}
    for node in graph.nodes:
        for ref in node.params:
            readers[ref.owner] = readers.get(ref.owner, 0) + 1
    found = []
    for node in graph.nodes:
        size = node.layer.gradient_rows()
        learned = node.backward and any(ref.wanted for ref in node.params)
        if size and learned and all(readers[ref.owner] == 1 for ref in node.params):
            found.append((node, *size))
    return found


def deferred_nodes(graph: Graph, micro_batches: int) -> list[Node]:
    """The layers of a net with weight gradients that are computed once for ``micro_batches`` passes."""
    return [node for node, rows, *widths in candidates(graph) if pays(rows * micro_batches, *widths)]


def kept_bytes(graph: Graph, micro_batches: int, itemsize: int = 4) -> int:
    """Bytes of the rows that ``DeferredGradients`` keeps for a net; at most, as 16-bit rows count as complete ones."""
    sizes = [(rows * micro_batches, *widths) for _, rows, *widths in candidates(graph)]
    return sum(itemsize * rows * (inputs + outputs) for rows, inputs, outputs in sizes if pays(rows, inputs, outputs))


class DeferredGradient:
    """The gradients of one layer's parameters, from the rows of all micro-batches.

    layer: bound, of the net with the parameters. observed: they are to be complete after each backward step.
    """

    def __init__(self, layer: Layer, dev: Device, micro_batches: int):
        size = layer.gradient_rows()
        assert size, "the layer's gradients are a product of rows"
        self._layer, self._dev, self._size, self._micro_batches = layer, dev, size, micro_batches
        self._x: Array = None  # (micro-batches, rows, inputs), of the dtype that the layer multiplies
        self._dy: Array = dev.empty((micro_batches, size[0], size[2]))
        self._products: dict[int, Any] = {}  # by the number of micro-batches
        self._kept = self._done = 0
        self.observed = False

    def begin(self, observed: bool) -> None:
        """Starts an iteration."""
        self._kept = self._done = 0
        self.observed = observed

    def keep(self, x: Array, dy: Array) -> None:
        """Keeps the rows of a micro-batch, from its backward pass."""
        rows, inputs, outputs = self._size
        if self._x is None:
            self._x = self._dev.empty((self._micro_batches, rows, inputs), x.dtype)
        self._dev.copy(x.reshape(rows, inputs), self._x[self._kept])
        self._dev.copy(dy.reshape(rows, outputs), self._dy[self._kept])
        self._kept += 1
        if self.observed:
            self.compute()

    def compute(self) -> None:
        """Writes the gradients of the rows that were kept."""
        count = self._kept
        if self._done == count:
            return
        self._done = count
        rows, inputs, outputs = self._size
        if count not in self._products:
            self._products[count] = self._layer.gradient_product(count * rows)
        weights, *bias = self._layer.params
        x, dy = self._x[:count].reshape(-1, inputs), self._dy[:count].reshape(-1, outputs)
        db = _wanted(bias[0]) if bias else None
        self._products[count].backward(x, weights.data, dy, None, _wanted(weights), db)


def _wanted(parameter: ParameterView) -> Array | None:
    return parameter.diff if parameter.wanted else None


class DeferredGradients:
    """Those of a net's layers. ``parameters``: the indices of the parameters.

    nodes: of the net with the parameters, as ``deferred_nodes`` returns them. ``begin`` precedes the passes of an
    iteration, ``compute`` follows the last backward pass.
    """

    def __init__(self, nodes: Sequence[Node], dev: Device, micro_batches: int):
        self._by_index = {node.index: DeferredGradient(node.layer, dev, micro_batches) for node in nodes}
        self._names = {node.index: node.name for node in nodes}
        self.parameters = frozenset(ref.owner for node in nodes for ref in node.params)

    def attach(self, graph: Graph) -> None:
        """Lets the layers of a bound graph keep their rows here: of the net, or of a replica."""
        for index, gradient in self._by_index.items():
            graph.nodes[index].layer.deferred = gradient

    def begin(self, observed: bool = False) -> None:
        """observed: the gradients are to be complete after each step of each backward pass."""
        for gradient in self._by_index.values():
            gradient.begin(observed)

    def compute(self) -> None:
        """Computes the gradients, the last layer's first."""
        for index in sorted(self._by_index, reverse=True):
            self._by_index[index].compute()

    def each(self) -> list[tuple[str, DeferredGradient]]:
        """(layer, its gradient), the last layer's first."""
        return [(self._names[index], self._by_index[index]) for index in sorted(self._by_index, reverse=True)]
