"""Requests to stop a run or to write a snapshot, and how processes that train together agree on them."""

from dataclasses import dataclass

import numpy as np

from ..parallel import SingleProcess


@dataclass
class Requests:
    """What signals request of a running trainer, which reads it after every iteration."""

    stop: bool = False
    snapshot: bool = False


class Agreement:
    """The requests as all processes agree on them: each sends its own along with the loss of an iteration."""

    def __init__(self, requests: Requests, comm: SingleProcess):
        self._requests, self._comm = requests, comm
        self._several = False
        self._stop = self._snapshot = False

    def join(self) -> None:
        """From now on processes agree."""
        self._several = True

    def send(self) -> np.ndarray:
        """The requests that this process received since the last iteration: to stop, to write a snapshot."""
        pending = np.array([self._requests.stop, self._requests.snapshot], float)
        self._requests.snapshot = False
        return pending

    def receive(self, flags: np.ndarray) -> None:
        """The requests of all processes."""
        stop, snapshot = flags
        self._stop, self._snapshot = self._stop or bool(stop), bool(snapshot)

    @property
    def stop(self) -> bool:
        """Whether the run is to stop."""
        return self._stop if self._several else self._requests.stop

    def take_snapshot(self) -> bool:
        """Whether a snapshot is to be written; it is true once for each request."""
        if self._several:
            requested, self._snapshot = self._snapshot, False
        else:
            requested, self._requests.snapshot = self._requests.snapshot, False
        return requested

    def stop_now(self) -> bool:
        """Whether any process was requested to stop, between iterations."""
        if self._several:
            self._stop = self._stop or any(self._comm.gather(self._requests.stop))
        return self.stop
