"""The arithmetic and the memory traffic of each layer, and its time on one device: modelled from rates, or measured."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ..net.compile import CompiledNet
from ..net.graph import Graph
from ..net.nodes import Node, Value
from ..net.steps import Step


def multiply_adds(node: Node) -> int:
    """Products with learned weights in one forward pass."""
    return node.layer.multiply_adds([bottom.shape for bottom in node.bottoms], [top.shape for top in node.tops])


def backward_products(node: Node) -> int:
    """How often backward computes as many products as forward: for the weights' gradient and for the bottoms'."""
    return any(p.wanted for p in node.params) + any(node.gradient_to) if node.backward else 0


def work(node: Node) -> int:
    """Multiply-adds of a pass forward and backward."""
    return multiply_adds(node) * (1 + backward_products(node))


class Traffic(NamedTuple):
    """Bytes that a step reads and writes, each array once a pass: its weights, and the rest, which is proportional to
    the batch; forward and backward."""

    forward_weights: int
    forward_blobs: int
    backward_weights: int
    backward_blobs: int


def traffic_of(step: Step) -> Traffic:
    """The traffic of a step forward and backward."""
    node, layer = step.node, step.node.layer
    if layer.view:
        return Traffic(0, 0, 0, 0)
    weights = 4 * sum(math.prod(p.shape) for member in (node, *step.fused) for p in member.layer.param_blobs)
    forward, backward = sum(map(_bytes, (*node.bottoms, *step.tops))), 0
    if node.backward:
        backward += sum(_bytes(top) for top in step.tops if top.gradient)
        backward += sum(_bytes(bottom) for bottom, wanted in zip(node.bottoms, node.gradient_to, strict=True) if wanted)
        backward += sum(_bytes(bottom) for i, bottom in enumerate(node.bottoms) if node.reads_bottom(i))
        backward += sum(_bytes(top) for i, top in enumerate(step.tops) if node.reads_top(i))
    return Traffic(weights, forward, 2 * weights if node.backward else 0, backward)


def traffic(step: Step) -> int:
    """The bytes that a step reads and writes forward and backward, each array once a pass."""
    return sum(traffic_of(step))


def _bytes(value: Value) -> int:
    return (2 if value.dtype else 4) * math.prod(value.shape)


@dataclass(frozen=True)
class Rates:
    """What a device reaches: ``operations`` a second in large products (a multiply-add is two), ``bytes`` a second of
    its memory, ``step``: seconds of the shortest step."""

    operations: float
    bytes: float
    step: float


# H100: 70 % of its data sheet's 495 TFLOP/s in TF32, 3.35 TB/s; a step: a node of a CUDA graph, an estimate. CPU: of a
# process, as the ratio between layers needs it.
RATES = {"h100": Rates(0.7 * 495e12, 0.7 * 3.35e12, 1.5e-6), "cpu": Rates(60e9, 12e9, 5e-6)}


@dataclass(frozen=True)
class Times:
    """Seconds of each layer, by its index, for one micro-batch. gradients: of weight gradients that are computed apart
    from the backward pass (net/deferred.py)."""

    forward: np.ndarray
    backward: np.ndarray
    gradients: np.ndarray


@dataclass(frozen=True)
class Deferred:
    """``layers``: which of them compute their weight gradients once, for ``share`` of the batch."""

    layers: np.ndarray
    share: float


class Costs(Protocol):
    """The times of a net's layers."""

    def times(self, share: float, divided: np.ndarray, deferred: Deferred | None = None) -> Times:
        """share: of the batch that a micro-batch has. divided: over how many devices each layer is divided. deferred:
        None: each backward pass computes all gradients."""

    def update(self, parameters: float) -> float:
        """Seconds to update ``parameters`` numbers."""


def owners(graph: Graph, compiled: CompiledNet) -> dict[Node, int]:
    """The index of the layer that each node of the compiled net belongs to: a copy belongs to the next layer."""
    own = {node: old.index for old, node in compiled.nodes.items()}
    owner, last = {}, len(graph.nodes) - 1
    for node in reversed(compiled.graph.nodes):
        last = own.get(node, last)
        owner[node] = last
    return owner


