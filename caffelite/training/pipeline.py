"""The order in which a stage of a divided net runs its micro-batches: one forward, one backward (1F1B).

A stage runs as many forward passes ahead as there are stages after it, then alternates. So the last stage starts its
first backward pass at once, and a stage holds the activations of at most ``stages - stage`` micro-batches.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ..net.deferred import DeferredGradients, deferred_nodes, defers
from ..net.net import Net


class Pass(NamedTuple):
    """A forward or a backward pass of one micro-batch."""

    forward: bool
    micro_batch: int


def in_flight(stage: int, stages: int, micro_batches: int, together: int = 1) -> int:
    """The most micro-batches that have run forward and not yet backward on a stage. together: see ``schedule``."""
    return together if together > 1 else min(stages - stage, micro_batches)


def schedule(stage: int, stages: int, micro_batches: int, together: int = 1) -> Iterator[Pass]:
    """The passes of one iteration on a stage (from 0). Forward passes are in the order of micro-batches, and so are
    backward passes. With one stage each forward pass is followed by its backward pass.

    together: so many run forward before the first of them runs backward, on all stages, because a layer counts in all
    of them (GPipe's order); 1: no layer does.
    """
    if together > 1:
        for first in range(0, micro_batches, together):
            yield from (Pass(forward, first + i) for forward in (True, False) for i in range(together))
        return
    ahead = in_flight(stage, stages, micro_batches) - 1
    for micro_batch in range(ahead):
        yield Pass(True, micro_batch)
    for micro_batch in range(micro_batches):
        if micro_batch + ahead < micro_batches:
            yield Pass(True, micro_batch + ahead)
        yield Pass(False, micro_batch)


class Pipeline:
    """The passes of an iteration on one stage: ``passes`` in their order, and ``nets``, one for each micro-batch in
    flight. The first net has the parameters, and the loss of all. ``deferred``: the gradients that are computed after
    the passes; none with one stage. together: see ``schedule``."""

    def __init__(self, net: Net, micro_batches: int, stage: int = 0, stages: int = 1, together: int = 1):
        self.micro_batches, self.together = micro_batches, together
        self.passes = tuple(schedule(stage, stages, micro_batches, together))
        count = in_flight(stage, stages, micro_batches, together)
        self.nets = [net, *(net.replica() for _ in range(count - 1))]
        deferred = deferred_nodes(net.graph, micro_batches) if defers(stages, micro_batches) else []
        self.deferred = DeferredGradients(deferred, net.dev, micro_batches)
        self._attach()

    def renew_replicas(self) -> None:
        """Makes the nets of the further micro-batches again, after the first one has changed."""
        self.nets[1:] = [self.nets[0].replica() for _ in self.nets[1:]]
        self._attach()

    def _attach(self) -> None:
        for net in self.nets:
            self.deferred.attach(net.graph)

    def net(self, micro_batch: int) -> Net:
        """The net that runs a micro-batch."""
        return self.nets[micro_batch % len(self.nets)]
