"""Events for TensorBoard, by tensorboardX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import missing_extra
from ..training.hooks.hook import Observer, Outputs
from ..training.scores import Scores

if TYPE_CHECKING:
    from ..training import Solver


class Events(Observer):
    """Writes train/…, test/… and the rate into a folder; a resumed run's events hide those it had told beyond its
    iteration."""

    def __init__(self, folder: Path):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise missing_extra("tensorboardX", "tensorboard", "-tensorboard") from None
        self._make = lambda start: SummaryWriter(str(folder), purge_step=start or None)
        self._writer = None

    def began(self, solver: Solver) -> None:
        self._writer = self._writer or self._make(solver.iteration)

    def losses(self, solver: Solver, first: int, values: Sequence[float]) -> None:
        for i, value in enumerate(values, first):
            self._writer.add_scalar("train/total_loss", value, i)

    def shown(self, solver: Solver, rate: float, loss: float, outputs: Outputs) -> None:
        self._writer.add_scalar("rate", rate, solver.iteration)
        self._add("train", solver.iteration, outputs)

    def tested(self, solver: Solver, which: int, scores: Scores) -> None:
        self._add(f"test{which or ''}", solver.iteration, scores.outputs)

    def rewound(self, solver: Solver) -> None:
        self._writer.close()
        self._writer = self._make(solver.iteration)

    def _add(self, phase: str, iteration: int, outputs: Outputs) -> None:
        for name, _, values in outputs:
            for i, value in enumerate(values):
                self._writer.add_scalar(f"{phase}/{name}" + f"[{i}]" * (len(values) > 1), float(value), iteration)

    def close(self) -> None:
        if self._writer:
            self._writer.close()
