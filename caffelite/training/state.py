"""The state of a training run: what it needs to continue exactly from where it is, as plain data.

Components (schedule, update rule, average, hooks) work on this state. A checkpoint is this state written to files.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from .. import caffelite_pb2 as pb
from ..data import Facts, Source
from ..devices.protocol import Device, LossScale
from ..devices.types import Array
from ..errors import CaffeliteError

PENDING_LOSSES = 256  # losses that wait on the device before hooks receive them, at most


class LossWindow:
    """The losses of the last iterations, on the device.

    ``recorded`` counts the losses that it received, ``reported`` those that hooks received.
    """

    def __init__(self, dev: Device, average_loss: int):
        self._ring, self._average_loss = dev.ring(max(average_loss, PENDING_LOSSES)), average_loss
        self.recorded = self.reported = 0

    @property
    def pending(self) -> int:
        """The number of losses that hooks have not received."""
        return self.recorded - self.reported

    def queue(self, loss: Array, micro_batches: int, clear: bool = False) -> None:
        """Appends an iteration's loss, summed over micro-batches, as their mean. clear: the loss becomes 0. The caller
        counts it in ``recorded``."""
        self._ring.append(loss, micro_batches, clear=clear)

    def append(self, loss: Array, micro_batches: int) -> None:
        """Appends and counts an iteration's loss."""
        self.queue(loss, micro_batches)
        self.recorded += 1

    def last(self, count: int = 0) -> list[float]:
        """The losses of the last ``count`` iterations (0: the last average_loss ones), oldest first."""
        known = min(self.recorded, len(self._ring), count or self._average_loss)
        losses: list[float] = self._ring.last(known, self.recorded)[:, 0].tolist()
        return losses

    def smoothed(self) -> float:
        """The mean loss of the last average_loss iterations."""
        return float(np.mean(self.last()))

    def restore(self, losses: Sequence[float]) -> None:
        """Holds these losses, oldest first, all of them reported."""
        recent = list(losses)[-len(self._ring) :]
        self._ring.reset(np.array(recent).reshape(-1, 1))
        self.recorded = self.reported = len(recent)


@dataclass
class SourceState:
    """A data source and the layer that reads it; its position is the number of samples that it has returned. facts:
    what its data are known by, once ``look`` has read some of them."""

    net: str  # "train", "test 0", ...
    layer: str
    source: Source
    facts: Facts = field(default_factory=dict)

    def look(self) -> None:
        """Reads the facts, unless they are known or threads read already; data that cannot be read have none."""
        if not self.facts and not self.source.reads:
            with suppress(CaffeliteError):  # the run itself tells
                self.facts = self.source.facts()


@dataclass(frozen=True)
class RecurrentState:
    """The arrays of the device that a layer carries from one pass to the next, as an LSTM does."""

    net: str
    layer: str
    arrays: Sequence[Array]


@dataclass
class AverageState:
    """The moving average of all parameters, a flat array of the device; its values count once it has started."""

    flat: Array
    started: bool = False


@dataclass
class PlateauState:
    """The events of lr_policy "plateau": reductions of the rate, the least loss, and the iteration of the latest of
    both."""

    steps: int = 0
    minimum_loss: float = float(np.finfo(np.float32).max)
    last_event: int = 0


@dataclass
class BestState:
    """The best test so far by best_score. loss: the loss of its net in that test, NaN where it is not known.
    tests_since: without a better score. judged_iteration: of the latest test; -1: there was none."""

    value: float = math.nan
    loss: float = math.nan
    iteration: int = 0
    tests_since: int = 0
    judged_iteration: int = -1


class IterationStart:
    """Where an iteration began, so that it can run again: the positions of the train net's sources, and copies of its
    recurrent state."""

    def __init__(self, dev: Device, sources: list[SourceState], recurrent: list[RecurrentState]):
        self._dev, self._sources = dev, sources
        self._copies = [(array, dev.empty(array.shape)) for entry in recurrent for array in entry.arrays]
        self.positions: list[int] = []

    def record(self) -> None:
        """The current iteration begins here."""
        self.positions = [entry.source.position for entry in self._sources]
        for array, copy in self._copies:
            self._dev.copy(array, copy)

    def restore(self) -> None:
        """Returns sources and recurrent state to where the current iteration began."""
        for array, copy in self._copies:
            self._dev.copy(copy, array)
        for position, entry in zip(self.positions, self._sources, strict=True):
            entry.source.seek(position)


@dataclass
class TrainingState:
    """All that changes while a run trains. Arrays are the device's; ``parameters`` and each history are flat.

    rate_factor: what the schedule's rate is multiplied by, halved by each NaN recovery. loss_scale: the device's, in
    fp16 only. displays, inspected: whether the current iteration is displayed, and whether the host reads its loss.
    end: the iteration at which ``solve`` ends; 0 where nothing has said one.
    """

    run: pb.RunOrigin
    seed: int
    parameters: Array
    histories: list[Array]
    losses: LossWindow
    sources: list[SourceState]
    recurrent: list[RecurrentState]
    start: IterationStart
    average: AverageState | None = None
    plateau: PlateauState | None = None
    loss_scale: LossScale | None = None
    best: BestState = field(default_factory=BestState)
    iteration: int = 0
    end: int = 0
    rate_factor: float = 1.0
    nan_recoveries: int = 0
    displays: bool = False
    inspected: bool = False

    def flat_arrays(self) -> list[Array]:
        """The flat arrays that an update changes."""
        return [self.parameters, *self.histories, *([self.average.flat] if self.average else [])]
