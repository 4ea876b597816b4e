"""Finds chains of layers that run as one step, by rules: a layer followed by a Scale, a sum and a ReLU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ..layers import LayerConfig
from ..layers.activation import PReLU, ReLU
from ..layers.fusing import fusing
from .nodes import Graph, Node, Value, configured


def configure(node: Node, **decisions: Any) -> None:
    """Records decisions about a node's layer, in a copy of the layer."""
    config: LayerConfig = replace(node.layer.config, **decisions)
    node.layer = configured(node.layer, config)


Rule = Callable[[Node, Node, Node], float | None]
RULES: dict[str, Rule] = {}  # in the order in which the layers follow each other


def rule(name: str) -> Callable[[Rule], Rule]:
    """Registers (node, last, follower) → a number for the node's ``config.fused``, or None: whether a layer can do the
    work of a follower, which alone reads the top of ``last``: the node, or what runs as part of it already."""

    def add(fits: Rule) -> Rule:
        RULES[name] = fits
        return fits

    return add


@dataclass
class Fusions:
    """``chains``: by node, the nodes that run as part of its forward step; ``backward_in``: by node, the node with the
    backward step that includes its own; ``summands``: by node with a fused sum, the sum's other bottom."""

    chains: dict[Node, tuple[Node, ...]] = field(default_factory=dict)
    backward_in: dict[Node, Node] = field(default_factory=dict)
    summands: dict[Node, Value] = field(default_factory=dict)

    def runner(self, node: Node) -> Node:
        """Returns the node that runs the backward step of ``node``."""
        return self.backward_in.get(node, node)

    def last(self, node: Node) -> Node:
        """The last node of a node's forward step."""
        return self.chains[node][-1] if node in self.chains else node

    def fused(self) -> set[Node]:
        """The nodes that have no forward step of their own."""
        return {member for chain in self.chains.values() for member in chain}


def fuse(graph: Graph, prepares: bool = False) -> Fusions:
    """The fusions of a graph; records them in the layers' configs. prepares: convolutions have constant weights."""
    fusions, folded = Fusions(), set[Node]()
    for node in graph.nodes:
        if prepares and fusing(node.layer).can_prepare():
            folded.update(chain := _folded(node))
            if chain:
                fusions.chains[node] = tuple(chain)
        elif node not in fusions.backward_in and node not in folded and (chain := _chain(node, fusions)):
            fusions.chains[node] = tuple(chain)
            if "scale" in node.layer.config.fused or fusing(node.layer).can_fuse_relu_backward():
                fusions.backward_in |= dict.fromkeys(chain, node)
    return fusions


def _chain(node: Node, fusions: Fusions) -> list[Node]:
    """The nodes behind a node that run as part of it, each by a rule."""
    chain: list[Node] = []
    for name, fits in RULES.items():
        last = chain[-1] if chain else node
        follower = _only_reader(last)
        value = fits(node, last, follower) if follower else None
        if follower and value is not None:
            configure(node, fused=MappingProxyType({**node.layer.config.fused, name: value}))
            chain.append(follower)
            if len(follower.bottoms) > 1:
                fusions.summands[node] = _other(follower, last)
    return chain


def _folded(node: Node) -> list[Node]:
    """The nodes behind a convolution with constant weights that run as part of it."""
    configure(node, prepared=True)
    chain: list[Node] = []
    while (reader := _only_reader(chain[-1] if chain else node)) and fusing(node.layer).can_fold(reader.layer):
        chain.append(reader)
        if isinstance(reader.layer, PReLU):
            return chain
    if reader and (slope := RULES["relu"](node, node, reader)) is not None:
        configure(node, fused=MappingProxyType({"relu": slope}))
        chain.append(reader)
    return chain


@rule("scale")
def _scale(node: Node, last: Node, scale: Node) -> float | None:
    return 1 if fusing(node.layer).can_fuse(scale.layer) and scale.gradient_to[0] == scale.backward else None


@rule("sum")
def _sum(node: Node, last: Node, total: Node) -> float | None:
    """A sum with another blob that is computed before."""
    if not fusing(node.layer).can_fuse_sum(total.layer):
        return None
    gradients = all(total.gradient_to) if total.backward else not node.backward
    return 1 if gradients and _other(total, last).node.index <= node.index else None


@rule("relu")
def _relu(node: Node, last: Node, relu: Node) -> float | None:
    """A ReLU that computes its gradient from its top and may overwrite the top's gradient: its slope."""
    layer = relu.layer
    plain = isinstance(layer, ReLU) and not layer.backward_reads_bottom(0) and not any(relu.loss_weights)
    able = fusing(node.layer).can_fuse_relu() and (last is not node or not node.layer.backward_reads_top(0))
    return layer.p.negative_slope if plain and able else None


def _other(total: Node, last: Node) -> Value:
    """The bottom of a sum that ``last`` does not compute."""
    return total.bottoms[total.bottoms[0] is last.tops[0]]


def _only_reader(node: Node) -> Node | None:
    """The node that alone reads a node's only top."""
    if len(node.tops) != 1 or len(node.tops[0].readers) != 1 or any(node.loss_weights):
        return None
    return node.tops[0].readers[0][0]
