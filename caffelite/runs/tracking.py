"""The hook that reports a run to trackers: TensorBoard, MLflow, Weights & Biases."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..errors import CaffeliteError
from ..training.hooks.hook import Hook, Outputs
from ..training.scores import Scores
from ..training.state import TrainingState

log = logging.getLogger("caffelite")


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker records of a run at its start. id: of the run; a run that continues has the same one. name: of its
    folder. net: its name. config: fields of the solver and options, as text by name."""

    id: str
    name: str
    net: str
    folder: Path
    config: dict[str, str]


class Tracker(Protocol):
    """Receives the numbers of a run. Names are ``train/total_loss``, ``train/…``, ``test/…`` and ``rate``."""

    name: str

    def open(self, run: TrackedRun, iteration: int) -> None:
        """The run starts, or continues at ``iteration`` after ``open`` or another session; numbers of that iteration
        and of later ones come again."""

    def add(self, iteration: int, values: Mapping[str, float]) -> None:
        """Numbers of an iteration. Those of one iteration may come in several calls."""

    def close(self, state: str, files: Sequence[Path]) -> None:
        """The session ended with a state of `registry`. files: the final ones."""


class Tracking(Hook):
    """Reports a run to trackers. run: called at the start. ended: (state, final files), called at the end.

    A tracker that fails after the start costs its records, not the run.
    """

    def __init__(
        self,
        trackers: Sequence[Tracker],
        run: Callable[[], TrackedRun],
        ended: Callable[[], tuple[str, list[Path]]],
    ):
        self._trackers, self._run, self._ended = list(trackers), run, ended
        self._opened: TrackedRun | None = None

    def started(self, state: TrainingState) -> None:
        if self._opened:
            return
        self._opened = run = self._run()
        for tracker in self._trackers:
            try:
                tracker.open(run, state.iteration)
            except CaffeliteError:
                raise
            except Exception as error:
                what = f"{tracker.name} cannot record the run: {type(error).__name__}: {error}"
                raise CaffeliteError(what.splitlines()[0]) from None

    def losses(self, state: TrainingState, first: int, values: Sequence[float]) -> None:
        for i, value in enumerate(values, first):
            self._each(functools.partial(_add_loss, i, float(value)))

    def displayed(self, state: TrainingState, rate: float, loss: float, outputs: Outputs) -> None:
        self._each(lambda tracker: tracker.add(state.iteration, {"rate": rate, **_values("train", outputs)}))

    def tested(self, state: TrainingState, which: int, scores: Scores) -> None:
        self._each(lambda tracker: tracker.add(state.iteration, _values(f"test{which or ''}", scores.outputs)))

    def restored(self, state: TrainingState) -> None:
        run = self._opened
        if run:
            self._each(lambda tracker: tracker.open(run, state.iteration))

    def close(self) -> None:
        """Reports the end of the session to the trackers that were opened."""
        if self._opened:
            state, files = self._ended()
            self._each(lambda tracker: tracker.close(state, files))

    def _each(self, call: Callable[[Tracker], Any]) -> None:
        for tracker in list(self._trackers):
            try:
                call(tracker)
            except Exception as error:
                text = str(error).splitlines()[0] if str(error) else type(error).__name__
                log.warning("%s: %s; training continues without it", tracker.name, text)
                self._trackers.remove(tracker)


def _add_loss(iteration: int, value: float, tracker: Tracker) -> None:
    tracker.add(iteration, {"train/total_loss": value})


def _values(phase: str, outputs: Outputs) -> dict[str, float]:
    return {
        f"{phase}/{name}" + f"[{i}]" * (len(values) > 1): float(value)
        for name, _, values in outputs
        for i, value in enumerate(values)
    }
