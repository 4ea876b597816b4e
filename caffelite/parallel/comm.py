"""What the solver asks of the processes that train together. ``SingleProcess`` is one process; ``ProcessGroup`` are
several."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from .buckets import Bucket, GradientReducer
from .watch import Watched


class SingleProcess:
    """One process: nothing to exchange, nobody to wait for."""

    rank, size = 0, 1
    local_rank = 0  # among the processes of this machine
    mark: Callable | None = None
    kind = ""

    def __init__(self) -> None:
        self.seed = int.from_bytes(os.urandom(4), "little")  # the same on every rank

    def gather(self, value: Any, what: str = "") -> list:
        """Every rank's value, in the order of ranks, on every rank."""
        return [value]

    def total(self, values: np.ndarray, what: str = "") -> np.ndarray:
        """The sum over ranks of a host array of float64, the same bits on every rank."""
        return values

    def reducer(self, dev, flat, buckets: list[Bucket], half: bool = False) -> None:
        """What sums gradients in training; None where there is nobody to exchange with."""
        return None

    def name_layers(self, names: dict[Hashable, str]) -> None:
        """Tells whoever watches this process what the keys given to ``mark`` are called."""


class ProcessGroup(SingleProcess):
    """Several processes. control: gathers Python values (MPI, or sockets between processes of one machine).

    make_transport(dev, half): what sums device arrays over ranks. watched: the guard that ends a job whose ranks die or
    hang.
    """

    def __init__(
        self, control, make_transport: Callable, watched: Watched | None = None, kind: str = "", local_rank: int = 0
    ):
        super().__init__()
        self._control, self._make_transport, self.watched, self.kind = control, make_transport, watched, kind
        self.rank, self.size, self.local_rank = control.rank, control.size, local_rank
        self.seed = control.gather(self.seed)[0]
        self.mark = watched.mark if watched else None
        self._exchanges: list[GradientReducer] = []

    def gather(self, value: Any, what: str = "an agreement") -> list:
        with self._waiting(what):
            return self._control.gather(value)

    def total(self, values: np.ndarray, what: str = "scores") -> np.ndarray:
        """Added up rank by rank, so that every rank gets the same bits."""
        total = np.zeros_like(values)
        for part in self.gather(values, what):
            total += part
        return total

    def reducer(self, dev, flat, buckets: list[Bucket], half: bool = False) -> GradientReducer:
        self._exchanges.append(
            GradientReducer(self._make_transport(dev, half), flat, buckets, self.size, self._waiting)
        )
        return self._exchanges[-1]

    def close(self, failed: bool = False) -> None:
        """Ends all exchanges. failed: this process ends in an error, so nothing is waited for."""
        while self._exchanges:
            self._exchanges.pop().close(failed)

    def name_layers(self, names: dict[Hashable, str]) -> None:
        if self.watched:
            self.watched.name_layers(names)

    def _waiting(self, what: str) -> AbstractContextManager:
        return self.watched.waiting(what) if self.watched else nullcontext()
