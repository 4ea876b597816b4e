"""Passes over a part of a net: from one layer to another, as pycaffe runs them."""

import functools
from collections.abc import Callable, Iterable, Sequence

from .net import Net
from .nodes import Node, Value

Call = tuple[Node, Callable[[], None]]
Observer = Callable[[Node], None]  # called with a layer


class PartialPasses:
    """Runs the layers ``first`` to ``last`` of a net that keeps its blobs (``compile.Options.keep``).

    ``layers``: those of the prototxt, in order; indices count them. A copy that the compiler inserted runs where a
    layer before or after it does, so that it is never older than what a layer reads.
    """

    def __init__(self, net: Net):
        self.net = net
        self.layers = [node for node in net.graph.nodes if not _inserted(node)]
        self.selected = functools.cache(self._select)
        self._partial = {(step.node, i) for step in net.compiled.backward for i in step.partial}

    def forward(
        self, first: int, last: int, iteration: int, before: Observer | None = None, after: Observer | None = None
    ) -> None:
        """Runs layers forward. iteration: keys their random numbers. before, after: called around each layer of the
        prototxt. Data layers outside of the range draw nothing."""
        selected = self.selected(first, last, False)
        self.net.feed([(iteration, 0)], nodes=[node for node in self.net.fed if node in selected])
        _run(self.net.steps[0], selected, before, after)

    def backward(
        self, first: int, last: int, add: bool = False, before: Observer | None = None, after: Observer | None = None
    ) -> None:
        """Runs layers backward, from ``last`` down to ``first``. add: adds to the gradients of parameters.

        It starts from the gradients of the tops of ``last`` as they are, and from the losses within the range. A reader
        outside of the range contributes nothing to a gradient.
        """
        net, selected = self.net, self.selected(first, last, True)
        net.set_add(add)
        for value, fill in net.seeds:
            if value.node in selected:
                fill(net.diff[value])
        for value in self._incomplete(selected):
            net.dev.fill(net.diff[value], 0)
        _run(net.steps[1], selected, before, after)

    def _select(self, first: int, last: int, backward: bool) -> set[Node]:
        """The nodes that run for a range of layers: these, and the copies that they read or that read them."""
        selected = set(self.layers[first : last + 1])
        inserted = [node for node in self.net.graph.nodes if _inserted(node)]
        for node in reversed(inserted):
            if any(reader in selected for reader, _ in node.tops[0].readers):
                selected.add(node)
        for node in inserted:
            # Backward, the gradient of a copy that nobody reads is the user's, and must be passed on.
            if node.bottoms[0].node in selected and (not backward or not node.tops[0].readers):
                selected.add(node)
        return selected

    def _incomplete(self, selected: set[Node]) -> Iterable[Value]:
        """The values to whose gradient the selected nodes add, though the node that overwrites it does not run."""
        for node in self.net.graph.nodes:
            for value in node.tops:
                writers = [(r, i) for r, i in value.readers if r.gradient_to[i] and r.backward]
                missing = [r for r, i in writers if r not in selected and (r, i) not in self._partial]
                if missing and any(r in selected for r, _ in writers) and value in self.net.diff:
                    yield value


def _inserted(node: Node) -> bool:
    """Whether the compiler inserted the node."""
    return node.layer_index < 0


def _run(calls: Sequence[Call], selected: set[Node], before: Observer | None, after: Observer | None) -> None:
    """Makes the calls of the selected nodes; those of one node follow each other."""
    for at, (node, call) in enumerate(calls):
        if node not in selected:
            continue
        shown = not _inserted(node)
        if before and shown and (at == 0 or calls[at - 1][0] is not node):
            before(node)
        call()
        if after and shown and (at + 1 == len(calls) or calls[at + 1][0] is not node):
            after(node)
