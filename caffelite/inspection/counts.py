"""The multiply-adds, bytes and receptive fields of layers."""

import math
from typing import NamedTuple

from ..layers.base.facets import Coordinates
from ..layers.convolution import Deconvolution
from ..net.graph import Graph, Node, Value
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


class Field(NamedTuple):
    """Along one axis: size, the extent of the data that a number depends on; jump, the distance between the fields of
    neighboring numbers."""

    size: float
    jump: float


EVERYTHING = None  # the full image
Fields = tuple[Field, ...] | None


def receptive_fields(graph: Graph) -> dict[Value, Fields]:
    """For each blob its receptive field in the data along each spatial axis; EVERYTHING; or () where there are no axes.

    As Araujo, Norris and Sim 2019 compute it: a window of reach k widens the field by (k - 1) jumps, a stride
    multiplies the jump.
    """
    fields: dict[Value, Fields] = {}
    for node in graph.nodes:
        bottoms = [fields[b] for b in node.bottoms]
        for top in node.tops:
            fields[top] = _field(node, bottoms, top)
    return fields


def _field(node: Node, bottoms: list[Fields], top: Value) -> Fields:
    if not bottoms:
        return tuple(Field(1, 1) for _ in top.shape[2:])
    if all(b == () for b in bottoms):
        return ()
    spatial = [b for b in bottoms if b]
    if node.layer.loss or Coordinates.of(node.layer.spec.type).relation == "none" or EVERYTHING in bottoms:
        return EVERYTHING
    axes = min(len(fields) for fields in spatial)
    merged = tuple(Field(max(s[i].size for s in spatial), max(s[i].jump for s in spatial)) for i in range(axes))
    window = getattr(node.layer, "window", None)
    if window is None or len(window.kernel) != axes:
        return merged
    if isinstance(node.layer, Deconvolution):  # a number of its top meets every stride-th number of the kernel
        return tuple(
            Field(f.size + (-(-_reach(k, d) // s) - 1) * f.jump, f.jump / s)
            for f, k, s, d in zip(merged, window.kernel, window.stride, window.dilation, strict=True)
        )
    if getattr(node.layer.p, "global_pooling", False):
        return EVERYTHING
    return tuple(
        Field(f.size + (_reach(k, d) - 1) * f.jump, f.jump * s)
        for f, k, s, d in zip(merged, window.kernel, window.stride, window.dilation, strict=True)
    )


def _reach(kernel: int, dilation: int) -> int:
    return dilation * (kernel - 1) + 1


def shown(fields: Fields) -> str:
    """A receptive field as text: 195, 195×163, "all", or nothing."""
    if fields is EVERYTHING:
        return "all"
    sizes = [f"{f.size:g}" for f in fields]
    return sizes[0] if len(set(sizes)) == 1 else "×".join(sizes)
