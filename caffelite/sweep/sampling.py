"""What proposes the settings of a sweep: the grid or random draws at once, Optuna some at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import missing_extra
from . import space
from .config import OPTUNA, SweepConfig
from .results import SettingResult
from .space import CHOICE, INT, LOG, Axis, Setting

if TYPE_CHECKING:
    import optuna


class Sampler(Protocol):
    """Proposes settings round by round. total: how many in all."""

    total: int

    def propose(self, results: Sequence[SettingResult]) -> list[Setting]:
        """The settings of the next round; none after the last. results: of the round before, in its order."""
        ...


class Fixed:
    """All settings in one round."""

    def __init__(self, settings: Sequence[Setting]):
        self._pending, self.total = list(settings), len(settings)

    def propose(self, results: Sequence[SettingResult]) -> list[Setting]:
        settings, self._pending = self._pending, []
        return settings


class OptunaSampler:
    """Optuna's TPE sampler, ``together`` settings at a time.

    The settings are a function of the seed and of the results, so a sweep that continues proposes the same ones again.
    Errors: Optuna is not installed.
    """

    def __init__(self, axes: Sequence[Axis], count: int, together: int, seed: int, lowest: bool):
        try:
            import optuna
        except ImportError:
            raise missing_extra("optuna", "optuna", "-sampler optuna") from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._failed = optuna.trial.TrialState.FAIL
        sampler = optuna.samplers.TPESampler(seed=seed)
        self._study = optuna.create_study(direction="minimize" if lowest else "maximize", sampler=sampler)
        self._axes = {axis.field: axis for axis in axes}
        self._ranges = {axis.field: _distribution(optuna, axis) for axis in axes}
        self._left, self._together, self.total = count, together, count
        self._open: list[optuna.Trial] = []

    def propose(self, results: Sequence[SettingResult]) -> list[Setting]:
        for trial, result in zip(self._open, results, strict=True):
            if result.mean is None:
                self._study.tell(trial, state=self._failed)
            else:
                self._study.tell(trial, result.mean)
        count = min(self._together, self._left)
        self._left -= count
        self._open = [self._study.ask(self._ranges) for _ in range(count)]
        return [
            tuple((field, _text(self._axes[field], trial.params[field])) for field in self._ranges)
            for trial in self._open
        ]


def _distribution(optuna: Any, axis: Axis) -> Any:
    if axis.kind == CHOICE:
        return optuna.distributions.CategoricalDistribution(axis.values)
    if axis.kind == INT:
        return optuna.distributions.IntDistribution(int(axis.low), int(axis.high))
    return optuna.distributions.FloatDistribution(axis.low, axis.high, log=axis.kind == LOG)


def _text(axis: Axis, value: object) -> str:
    return space.shown(value) if isinstance(value, float) and axis.kind != CHOICE else str(value)


def sampler(config: SweepConfig, lowest: bool) -> Sampler:
    """The sampler of a sweep. Errors: those of `space.grid` and `OptunaSampler`."""
    if not config.draws:
        return Fixed(space.grid(config.axes))
    if config.sampler == OPTUNA:
        return OptunaSampler(config.axes, config.draws, config.together, config.first_seed, lowest)
    return Fixed(space.draws(config.axes, config.draws, config.first_seed))
