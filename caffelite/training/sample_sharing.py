"""A batch that several passes share: what a layer whose samples depend on each other does about it."""

import logging

from ..errors import Collector
from ..layers.base.division import SampleShares, SharesSamples
from ..layers.base.layer import Layer
from ..layers.python import Python
from ..net.graph import Graph
from ..net.nodes import Node

log = logging.getLogger("caffelite")
PACKAGE = "caffelite."


def share_batch(graph: Graph, shares: SampleShares) -> None:
    """Lets processes that divide the batch of a TRAIN net compute what one process would: losses that depend on the
    whole batch, by their divisor, get it. Layers that compute no gradient, and batch normalization, which takes each
    process's own batch, stay as they are. Errors: other layers whose samples depend on each other; a warning for layers
    of the user's, which may not know."""
    mistakes = Collector()
    for node in graph.nodes:
        layer = node.layer
        if not (layer.couples_samples and node.backward) or _normalizes(node):
            continue
        if isinstance(layer, SharesSamples) and layer.can_share():
            layer.share(shares)
            continue
        what = f"its samples depend on each other: {shares.count} passes that divide a batch do not train like one"
        error = layer.error(what, remedy="use -scaling weak", outer=True)
        if _of_user(layer):
            log.warning("%s", error.replaced(remedy="if they do not, set couples_samples = False in its class"))
        else:
            mistakes.add(error)
    mistakes.raise_any()


def _normalizes(node: Node) -> bool:
    """Whether a layer normalizes by the batch, and keeps statistics for tests."""
    return any(param.statistic for param in node.layer.param_blobs)


def _of_user(layer: Layer) -> bool:
    """Whether a layer computes what a class outside of this package says."""
    return isinstance(layer, Python) or not type(layer).__module__.startswith(PACKAGE)
