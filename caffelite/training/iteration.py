"""One training iteration: forward and backward, the all-reduce of gradients, the update.

The trainer runs it eagerly, captured.py queues it while a graph is captured, and diagnosis/ repeats it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from ..net.graph import Node
from ..net.net import Net
from ..parallel import BACKWARD, FORWARD, GradientReducer, SingleProcess
from .optim.average import Average
from .optim.updates import Updater
from .requests import Agreement
from .state import TrainingState

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

    micro_batches: number of passes with accumulated gradients, iter_size. rank, processes: this process's rank, and
    the number of processes. mark: reports the progress to the watchdog of a process group.
    """

    _agreement: Agreement  # set by ``join``

    def __init__(
        self, net: Net, micro_batches: int, rank: int = 0, processes: int = 1, mark: Callable[..., None] | None = None
    ) -> None:
        self.net, self.micro_batches, self.rank, self.processes, self._mark = net, micro_batches, rank, processes, mark
        self.part = 0  # the micro-batch that runs
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

        slot: of the input buffer, where the batch is there already; else the batch is read. forward, backward: called
        after each layer. reduce: False for gradients of this process alone.
        """
        for part in range(self.micro_batches):
            self.part = part
            reducer = self.reducer if reduce and part == self.micro_batches - 1 else None
            self._forward(iteration, slot, forward)
            if reducer:
                if slot is None:
                    reducer.set_flags(self._agreement.send())
                reducer.begin(self.net.loss)
            self._backward(
                iteration, slot, [*backward, functools.partial(self._reduce, reducer)] if reducer else backward
            )

    def _forward(self, iteration: int, slot: int | None, observers: Sequence[Observer]) -> None:
        if slot is None:
            observe = self._observer(FORWARD, iteration, observers)
            self.net.forward(iteration, self.part * self.processes + self.rank, observe)
        else:
            self.net.input_buffer.select(slot)
            self.net.run_forward()

    def _backward(self, iteration: int, slot: int | None, observers: Sequence[Observer]) -> None:
        if slot is None:
            observe = self._observer(BACKWARD, iteration, observers)
            self.net.backward(add=self.part > 0, observe=observe)
        else:
            self.net.run_backward(observe=_together(observers))

    def _observer(self, what: int, iteration: int, observers: Sequence[Observer]) -> Observer | None:
        """Reports the pass to the watchdog; returns a call that reports each layer to it and to the observers."""
        if self._mark:
            self._mark(what, iteration=iteration)
            observers = [functools.partial(self._mark, what), *observers]
        return _together(observers) if observers else None

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
    """A complete iteration: forward_backward, all_reduce, receive_requests, record_loss, update. comm: the
    processes that train together."""

    def __init__(
        self,
        state: TrainingState,
        net: Net,
        updater: Updater,
        average: Average,
        micro_batches: int,
        comm: SingleProcess,
    ):
        super().__init__(net, micro_batches, comm.rank, comm.size, comm.mark)
        self.state, self.updater, self.average, self.comm = state, updater, average, comm
        self._run_update = net.dev.capture(self.queue_update, net.context)

    def same_plans(self) -> AbstractContextManager[None]:
        """A context for passes that all processes run identically."""
        if not self.reducer:
            return _NO_CONTEXT
        return self.net.dev.same_plans(self.rank, functools.partial(self.comm.gather, what="an agreement"))

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
        return Norms(self.state.iteration, loss, gradient, clipping.norm(self.state.parameters))

    def repeat(self) -> float:
        """Runs the passes and the all-reduce of the current iteration alone; its mean loss."""
        self.net.clear_loss()
        with self.same_plans():
            self.forward_backward(self.state.iteration)
        self.all_reduce()
        self.receive_requests()
        return float(self.net.dev.download(self.net.loss)[0]) / (self.micro_batches * self.processes)


def _together(observers: Sequence[Observer]) -> Observer | None:
    """One call for all of them; None for none."""
    if len(observers) < 2:
        return observers[0] if observers else None
    return functools.partial(_each, observers)


def _each(observers: Sequence[Observer], node: Node) -> None:
    for observe in observers:
        observe(node)
