"""Poolings whose size Caffe rounds up where PyTorch rounds down: the one thing in which a net that was written down
again often differs."""

from collections.abc import Callable, Mapping
from copy import deepcopy

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError
from ..net.nodes import Graph
from .conversion import Converted, Tensors, convert

FLOOR = "pooling_param { round_mode: FLOOR }"
Build = Callable[[pb.NetParameter], Graph]


def convert_explained(
    net: pb.NetParameter, build: Build, tensors: Tensors, chosen: Mapping[str, str]
) -> tuple[Graph, Converted, list[str]]:
    """The graph of a net, its blobs as ``convert`` gives them, and the names of poolings that round up to another size.

    build: makes a graph. Errors: those of ``convert``; where the weights fit once poolings round down, the remedy says
    so.
    """
    graph = build(net)
    other, poolings = _rounded_down(net, graph, build)
    try:
        return graph, convert(graph, tensors, chosen), poolings
    except CaffeliteError as mistake:
        if not other or not poolings:
            raise
        try:
            convert(other, tensors, chosen)
        except CaffeliteError:
            raise mistake from None
        named = ", ".join(f'"{name}"' for name in poolings)
        remedy = f"the weights fit if pooling {named} rounds down, as PyTorch's does: {FLOOR}"
        raise mistake.replaced(remedy=remedy) from None


def _rounded_down(net: pb.NetParameter, graph: Graph, build: Build) -> tuple[Graph | None, list[str]]:
    """The net whose poolings all round down, None where a layer becomes too small; and those that become smaller."""
    changed = deepcopy(net)
    for layer in changed.layer:
        if layer.type == "Pooling":
            layer.pooling_param.round_mode = pb.PoolingParameter.FLOOR
    try:
        other = build(changed)
    except CaffeliteError:
        return None, []
    shapes = {node.name: [top.shape for top in node.tops] for node in other.nodes}
    poolings = [node for node in graph.nodes if node.layer.spec.type == "Pooling"]
    return other, [node.name for node in poolings if shapes[node.name] != [top.shape for top in node.tops]]
