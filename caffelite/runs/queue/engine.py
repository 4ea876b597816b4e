"""Where the jobs of a queue run: what the scheduler asks of this machine, or of a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..bounds.bounds import Bounds
from ..lock import FileLock
from .job import Job


class Engine(ABC):
    """Starts jobs that the scheduler chose, and collects their ends."""

    @abstractmethod
    def collect(self) -> None:
        """Records the ends of processes of this one, before the scheduler reads the jobs."""

    @abstractmethod
    def look(self, jobs: Sequence[Job]) -> None:
        """A step of the scheduler begins, with these jobs."""

    @abstractmethod
    def reserve(self, job: Job) -> str:
        """Takes a slot for a job in this step and returns it; "" where none is free."""

    @abstractmethod
    def start(self, job: Job, held: FileLock, slot: str, bounds: Bounds) -> bool:
        """Starts a job; False where that is to be tried again. held: job.lock, which the caller releases. Errors:
        OSError, CaffeliteError for what keeps this job from starting."""

    @abstractmethod
    def is_busy(self) -> bool:
        """Whether the ends of jobs that started here are still to be collected."""

    @abstractmethod
    def close(self) -> None:
        """The scheduler gives up the queue; running jobs continue."""
