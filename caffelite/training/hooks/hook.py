"""The interface of hooks: the events around the iterations of a training run."""

from collections.abc import Callable, Sequence

import numpy as np

from ...net.graph import Node
from ..scores import Scores
from ..state import TrainingState

Outputs = list[tuple[str, float, np.ndarray]]  # name, loss weight, values
Observer = Callable[[Node], None]  # called with a layer
Observers = tuple[Sequence[Observer], Sequence[Observer]]


class Hook:
    """Receives the events of a training run. A subclass overrides those that it needs.

    Events around every iteration that the host runs, in this order: before_iteration, observers, after_backward,
    before_update, after_update. Iterations that one graph launch runs have none of these, only after_iteration.
    """

    def started(self, state: TrainingState) -> None:
        """Training starts or continues at ``state.iteration``."""

    def before_iteration(self, state: TrainingState) -> bool | None:
        """The next iteration is about to run. True: the run stops here."""

    def observers(self, state: TrainingState) -> Observers:
        """What is to be called after the forward and after the backward pass of each layer in the coming iteration."""
        return (), ()

    def after_backward(self, state: TrainingState) -> bool | None:
        """Gradients are summed over processes, and parameters are not updated yet. True: an earlier state was restored,
        and no update follows."""

    def before_update(self, state: TrainingState, rate: float) -> None:
        """The update is about to run at this rate."""

    def after_update(self, state: TrainingState) -> None:
        """Parameters are updated; ``state.iteration`` does not count the iteration yet."""

    def after_iteration(self, state: TrainingState) -> None:
        """``state.iteration`` counts one more iteration, or several."""

    def finished(self, state: TrainingState) -> None:
        """The last iteration has run. Hooks receive this event in reverse order."""

    # Reports: other hooks send them, in the process of rank 0 and in the others.

    def losses(self, state: TrainingState, first: int, values: Sequence[float]) -> None:
        """The losses of iterations ``first``, ``first`` + 1 and so on. Each iteration is reported once, some of them
        together."""

    def displayed(self, state: TrainingState, rate: float, loss: float, outputs: Outputs) -> None:
        """The numbers that an iteration displays. loss: averaged over average_loss iterations."""

    def tested(self, state: TrainingState, which: int, scores: Scores) -> None:
        """The scores of test net ``which``."""

    def all_tested(self, state: TrainingState, scores: list[Scores]) -> None:
        """The scores of every test net, while the tested weights are still in place."""

    def restored(self, state: TrainingState) -> None:
        """The state went back to ``state.iteration``."""


EVENTS = [name for name, value in vars(Hook).items() if callable(value) and not name.startswith("_")]


def _to_each(event: str) -> Callable[..., None]:
    """The method that passes an event on."""

    def pass_on(self: "Hooks", *values: object) -> None:
        for call in self._calls[event]:
            call(*values)

    return pass_on


class Hooks(Hook):
    """Several hooks as one: each event goes to those that override it, in order. The last one stays last."""

    def __init__(self, *hooks: Hook):
        self._hooks = list(hooks)
        self._find()

    def extend(self, *hooks: Hook) -> None:
        """Adds hooks after the last one."""
        self._hooks += hooks
        self._find()

    def add(self, hook: Hook) -> None:
        """Adds a hook before the last one."""
        self._hooks.insert(max(0, len(self._hooks) - 1), hook)
        self._find()

    def _find(self) -> None:
        """The methods to call for each event: only those that a hook overrides, so that others cost no time."""
        self._calls = {
            event: [getattr(h, event) for h in self._hooks if getattr(type(h), event) is not getattr(Hook, event)]
            for event in EVENTS
        }

    def before_iteration(self, state: TrainingState) -> bool:
        stops = False
        for call in self._calls["before_iteration"]:
            stops = bool(call(state)) or stops
        return stops

    def observers(self, state: TrainingState) -> Observers:
        forward, backward = [], []
        for call in self._calls["observers"]:
            one, other = call(state)
            forward += one
            backward += other
        return forward, backward

    def after_backward(self, state: TrainingState) -> bool:
        for call in self._calls["after_backward"]:
            if call(state):  # a state was restored: the event ends here
                return True
        return False

    def finished(self, state: TrainingState) -> None:
        for call in reversed(self._calls["finished"]):
            call(state)

    started = _to_each("started")
    before_update = _to_each("before_update")
    after_update = _to_each("after_update")
    after_iteration = _to_each("after_iteration")
    losses = _to_each("losses")
    displayed = _to_each("displayed")
    tested = _to_each("tested")
    all_tested = _to_each("all_tested")
    restored = _to_each("restored")


class LossReports(Hook):
    """Sends the losses that no hook has received to ``hooks``."""

    def __init__(self, hooks: Hook):
        self._hooks = hooks

    def after_backward(self, state: TrainingState) -> None:
        if state.inspected:
            self.report(state, state.iteration + 1)

    def report(self, state: TrainingState, end: int | None = None) -> None:
        """Reports the pending losses of iterations before ``end``, or before the current one."""
        losses = state.losses
        if count := losses.pending:
            losses.reported = losses.recorded
            self._hooks.losses(state, (state.iteration if end is None else end) - count, losses.last(count))
