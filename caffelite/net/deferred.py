"""Weight gradients of inner products that are computed once for all micro-batches of an iteration.

Each backward pass of a large inner product over a few samples reads and writes its complete weight gradient. So a
pipeline keeps the rows that the gradient is a product of, x and dy of each micro-batch, and computes one product of all
rows. Its sums are in another order than those of one product for each micro-batch.
"""

from collections.abc import Sequence
from typing import Any

from ..devices.protocol import Device
from ..devices.types import Array
from ..layers.inner_product import InnerProduct
from .nodes import Graph, Node

LEAST_WEIGHTS = 1 << 20  # fewer stay in the caches from one micro-batch to the next


def pays(rows: float, inputs: float, outputs: float) -> bool:
    """Whether the gradient of a layer's weights (outputs, inputs) is computed once for ``rows`` rows: they take no more
    memory than the weights."""
    return inputs * outputs >= LEAST_WEIGHTS and rows * (inputs + outputs) <= inputs * outputs


def defers(stages: int, micro_batches: int) -> bool:
    """Whether a pipeline computes weight gradients once for all micro-batches of an iteration."""
    return stages > 1 and micro_batches > 1


def inner_product(node: Node) -> InnerProduct:
    """The layer of a node that is one of the ``candidates``."""
    assert isinstance(node.layer, InnerProduct)
    return node.layer


def candidates(graph: Graph) -> list[tuple[Node, int, int, int]]:
    """The layers of a net with weight gradients that can be computed once for several passes, each with its sizes as of
    ``InnerProduct.gradient_rows``. Layers that share their weights are not among them: their gradients are added in
    the order of the backward pass."""
    readers: dict[int, int] = {}
    for node in graph.nodes:
        for ref in node.params:
            readers[ref.owner] = readers.get(ref.owner, 0) + 1
    deferred = []
    for node in graph.nodes:
        layer = node.layer
        if not (isinstance(layer, InnerProduct) and node.backward):
            continue
        if node.params[0].wanted and readers[node.params[0].owner] == 1:
            deferred.append((node, *layer.gradient_rows()))
    return deferred


def deferred_nodes(graph: Graph, micro_batches: int) -> list[Node]:
    """The layers of a net with weight gradients that are computed once for ``micro_batches`` passes."""
    return [node for node, rows, *widths in candidates(graph) if pays(rows * micro_batches, *widths)]


def kept_bytes(graph: Graph, micro_batches: int, itemsize: int = 4) -> int:
    """Bytes of the rows that ``DeferredGradients`` keeps for a net; at most, as 16-bit rows count as complete ones."""
    sizes = [(rows * micro_batches, *widths) for _, rows, *widths in candidates(graph)]
    return sum(itemsize * rows * (inputs + outputs) for rows, inputs, outputs in sizes if pays(rows, inputs, outputs))


class KeptRows:
    """The rows that the gradient of a layer's weights (N, K) is a product of, dyᵀ x: ``count`` rows of x (M, K), of the
    dtype that the layer multiplies, and of dy (M, N), of the passes of an iteration.

    node: of the net with the parameters.
    """

    def __init__(self, node: Node, dev: Device, micro_batches: int):
        self._layer = inner_product(node)
        rows, self._inputs, self._outputs = self._layer.gradient_rows()
        self._dev, self._room, self.count = dev, rows * micro_batches, 0
        self._x: Array = None
        self._dy: Array = None
        self._products: dict[int, Any] = {}  # by the number of rows

    def keep(self, x: Array, dy: Array, add: bool) -> None:
        """Keeps the rows of a pass. add: after those of earlier passes, which are dropped otherwise."""
        rows, first = x.size // self._inputs, self.count if add else 0
        self.count = first + rows
        self._reserve(first, x.dtype)
        self._dev.copy(x.reshape(rows, self._inputs), self._x[first : self.count])
        self._dev.copy(dy.reshape(rows, self._outputs), self._dy[first : self.count])

    def _reserve(self, filled: int, dtype: Any) -> None:
        """Memory for ``count`` rows; the first ``filled`` stay."""
        if self._x is not None and len(self._x) >= self.count:
            return
        self._room = max(self._room, self.count)
        before, self._x = self._x, self._dev.empty((self._room, self._inputs), dtype)
        before_dy, self._dy = self._dy, self._dev.empty((self._room, self._outputs))
        if filled:
            self._dev.copy(before[:filled], self._x[:filled])
            self._dev.copy(before_dy[:filled], self._dy[:filled])

    def rows(self) -> tuple[Array, Array]:
        """x and dy of the passes."""
        return self._x[: self.count], self._dy[: self.count]

    def multiply(self, gradient: Array) -> None:
        """Writes the gradient of the rows that were kept."""
        if self.count not in self._products:
            self._products[self.count] = self._layer.gradient_product(self.count)
        x, dy = self.rows()
        self._products[self.count].backward(x, self._layer.params[0].data, dy, None, gradient, None)


class DeferredGradient(KeptRows):
    """The gradient of one layer's weights, from the rows of all micro-batches.

    ``observed``: it is to be complete after each backward step.
    """

    _done, observed = 0, False

    def begin(self, observed: bool) -> None:
        """Starts an iteration."""
        self.count = self._done = 0
        self.observed = observed

    def keep(self, x: Array, dy: Array, add: bool) -> None:
        super().keep(x, dy, add)
        if self.observed:
            self.compute()

    def compute(self) -> None:
        """Writes the gradient of the rows that were kept."""
        if self._done != self.count:
            self._done = self.count
            self.multiply(self._layer.params[0].diff)


class DeferredGradients:
    """Those of a net's layers. ``parameters``: the indices of the weights.

    nodes: of the net with the parameters, as ``deferred_nodes`` returns them. ``begin`` precedes the passes of an
    iteration, ``compute`` follows the last backward pass.
    """

    def __init__(self, nodes: Sequence[Node], dev: Device, micro_batches: int):
        self._by_index = {node.index: DeferredGradient(node, dev, micro_batches) for node in nodes}
        self.parameters = frozenset(node.params[0].owner for node in nodes)

    def attach(self, graph: Graph) -> None:
        """Lets the layers of a bound graph keep their rows here: of the net, or of a replica."""
        for index, gradient in self._by_index.items():
            inner_product(graph.nodes[index]).deferred = gradient

    def begin(self, observed: bool = False) -> None:
        """observed: the gradients are to be complete after each step of each backward pass."""
        for gradient in self._by_index.values():
            gradient.begin(observed)

    def compute(self) -> None:
        """Computes the gradients, the last layer's first."""
        for index in sorted(self._by_index, reverse=True):
            self._by_index[index].compute()
