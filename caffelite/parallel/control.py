"""The interface through which processes exchange Python values."""

from __future__ import annotations

from typing import Any, Protocol


class Control(Protocol):
    """The processes of one job: MPI's (transports/mpi.py), or those that caffelite started (transports/star.py)."""

    rank: int
    size: int

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in the order of ranks, on every process."""

    def close(self) -> None: ...
