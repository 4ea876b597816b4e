"""All-reduce of a job whose processes hold parts of a net."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..reducer import Transport


class DividedAllReduce:
    """Sums gradients over the processes with the same part of the net (``sums``; None: there is one), and the loss and
    the flags over all (``head``)."""

    def __init__(self, head: Transport, sums: Transport | None):
        self._head, self._sums = head, sums

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
        return [self._head, self._sums] if self._sums else [self._head]
