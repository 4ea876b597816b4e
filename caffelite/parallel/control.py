"""The interface through which processes exchange Python values, and some of the processes of a job."""

from __future__ import annotations

from typing import Any, Protocol


class Control(Protocol):
    """The processes of one job: MPI's (transports/mpi.py), or those that caffelite started (transports/star.py)."""

    rank: int
    size: int

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in the order of ranks, on every process."""

    def subset(self, ranks: list[int]) -> Control:
        """Some of the processes, this one among them, in this order. All processes call it together, each with its
        own subset; the subsets are disjoint."""

    def close(self) -> None: ...


class Subset:
    """Some of the processes of a job, that exchange values through all of them: all subsets gather together."""

    def __init__(self, control: Control, ranks: list[int]):
        self._control, self._ranks = control, ranks
        self.rank, self.size = ranks.index(control.rank), len(ranks)

    def gather(self, value: Any) -> list[Any]:
        values = self._control.gather(value)
        return [values[rank] for rank in self._ranks]

    def subset(self, ranks: list[int]) -> Control:
        return Subset(self._control, [self._ranks[rank] for rank in ranks])

    def close(self) -> None:
        """Does nothing: all processes close their connections."""
