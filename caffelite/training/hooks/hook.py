"""Who looks on while a solver runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..scores import Scores

if TYPE_CHECKING:
    from ..trainer import Solver

Outputs = list[tuple[str, float, np.ndarray]]  # name, loss weight, values


class Observer:
    """Told of what a solver does, in its process of rank 0; every method may be left as it is."""

    def began(self, solver: Solver) -> None:
        """Training starts, or goes on, at ``solver.iteration``."""

    def losses(self, solver: Solver, first: int, values: Sequence[float]) -> None:
        """The losses of iterations ``first``, ``first`` + 1 and so on; each iteration is told once, some of them
        together."""

    def shown(self, solver: Solver, rate: float, loss: float, outputs: Outputs) -> None:
        """What an iteration displays, before ``solver.iteration`` counts it; loss: averaged as average_loss says."""

    def tested(self, solver: Solver, which: int, scores: Scores) -> None:
        """The scores of test net ``which``."""

    def rewound(self, solver: Solver) -> None:
        """The solver went back to ``solver.iteration``."""
