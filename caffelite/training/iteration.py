"""One training iteration: forward and backward, the all-reduce of gradients, the update.

The trainer runs it eagerly, captured.py queues it while a graph is captured, and diagnosis/ repeats it.
"""

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from ..net.graph import Node
from ..net.net import Net
from ..parallel import BACKWARD, FORWARD, GradientReducer
from .optim.average import Average
from .optim.updates import Updater
from .pipeline import Pipeline
from .requests import Agreement
from .state import TrainingState
from .whole_net import WholeNet

Observer = Callable[[Node], None]  # called with a layer after its pass


_NO_CONTEXT = nullcontext()


class Norms(NamedTuple):
    """An iteration's loss with the L2 norms of its gradient and of the weights before its update; None: not
    measured."""

    iteration: int
    loss: float
    gradient: float | None = None
    weights: float | None = None


class Passes:
    """The passes of an iteration over its micro-batches, and the all-reduce of their gradients.

    pipeline: the passes in their order. rank, processes: this process's rank among those that share the samples, and
    their number. division: of the net that the processes hold. mark: reports the progress to the watchdog of a process
    group. ``after_forward``: called with the net after each forward pass that is not part of a captured iteration.
    """

    _agreement: Agreement  # set by ``join``

    def __init__(
        self,
        pipeline: Pipeline,
        rank: int = 0,
        processes: int = 1,
        division: WholeNet | None = None,
        mark: Callable[..., None] | None = None,
    ) -> None:
        self.pipeline, self.net, self.micro_batches = pipeline, pipeline.nets[0], pipeline.micro_batches
        self.rank, self.processes, self._division, self._mark = rank, processes, division, mark
        self.micro_batch = 0  # the micro-batch that runs
        self.running = self.net  # the net that runs it
        self.after_forward: list[Callable[[Net], None]] = []
        self.reducer: GradientReducer | None = None
        self._steps: dict[Node, int] = {}

    def join(self, reducer: GradientReducer, steps: dict[Node, int], agreement: Agreement) -> None:
        """From now on gradients are summed over processes. steps: the place of each layer in the backward pass."""
        self.reducer, self._steps, self._agreement = reducer, steps, agreement

    def forward_backward(
        self,
        iteration: int,
        slot: int | None = None,
        forward: Sequence[Observer] = (),
        backward: Sequence[Observer] = (),
        reduce: bool = True,
    ) -> None:
        """Runs every micro-batch. The all-reduce of gradients starts while the last backward pass runs.

        slot: which of the iterations in the input buffer this is, where their batches are there already; else the batch
        is read. forward, backward: called after each layer. reduce: False for gradients of this process alone.
        """
        if self._division and self._division.sample_shares:
            self._division.sample_shares.enabled = reduce
        self.pipeline.deferred.begin(observed=bool(backward))
        for is_forward, micro_batch in self.pipeline.passes:
            if not is_forward and not micro_batch % self.pipeline.together:
                self._settle(iteration, slot, micro_batch, forward)
            self.micro_batch, self.running = micro_batch, self.pipeline.net(micro_batch)
            if is_forward:
                self._forward(iteration, slot, forward)
                continue
            reducer = self.reducer if reduce and self.micro_batch == self.micro_batches - 1 else None
            if reducer:
                if slot is None:
                    reducer.set_flags(self._agreement.send())
                self._drop_other_losses()
                reducer.begin(self.net.loss)
            self._backward(
                iteration, slot, [*backward, functools.partial(self._reduce, reducer)] if reducer else backward
            )
        self.pipeline.deferred.compute()

    def forward(self, iteration: int) -> None:
        """Runs a batch forward, divided as in an iteration."""
        for micro_batch in range(self._division.divisions if self._division else 1):
            self.micro_batch, self.running = micro_batch, self.pipeline.net(micro_batch)
            self._forward(iteration, None, ())
        self._settle(iteration, None, 0, ())
        self._drop_other_losses()

    def _drop_other_losses(self) -> None:
        """Sets the loss to 0 where another process counts it."""
        if self._division and not self._division.counts:
            self.net.clear_loss()

    def _forward(self, iteration: int, slot: int | None, observers: Sequence[Observer]) -> None:
        net = self.running
        if self._division:
            self._division.begin_pass(self.micro_batch)
        if slot is not None:
            net.input_buffer.select(slot * self.micro_batches + self.micro_batch)
            net.run_forward()
            return
        observe = self._observer(FORWARD, iteration, observers)
        net.forward(iteration, self.micro_batch * self.processes + self.rank, observe)
        if self.pipeline.together == 1:
            for call in self.after_forward:
                call(net)

    def _settle(self, iteration: int, slot: int | None, first: int, observers: Sequence[Observer]) -> None:
        """Completes the forward passes of the micro-batches that run forward together."""
        together = self.pipeline.together
        for micro_batch in range(first, first + together) if together > 1 else ():
            self.micro_batch, self.running = micro_batch, self.pipeline.net(micro_batch)
            self.running.settle(self._observer(FORWARD, iteration, observers) if slot is None else None)
            for call in self.after_forward if slot is None else ():
                call(self.running)

    def _backward(self, iteration: int, slot: int | None, observers: Sequence[Observer]) -> None:
        net = self.running
        if slot is None:
            observe = self._observer(BACKWARD, iteration, observers)
            # A captured pass would keep the rows of every micro-batch in one place.
            run = net.run_backward if self.pipeline.deferred.parameters else net.backward
            run(self.micro_batch > 0, observe)
        else:
            net.run_backward(self.micro_batch > 0, _combined(observers))

    def _observer(self, what: int, iteration: int, observers: Sequence[Observer]) -> Observer | None:
        """Reports the pass to the watchdog; returns a call that reports each layer to it and to the observers."""
        if self._mark:
            self._mark(what, iteration=iteration)
            moves = [self._move] if self._division else []
            observers = [functools.partial(self._mark, what), *moves, *observers]
        return _combined(observers) if observers else None

    def _move(self, node: Node) -> None:
        """Lets arrays that were sent move while this process computes."""
        assert self._division
        self._division.progress()

    def _reduce(self, reducer: GradientReducer, node: Node) -> None:
        reducer.after_step(self._steps[node])

    def all_reduce(self) -> None:
        """Waits for the sums over processes, where several train."""
        if self.reducer:
            self.reducer.finish()

    def receive_requests(self) -> None:
        """Reads the requests that all processes sent along with their loss; the loss becomes the sum over processes."""
        if self.reducer:
            self._agreement.receive(self.reducer.read_loss(self.net.loss))


