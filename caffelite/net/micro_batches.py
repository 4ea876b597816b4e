"""Whether a batch can be divided into micro-batches, which run one after the other, with the same result."""

from ..layers.base.division import SharesSamples
from .nodes import Graph, Node


def settles(node: Node) -> bool:
    """Whether a layer counts in the batch, so that the forward passes of all micro-batches come before a backward
    pass."""
    return node.backward and isinstance(node.layer, SharesSamples) and node.layer.settles()


def settling(graph: Graph) -> dict[Node, SharesSamples]:
    """The layers that settle, of a net that computes micro-batches of a batch."""
    settling: dict[Node, SharesSamples] = {}
    for node in graph.nodes:
        layer = node.layer
        if isinstance(layer, SharesSamples) and layer.shares and layer.shares.micro_batches > 1 and settles(node):
            settling[node] = layer
    return settling


def check_micro_batches(graph: Graph, count: int) -> None:
    """Raises an error where a batch cannot be divided into ``count`` micro-batches with the same result."""
    if count == 1:
        return
    for node in graph.nodes:
        if not node.layer.couples_samples:
            continue
        what = f"its samples depend on each other, so that {count} micro-batches are not the batch"
        if isinstance(node.layer, SharesSamples) and node.layer.can_share():
            if not (settles(node) and node.tops[0].readers):
                continue
            reader = node.tops[0].readers[0][0].name
            what = f'its divisor is counted in {count} micro-batches, but layer "{reader}" reads the loss of each'
        remedy = "leave micro_batches at 1; iter_size also fills a pipeline"
        raise node.layer.error(what, remedy=remedy, outer=True)
