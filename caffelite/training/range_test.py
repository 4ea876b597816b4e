"""A range test of the learning rate: the rate rises by the same factor each iteration, and the fall of the loss shows
which rate learns fastest.

Smith 2017, "Cyclical Learning Rates for Training Neural Networks".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from .hooks.hook import Hook
from .optim.rates import Schedule
from .state import TrainingState
from .trainer import Trainer

SMOOTH = 0.9  # decay of the mean loss
BLOWN = 4  # the test ends at this multiple of the least loss


class Rising(Schedule):
    """A schedule that rises from ``low`` to ``high``."""

    def __init__(self, low: float, high: float, count: int):
        self.plateau = None
        self._low, self._factor = low, (high / low) ** (1 / max(1, count - 1))

    def __call__(self, iteration: int) -> float:
        rate: float = self._low * self._factor**iteration
        return rate

    def current_step(self, iteration: int) -> int:
        return 0


@dataclass
class RangeTest(Hook):
    """Rates and the losses at them. ``best``: the rate at the steepest fall of the smoothed loss; None where it never
    fell."""

    rate: Rising
    rates: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    smooth: list[float] = field(default_factory=list)
    _mean: float = 0.0  # decaying, not corrected for its start

    def losses(self, state: TrainingState, first: int, values: Sequence[float]) -> None:
        for i, value in enumerate(values, first):
            self.rates.append(self.rate(i))
            self.kept.append(value)
            self._mean = SMOOTH * self._mean + (1 - SMOOTH) * value
            self.smooth.append(self._mean / (1 - SMOOTH ** (i + 1)))

    @property
    def blown(self) -> bool:
        return bool(self.smooth) and not self.smooth[-1] <= BLOWN * max(min(self.smooth), 1e-6)

    @property
    def best(self) -> float | None:
        least = min(
            range(len(self.smooth)), key=lambda i: self.smooth[i] if math.isfinite(self.smooth[i]) else math.inf
        )
        span = max(1, len(self.smooth) // 20)
        falls = {i: self.smooth[i - span] - self.smooth[i + span] for i in range(span, least - span + 1)}
        if not falls or max(falls.values()) < 0.01 * abs(self.smooth[0]):
            return None
        return self.rates[max(falls, key=falls.__getitem__)]


def range_test(trainer: Trainer, low: float, high: float, count: int) -> RangeTest:
    """Trains at rising rates, ``count`` iterations or until the loss blows up; the trainer is of no use afterwards."""
    test = RangeTest(Rising(low, high, count))
    trainer.schedule, trainer.state.plateau = test.rate, None
    trainer.nan_recovery.enabled = False
    trainer.hooks.add(test)
    for _ in range(count):
        trainer.step(1)
        trainer.report_losses()
        if test.blown:
            break
    return test
