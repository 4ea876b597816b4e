"""Buckets of gradients for the all-reduce, in the order in which the backward pass completes them."""

import math
from collections.abc import Collection, Sequence

from ..net.graph import Node
from ..net.net import Net
from ..parallel import Bucket, Piece, cut


def steps(net: Net) -> dict[Node, int]:
    """The place of each layer in the backward pass."""
    return {step.node: i for i, step in enumerate(net.compiled.backward)}


def pieces(net: Net, over_stage: Sequence[bool] | None = None, deferred: Collection[int] = ()) -> list[Piece]:
    """The part of the flat buffer of every parameter, with the step that completes its gradient, the last that uses
    it. over_stage: for each parameter, see ``Piece``. deferred: the parameters with gradients that are computed after
    all steps."""
    complete: dict[int, int] = {}
    for i, step in enumerate(net.compiled.backward):
        for node in (step.node, *step.fused):
            complete.update({ref.owner: i for ref in node.params if ref.wanted})
    complete.update(dict.fromkeys(deferred, len(net.compiled.backward)))
    params = net.params
    counts = [math.prod(parameter.blob.shape) for parameter in params.parameters]
    over_stage = over_stage or [False] * len(counts)
    return [
        Piece(start, start + n, complete.get(i), over_stage[i])
        for i, (start, n) in enumerate(zip(params.starts, counts, strict=True))
    ]


def buckets(
    net: Net, overlap: bool = True, over_stage: Sequence[bool] | None = None, deferred: Collection[int] = ()
) -> list[Bucket]:
    """About reduce_buckets buckets, each summed as soon as it is complete; one bucket, summed after the backward pass,
    without ``overlap``. over_stage, deferred: see ``pieces``."""
    return cut(pieces(net, over_stage, deferred), net.graph.message.reduce_buckets if overlap else 1)