class Iteration(Passes):
    """A complete iteration: forward_backward, all_reduce, receive_requests, record_loss, update. division: of the net
    that the processes which train together hold; ``comm``: those processes."""

    def __init__(
        self, state: TrainingState, pipeline: Pipeline, updater: Updater, average: Average, division: WholeNet
    ):
        self.comm, data, net = division.mesh.world, division.mesh.data, pipeline.nets[0]
        super().__init__(pipeline, data.rank, data.size, division, self.comm.mark)
        self.state, self.updater, self.average, self.division = state, updater, average, division
        self._scale_replicas()
        # A graph cannot contain sums over parts, which pass through the host.
        self._run_update = self.queue_update if division.divided else net.dev.capture(self.queue_update, net.context)

    def _scale_replicas(self) -> None:
        if self.updater.clipping.loss_scale:
            for replica in self.pipeline.nets[1:]:
                replica.scale_losses(self.updater.clipping.loss_scale.factor)

    def renew_replicas(self) -> None:
        """Lets the nets of all micro-batches follow a change of the first one."""
        self.pipeline.renew_replicas()
        self._scale_replicas()

    def same_plans(self) -> AbstractContextManager[None]:
        """A context for passes that all processes run identically."""
        algorithms = self.net.dev.algorithms
        if not algorithms or not self.reducer or self.division.divided:  # other parts have other plans
            return _NO_CONTEXT
        return algorithms.shared(self.rank, functools.partial(self.comm.gather, what="an agreement"))

    def check_faults(self) -> None:
        """Raises the error of the first layer that saw bad data in the last passes."""
        for net in self.pipeline.nets:
            net.check_faults()

    def record_loss(self) -> None:
        """Appends the mean loss to the state's; the device keeps it until it is read."""
        self.state.losses.append(self.net.loss, self.micro_batches * self.processes)

    def queue_record_loss(self) -> None:
        """The same within a graph: the caller counts it, and the loss becomes 0."""
        self.state.losses.queue(self.net.loss, self.micro_batches * self.processes, clear=True)

    def send_rate(self, slot: int, rate: float, iteration: int) -> None:
        """Sends an iteration's rate along with the batch in a slot of the input buffer."""
        self.updater.send_rate(slot, rate, iteration)
        self.average.send_share(slot, iteration)

    def update(self, rate: float) -> None:
        """Updates the parameters and their average."""
        self.updater.set_rate(rate, self.state.iteration)
        self.average.set_share(self.state.iteration)
        self._run_update()
        self.updater.clipping.updates += 1

    def queue_update(self) -> None:
        """The update with the rate of the batch in use."""
        self.updater.queue()
        self.average.queue()

    def norms(self, loss: float) -> Norms:
        """The current iteration's norms, after its passes and before its update."""
        clipping = self.updater.clipping
        gradient = clipping.gradient_norm() / (self.micro_batches * self.processes)
        return Norms(self.state.iteration, loss, gradient, clipping.total_norm(self.state.parameters))

    def repeat(self) -> float:
        """Runs the passes and the all-reduce of the current iteration alone; its mean loss."""
        self.net.clear_loss()
        with self.same_plans():
            self.forward_backward(self.state.iteration)
        self.all_reduce()
        self.receive_requests()
        return float(self.net.dev.download(self.net.loss)[0]) / (self.micro_batches * self.processes)


def _combined(observers: Sequence[Observer]) -> Observer | None:
    """One call for all of them; None for none."""
    if len(observers) < 2:
        return observers[0] if observers else None
    return functools.partial(_each, observers)


def _each(observers: Sequence[Observer], node: Node) -> None:
    for observe in observers:
        observe(node)
