"""All-reduce of a job whose processes hold parts of a net."""

from typing import Any

import numpy as np

from ..reducer import Transport


class DividedAllReduce:
    """Sums gradients over the processes with the same part of the net (``sums``; None: there is one), those of layers
    that a stage divides by samples over all processes of the stage (``stage``), and the loss and the flags over all
    (``head``)."""

    def __init__(self, head: Transport, sums: Transport | None, stage: Transport | None):
        self._head, self._sums, self._stage = head, sums, stage

    @property
    def captures(self) -> bool:
        """Whether a captured graph may contain the calls from ``begin`` to ``finish``."""
        return all(getattr(transport, "captures", False) for transport in self._transports())

    @property
    def slot(self) -> int:
        """Which memory for flags this iteration uses."""
        return getattr(self._head, "slot", 0)

    def set_flags(self, flags: np.ndarray) -> None:
        self._head.set_flags(flags)

    def begin(self, loss: Any) -> None:
        self._head.begin(loss)

    def post(self, array: Any) -> None:
        if self._sums:
            self._sums.post(array)

    def post_over_stage(self, array: Any) -> None:
        """Starts the sum of an array over the processes of the stage."""
        assert self._stage, "a stage of one device divides no samples"
        self._stage.post(array)

    def progress(self) -> None:
        for transport in self._transports():
            transport.progress()

    def finish(self) -> None:
        for transport in self._transports():
            transport.finish()

    def read_loss(self, loss: Any) -> np.ndarray:
        return self._head.read_loss(loss)

    def close(self, failed: bool = False) -> None:
        """No more sums follow."""
        for transport in self._transports():
            if hasattr(transport, "close"):
                transport.close(failed)

    def _transports(self) -> list[Transport]:
        return [each for each in (self._head, self._sums, self._stage) if each]
