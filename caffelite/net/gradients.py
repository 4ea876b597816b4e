"""Decides which layers run backward and which blobs get gradients: below a loss and above a learnable parameter, as in
Caffe."""

from collections.abc import Mapping

from .. import caffelite_pb2 as pb
from ..errors import Collector
from ..layers.base.facets import Learned
from ..layers.data import Parameter as ParameterLayer
from .nodes import Graph, Node, Value

Refused = Mapping[Node, list[int]]  # bottoms of a node that would need a gradient which the layer cannot compute


def mark(graph: Graph, mistakes: Collector, all_gradients: bool = False) -> None:
    """Sets ``backward`` and ``gradient_to`` of all nodes and ``gradient`` of all values. In TEST nothing runs backward
    unless the net says force_backward. Losses and layers that would need a gradient which they cannot compute go into
    ``mistakes``. all_gradients: for programs, which read and set them: in TEST too what is below a loss runs backward,
    unless that would be a mistake, and under force_backward what is below any output."""
    if graph.phase == pb.TEST and not graph.message.force_backward:
        refused = Collector()
        if all_gradients:
            _mark(graph, refused, all_gradients)
        if not all_gradients or refused.mistakes:
            _unmark(graph)
        return
    _mark(graph, mistakes, all_gradients)


def _unmark(graph: Graph) -> None:
    """Sets that nothing runs backward."""
    for node in graph.nodes:
        node.backward, node.gradient_to = False, [False] * len(node.bottoms)
        for top in node.tops:
            top.gradient = False


def _mark(graph: Graph, mistakes: Collector, all_gradients: bool) -> None:
    _stop_parameters_taken_over(graph)
    refused = _mark_above_parameters(graph)
    learned = {top for node in graph.nodes for top in node.tops if top.gradient}
    starts = _starting_outputs(graph, all_gradients)
    _keep_below_losses(graph, starts, refused, mistakes)
    _mark_values(graph, starts, learned)


def _stop_parameters_taken_over(graph: Graph) -> None:
    """A Parameter layer does not learn if its only reader takes its gradient over, as in Caffe."""
    for node in graph.nodes:
        if not isinstance(node.layer, ParameterLayer):
            continue
        readers = [reader for reader, _ in node.tops[0].readers]
        if [Learned.of(reader.layer.spec.type).takes_over for reader in readers] == [True]:
            node.params[0].wanted = False
            graph.notes.append(
                f'layer "{node.name}" learns nothing, as in Caffe: its only reader, "{readers[0].name}", takes its '
                "gradient over"
            )


def _mark_above_parameters(graph: Graph) -> Refused:
    """Marks the nodes that learn, and those above them; returns the constant bottoms that would need a gradient."""
    refused: dict[Node, list[int]] = {}
    for node in graph.nodes:
        layer, wanted = node.layer, _wanted(node, graph.message.force_backward)
        for i in layer.constant_bottoms & set(range(len(wanted))):
            if wanted[i]:
                refused.setdefault(node, []).append(i)
            wanted[i] = False
        node.gradient_to = wanted
        node.backward = layer.differentiable and (any(p.wanted for p in node.params) or any(wanted))
        for top in node.tops:
            top.gradient = node.backward
    return refused


def _wanted(node: Node, force: bool) -> list[bool]:
    """Whether each bottom of a node needs a gradient; ``force``: all that can have one."""
    layer, down = node.layer, node.layer.spec.propagate_down
    wanted = [bool(down[i]) if down else b.gradient for i, b in enumerate(node.bottoms)]
    if force and layer.differentiable:
        wanted = [i not in layer.constant_bottoms for i in range(len(wanted))]
    return [w and b.top not in b.node.layer.constant_tops for w, b in zip(wanted, node.bottoms, strict=True)]


def _starting_outputs(graph: Graph, all_gradients: bool) -> set[Value]:
    """The outputs that backward starts from under force_backward: where the net has no loss or ``all_gradients``."""
    has_loss = any(any(node.loss_weights) for node in graph.nodes)
    if not graph.message.force_backward or has_loss and not all_gradients:
        return set()
    return {top for node in graph.nodes for top in node.tops if node.backward and not top.readers}


def _keep_below_losses(graph: Graph, starts: set[Value], refused: Refused, mistakes: Collector) -> None:
    """Unmarks the gradients of nodes without a loss above them."""
    below = set(starts)
    for node in reversed(graph.nodes):
        contributes = any(node.loss_weights) or any(top in below for top in node.tops)
        if contributes:
            _check(node, refused.get(node, []), mistakes)
        node.gradient_to = [w and node.backward and contributes for w in node.gradient_to]
        below.update(b for b, w in zip(node.bottoms, node.gradient_to, strict=True) if w)


def _check(node: Node, refused: list[int], mistakes: Collector) -> None:
    """Collects the mistakes of a node below a loss that would need a gradient which its layer cannot compute."""
    layer, bottoms = node.layer, node.bottoms
    if not layer.differentiable and any(node.loss_weights) and any(b.gradient for b in bottoms):
        what = "has a loss_weight, but no gradient"
        mistakes.add(layer.error(what, "loss_weight", 0, remedy="drop loss_weight", outer=True))
    for i in sorted(refused):
        what = f'can give its bottom "{bottoms[i].name}" no gradient'
        value = "false" if len(bottoms) == 1 else f"false for bottom {i}, one value a bottom"
        mistakes.add(layer.error(what, "propagate_down", i, remedy=f"propagate_down: {value}", outer=True))


def _mark_values(graph: Graph, starts: set[Value], learned: set[Value]) -> None:
    """Marks the values that get a gradient, and unmarks the nodes without a top that has one."""
    for node in reversed(graph.nodes):
        for top, weight in zip(node.tops, node.loss_weights, strict=True):
            loss = weight != 0 and top.top not in node.layer.constant_tops
            top.gradient = (node.backward and (loss or top in starts)) or any(r.gradient_to[i] for r, i in top.readers)
        if not any(top.gradient for top in node.tops):
            node.backward, node.gradient_to = False, [False] * len(node.bottoms)
        read = any(reader.backward for top in node.tops for reader, _ in top.readers)
        stops = not node.layer.differentiable and not Learned.of(node.layer.spec.type).only_shapes
        if read and stops and learned & set(node.bottoms):
            graph.notes.append(
                f'layer "{node.name}" ({node.layer.spec.type}) passes no gradient on: nothing is learned through it'
            )