class Modelled:
    """Each step takes as long as its products at the peak rate, or its bytes at the memory's rate: what takes longer,
    and at least ``rates.step``."""

    def __init__(self, graph: Graph, compiled: CompiledNet, rates: Rates):
        self.rates, self._layers, of = rates, len(graph.nodes), owners(graph, compiled)
        steps = [(of[step.node], step.node, traffic_of(step)) for step in compiled.forward]
        steps = [(i, node, traffic) for i, node, traffic in steps if sum(traffic)]
        self._index = np.array([i for i, _, _ in steps], int)
        self._operations = np.array([2.0 * multiply_adds(node) for _, node, _ in steps])
        self._back = np.array([float(backward_products(node)) for _, node, _ in steps])
        self._passes_on = np.array([float(node.backward and any(node.gradient_to)) for _, node, _ in steps])
        self._bytes = np.array([traffic for _, _, traffic in steps], float).reshape(len(steps), len(Traffic._fields))

    def times(self, share: float, divided: np.ndarray, deferred: Deferred | None = None) -> Times:
        layers = np.zeros(self._layers, bool) if deferred is None else deferred.layers
        apart = layers[self._index]
        once = apart * 1.0  # a backward pass moves the weights twice: it reads them and writes their gradient
        forward = np.ones_like(once), np.ones_like(once), share, 0
        backward = np.where(apart, self._passes_on, self._back), np.where(apart, self._passes_on, 2.0) / 2, share, 2
        gradients = once, once / 2, 0.0 if deferred is None else deferred.share, 2
        return Times(*(self._seconds(divided[self._index], *each) for each in (forward, backward, gradients)))

    def _seconds(
        self, divisors: np.ndarray, products: np.ndarray, weights: np.ndarray, share: float, at: int
    ) -> np.ndarray:
        """Seconds of each layer in one kind of pass. products: how often it computes as many as forward; weights: how
        often it moves the bytes of the traffic's field ``at``; the field behind are those of blobs."""
        operations = self._operations * products * share / divisors
        moved = (self._bytes[:, at] * weights + self._bytes[:, at + 1] * share * (weights > 0)) / divisors
        seconds = np.maximum(operations / self.rates.operations, moved / self.rates.bytes)
        totals = np.zeros(self._layers)
        np.add.at(totals, self._index, np.where(moved > 0, np.maximum(seconds, self.rates.step), 0.0))
        return totals

    def update(self, parameters: float) -> float:
        return 5 * 4 * parameters / self.rates.bytes  # reads weight, gradient and history; writes weight and history


@dataclass(frozen=True)
class Measured:
    """Seconds of each layer, as measured with a small and with a large share of the batch; in between, linear.

    ``shares``: both, the smaller first; ``small``, ``large``: the times; ``update_rate``: parameters a second.
    """

    shares: tuple[float, float]
    small: Times
    large: Times
    update_rate: float

    def times(self, share: float, divided: np.ndarray, deferred: Deferred | None = None) -> Times:
        low, high = self.shares
        small, large = self.small, self.large

        def between(small: np.ndarray, large: np.ndarray, share: float) -> np.ndarray:
            weight = (share - low) / (high - low) if high > low else 0.0
            return (
                np.maximum(small + weight * (large - small), np.minimum(small, large) * min(1.0, share / low)) / divided
            )

        backward = between(small.backward, large.backward, share)
        layers = np.zeros(len(backward), bool) if deferred is None else deferred.layers
        backward += np.where(layers, 0.0, between(small.gradients, large.gradients, share))
        total = between(small.gradients, large.gradients, deferred.share if deferred else share)
        return Times(between(small.forward, large.forward, share), backward, np.where(layers, total, 0.0))

    def update(self, parameters: float) -> float:
        return parameters / self.update_rate


def by_layer(graph: Graph, compiled: CompiledNet, seconds: Mapping[str, float]) -> np.ndarray:
    """Seconds by the name of a node of the compiled net, as an array over the layers."""
    sums, of = np.zeros(len(graph.nodes)), owners(graph, compiled)
    for node in compiled.graph.nodes:
        sums[of[node]] += seconds.get(node.name, 0.0)
    return sums
