"""The multiply-adds, bytes and receptive fields of layers."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..net.graph import Graph, Node, Value
from ..net.steps import Step


def multiply_adds(node: Node) -> int:
    """Products with learned weights in one forward pass."""
    return node.layer.multiply_adds([bottom.shape for bottom in node.bottoms], [top.shape for top in node.tops])


def work(node: Node) -> int:
    """Multiply-adds of a pass forward and backward: backward computes as many for the weights' gradient, and for the
    bottoms'."""
    once = multiply_adds(node)
    return once * (1 + (any(p.wanted for p in node.params) + any(node.gradient_to) if node.backward else 0))


def traffic(step: Step) -> int:
    """The bytes that a step reads and writes forward and backward, each array once a pass."""
    node, layer = step.node, step.node.layer
    if layer.view:
        return 0
    weights = 4 * sum(math.prod(p.shape) for part in (node, *step.fused) for p in part.layer.param_blobs)
    total = weights + sum(map(_bytes, (*node.bottoms, *step.tops)))
    if node.backward:
        total += 2 * weights + sum(_bytes(top) for top in step.tops if top.gradient)
        total += sum(_bytes(bottom) for bottom, wanted in zip(node.bottoms, node.gradient_to, strict=True) if wanted)
        total += sum(_bytes(bottom) for i, bottom in enumerate(node.bottoms) if layer.backward_reads_bottom(i))
        total += sum(_bytes(top) for i, top in enumerate(step.tops) if layer.backward_reads_top(i))
    return total


def _bytes(value: Value) -> int:
    return (2 if value.dtype else 4) * math.prod(value.shape)


class Field(NamedTuple):
    """Along one axis: size, the extent of the data that a number depends on; jump, the distance between the fields of
    neighbouring numbers."""

    size: float
    jump: float


EVERYTHING = None  # the full image
Fields = tuple[Field, ...] | None


def receptive_fields(graph: Graph) -> dict[Value, Fields]:
    """For each blob its receptive field in the data along each spatial axis; EVERYTHING; or () where there are no axes.

    As Araujo, Norris and Sim 2019 compute it: a window of reach k widens the field by (k - 1) jumps, a stride
    multiplies the jump.
    """
    found: dict[Value, Fields] = {}
    for node in graph.nodes:
        bottoms = [found[b] for b in node.bottoms]
        for top in node.tops:
            found[top] = _field(node, bottoms, top)
    return found


def _field(node: Node, bottoms: list[Fields], top: Value) -> Fields:
    if not bottoms:
        return tuple(Field(1, 1) for _ in top.shape[2:])
    spatial = [b for b in bottoms if b != ()]
    if not spatial:
        return ()
    if node.layer.loss or node.layer.sums_spatially or EVERYTHING in spatial:
        return EVERYTHING
    axes = min(map(len, spatial))
    merged = tuple(Field(max(s[i].size for s in spatial), max(s[i].jump for s in spatial)) for i in range(axes))
    window = getattr(node.layer, "window", None)
    if window is None or len(window.kernel) != axes:
        return merged
    if node.layer.spec.type == "Deconvolution":  # a number of its top meets every stride-th number of the kernel
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


def batch_of(graph: Graph) -> int:
    """Samples in a batch: the first axis of the first blob that feeds the net."""
    return graph.batch_size
