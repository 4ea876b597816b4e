"""Finds chains of layers that run as one step: a layer followed by a Scale, a sum and a ReLU."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ..layers import Layer, LayerConfig
from ..layers.activation import PReLU, ReLU
from ..layers.fusing import fusing
from .nodes import Graph, Node, Value, configured


def configure(node: Node, **decisions: Any) -> None:
    """Records decisions about a node's layer, in a copy of the layer."""
    config: LayerConfig = replace(node.layer.config, **decisions)
    node.layer = configured(node.layer, config)


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
            if node.layer.config.fused_scale or fusing(node.layer).can_fuse_relu_backward():
                fusions.backward_in |= dict.fromkeys(chain, node)
    return fusions


def _chain(node: Node, fusions: Fusions) -> list[Node]:
    """The nodes behind a node that run as part of it."""
    chain: list[Node] = []
    scale = _only_reader(node)
    if scale and fusing(node.layer).can_fuse(scale.layer) and scale.gradient_to[0] == scale.backward:
        configure(node, fused_scale=True)
        chain.append(scale)
    if fused_sum := _sum(node, chain):
        total, fusions.summands[node] = fused_sum
        configure(node, fused_sum=True)
        chain.append(total)
    relu = _only_reader(chain[-1] if chain else node)
    able = fusing(node.layer).can_fuse_relu() and (chain or not node.layer.backward_reads_top(0))
    if relu and able and _is_plain_relu(relu):
        configure(node, relu_slope=relu.layer.p.negative_slope)
        chain.append(relu)
    return chain


def _folded(node: Node) -> list[Node]:
    """The nodes behind a convolution with constant weights that run as part of it."""
    configure(node, prepared=True)
    chain: list[Node] = []
    while (reader := _only_reader(chain[-1] if chain else node)) and fusing(node.layer).can_fold(reader.layer):
        chain.append(reader)
        if isinstance(reader.layer, PReLU):
            return chain
    if reader and fusing(node.layer).can_fuse_relu() and _is_plain_relu(reader):
        configure(node, relu_slope=reader.layer.p.negative_slope)
        chain.append(reader)
    return chain


def _sum(node: Node, chain: list[Node]) -> tuple[Node, Value] | None:
    """The node that adds another blob, computed before, to a chain's result, if ``node`` can fuse it; with the
    other blob."""
    last = chain[-1] if chain else node
    total = _only_reader(last)
    if not total or not fusing(node.layer).can_fuse_sum(total.layer):
        return None
    other = total.bottoms[total.bottoms[0] is last.tops[0]]
    gradients = all(total.gradient_to) if total.backward else not node.backward
    return (total, other) if gradients and other.node.index <= node.index else None


def _only_reader(node: Node) -> Node | None:
    """The node that alone reads a node's only top."""
    if len(node.tops) != 1 or len(node.tops[0].readers) != 1 or any(node.loss_weights):
        return None
    return node.tops[0].readers[0][0]


def _is_plain_relu(node: Node) -> bool:
    """Whether a node is a ReLU that computes its gradient from its top and may overwrite the top's gradient."""
    layer: Layer = node.layer
    return isinstance(layer, ReLU) and not layer.backward_reads_bottom(0) and not any(node.loss_weights)
