"""Layers that run as one step, by rules: a rule replaces a layer, where another alone reads its top, by one that does
the work of both."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..layers import Layer
from ..layers.activation import PReLU, ReLU
from ..layers.base.fusing import Fusing
from ..layers.base.state import Varying
from ..layers.batch_norm import BatchNorm
from ..layers.convolution import Convolution, PreparedConvolution
from ..layers.eltwise import Eltwise
from ..layers.pooling import Pooling
from ..layers.scale_bias import Scale
from .nodes import Graph, Node, Value, changed


@dataclass(frozen=True)
class Neighbors:
    """``reader`` alone reads the top of ``last``: of ``node``, or of the last one that runs as part of it already."""

    node: Node
    last: Node
    reader: Node
    fixed: bool  # no blob changes its shape while the net runs

    @property
    def other_bottom(self) -> Value:
        """The bottom of a sum that ``last`` does not compute."""
        return self.reader.bottoms[self.reader.bottoms[0] is self.last.tops[0]]


Types = type[Layer] | tuple[type[Layer], ...]
Replacement = Callable[[Any, Any, Neighbors], Layer | None]
RULES: list[tuple[Types, Types, Replacement]] = []


def rule(first: Types, second: Types) -> Callable[[Replacement], Replacement]:
    """Registers what replaces a layer of type ``first`` so that it also does the work of one of type ``second``, or
    None where a condition does not hold."""

    def add(replacement: Replacement) -> Replacement:
        RULES.append((first, second, replacement))
        return replacement

    return add


@rule(PreparedConvolution, (BatchNorm, Scale, PReLU))
def _fold(convolution: PreparedConvolution, layer: BatchNorm | Scale | PReLU, at: Neighbors) -> Layer | None:
    return changed(convolution, folded=(*convolution.folded, layer)) if convolution.can_fold(layer) else None


@rule(BatchNorm, Scale)
def _scale(norm: BatchNorm, scale: Scale, at: Neighbors) -> Layer | None:
    fits = not norm.scales and scale.split == norm.split and len(scale.spec.bottom) == 1
    return changed(norm, with_scale=True) if fits and at.reader.gradient_to[0] == at.reader.backward else None


@rule(BatchNorm, Eltwise)
def _sum(norm: BatchNorm, total: Eltwise, at: Neighbors) -> Layer | None:
    """A sum with another blob that is computed before."""
    config, plain = norm.config, len(total.spec.bottom) == 2 and all(map(total.passes_gradient, (0, 1)))
    free = norm.can_fuse_sum and norm.scales and not norm.with_sum
    fits = free and config.traits.sums_gradients and total.config.format == config.format
    gradients = all(at.reader.gradient_to) if at.reader.backward else not at.node.backward
    before = plain and at.other_bottom.node.index <= at.node.index
    return changed(norm, with_sum=True) if fits and gradients and before else None


@rule(Fusing, ReLU)
def _relu(layer: Fusing, relu: Layer, at: Neighbors) -> Layer | None:
    """A ReLU that computes its gradient from its top and may overwrite the top's gradient."""
    plain = not relu.backward_reads_bottoms and not any(at.reader.loss_weights)
    return changed(layer, slope=relu.p.negative_slope) if plain and layer.can_fuse_relu() else None


@rule(Convolution, Pooling)
def _maxima(convolution: Convolution, pooling: Pooling, at: Neighbors) -> Layer | None:
    """The maxima of a convolution in training, whose gradient the pooling computes by itself."""
    fits = at.fixed and at.reader.backward and pooling.tiles_maxima() and convolution.can_fuse_pooling()
    return changed(convolution, pools=True) if fits else None


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


def fuse(
    graph: Graph, prepares: bool = False, stored: frozenset[Value] = frozenset(), fixed_shapes: bool = True
) -> Fusions:
    """The fusions of a graph, whose layers are replaced. prepares: convolutions have constant weights. stored: values
    that nothing may be fused behind, as they are read after the pass."""
    fixed = fixed_shapes and not any(isinstance(node.layer, Varying) for node in graph.nodes)
    fusions, fused = Fusions(), set[Node]()
    for node in graph.nodes:
        layer = node.layer
        if prepares and isinstance(layer, Convolution) and PreparedConvolution.fits(layer):
            node.layer = PreparedConvolution.of(layer)
        if node not in fused and (chain := _chain(node, fusions, stored, fixed)):
            fused.update(chain)
            fusions.chains[node] = tuple(chain)
            if isinstance(node.layer, Fusing) and node.layer.fuses_backward():
                fusions.backward_in |= dict.fromkeys(chain, node)
    return fusions


def _chain(node: Node, fusions: Fusions, stored: frozenset[Value], fixed: bool) -> list[Node]:
    """The nodes behind a node that run as part of it. An activation or a pooling is the last one."""
    chain: list[Node] = []
    while not (chain and isinstance(chain[-1].layer, ReLU | PReLU | Pooling)):
        last = chain[-1] if chain else node
        reader = _only_reader(last) if stored.isdisjoint(last.tops) else None
        layer = _replacement(at := Neighbors(node, last, reader, fixed)) if reader else None
        if not (reader and layer):
            break
        node.layer = layer
        chain.append(reader)
        if len(reader.bottoms) > 1:
            fusions.summands[node] = at.other_bottom
    return chain


def _replacement(at: Neighbors) -> Layer | None:
    """What the first rule that fits replaces a node's layer by."""
    for first, second, replacement in RULES:
        if isinstance(at.node.layer, first) and isinstance(at.reader.layer, second):
            if layer := replacement(at.node.layer, at.reader.layer, at):
                return layer
    return None


def _only_reader(node: Node) -> Node | None:
    """The node that alone reads a node's only top."""
    if len(node.tops) != 1 or len(node.tops[0].readers) != 1 or any(node.loss_weights):
        return None
    return node.tops[0].readers[0][0]
