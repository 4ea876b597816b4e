"""When backward completes which gradients of a net, so that processes can sum them while it runs."""

from __future__ import annotations

import math

from ..net.graph import Node
from ..net.net import Net
from ..parallel import Bucket, Piece, cut


def steps(net: Net) -> dict[Node, int]:
    """The layers of the backward pass in its order."""
    return {step.node: i for i, step in enumerate(net.compiled.backward)}


def pieces(net: Net) -> list[Piece]:
    """Every parameter of the flat buffer with the step that completes its gradient: the last one that uses it."""
    complete: dict[int, int] = {}
    for node, step in steps(net).items():
        complete.update({ref.owner: step for ref in node.params if ref.wanted})
    params = net.params
    counts = [math.prod(parameter.blob.shape) for parameter in params.parameters]
    return [
        Piece(start, start + n, complete.get(i)) for i, (start, n) in enumerate(zip(params.starts, counts, strict=True))
    ]


def buckets(net: Net, overlap: bool = True) -> list[Bucket]:
    """Buckets to sum one by one, about reduce_buckets of the net; one that is complete at the end where ``overlap`` is
    not wanted."""
    return cut(pieces(net), net.graph.message.reduce_buckets if overlap else 1)
