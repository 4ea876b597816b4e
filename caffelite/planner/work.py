"""The arithmetic and the memory traffic of a layer, from its shapes."""

from __future__ import annotations

import math
from typing import NamedTuple

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
    weights = 4 * sum(math.prod(p.shape) for part in (node, *step.fused) for p in part.layer.param_blobs)
    forward, backward = sum(map(_bytes, (*node.bottoms, *step.tops))), 0
    if node.backward:
        backward += sum(_bytes(top) for top in step.tops if top.gradient)
        backward += sum(_bytes(bottom) for bottom, wanted in zip(node.bottoms, node.gradient_to, strict=True) if wanted)
        backward += sum(_bytes(bottom) for i, bottom in enumerate(node.bottoms) if layer.backward_reads_bottom(i))
        backward += sum(_bytes(top) for i, top in enumerate(step.tops) if layer.backward_reads_top(i))
    return Traffic(weights, forward, 2 * weights if node.backward else 0, backward)


def traffic(step: Step) -> int:
    """The bytes that a step reads and writes forward and backward, each array once a pass."""
    return sum(traffic_of(step))


def _bytes(value: Value) -> int:
    return (2 if value.dtype else 4) * math.prod(value.shape)
