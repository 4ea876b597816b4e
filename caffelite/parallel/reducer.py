"""Gradients in buckets: ranges of the flat buffer, each summed over processes as soon as backward has completed it.

The flat buffer has the parameters in forward order, so backward completes it from its end towards its start.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Piece:
    """A parameter's range of the flat buffer, and the step of backward after which its gradient is complete (None: it
    gets none). over_stage: it is also summed over the devices of a stage, which divide the samples."""

    start: int
    stop: int
    step: int | None
    over_stage: bool = False


@dataclass(frozen=True)
class Bucket:
    """Elements start … stop - 1, complete after a step of backward. over_stage: as of a Piece."""

    start: int
    stop: int
    step: int
    over_stage: bool = False


def cut(pieces: Iterable[Piece], count: int) -> list[Bucket]:
    """Divides the buffer into about ``count`` buckets of about the same size, the last part of the buffer first.

    pieces: in the order of the buffer. No parameter is divided. Gradients that are not computed are in no bucket.
    """
    pieces = list(pieces)
    least = sum(p.stop - p.start for p in pieces if p.step is not None) / max(1, count)
    buckets: list[Bucket] = []
    held: Bucket | None = None
    for piece in reversed(pieces):
        if piece.step is None:
            if held:
                buckets.append(held)
            held = None
            continue
        if held and held.over_stage != piece.over_stage:
            buckets.append(held)
            held = None
        stop, step = (held.stop, held.step) if held else (piece.stop, 0)
        held = Bucket(piece.start, stop, max(piece.step, step), piece.over_stage)
        if held.stop - held.start >= least:
            buckets.append(held)
            held = None
    return buckets + ([held] if held else [])


class Transport(Protocol):
    """Sums arrays over processes, in place. One iteration: ``set_flags``, ``begin``, ``post`` each bucket, ``finish``,
    ``read_loss``.

    A transport may also have ``captures`` (whether a captured graph may contain its calls from ``begin`` to
    ``finish``), ``slot`` (which of two sets of memory for flags the iteration uses: each needs a separate graph) and
    ``close(failed)``.
    """

    def set_flags(self, flags: np.ndarray) -> None:
        """Flags (0 or 1) that are summed with the loss: the requests that signals made to this process."""

    def begin(self, loss: Any) -> None:
        """Starts the sum of the loss (1) and the flags."""

    def post(self, array: Any) -> None:
        """Starts the sum of an array."""

    def progress(self) -> Any:
        """Advances the sums that were started."""

    def finish(self) -> None:
        """Waits for all sums, or makes the device wait for them."""

    def read_loss(self, loss: Any) -> np.ndarray:
        """Makes ``loss`` the sum over processes and returns the summed flags."""


class GradientReducer:
    """Sums a flat gradient over processes while backward runs: ``begin``, ``after_step`` of backward, ``finish``.

    Every process posts the same buckets in the same order. flat: the gradient of all parameters. size: how many
    processes. waiting(what): a context in which this process waits for others. post_over_stage: starts the sum of a
    bucket that is summed over the devices of a stage too.
    """

    def __init__(
        self,
        transport: Transport,
        flat: Any,
        buckets: list[Bucket],
        size: int,
        waiting: Callable[[str], AbstractContextManager[None]],
        post_over_stage: Callable[[Any], None] | None = None,
    ):
        self._transport, self._flat, self._waiting, self.size = transport, flat, waiting, size
        self._post_over_stage = post_over_stage or transport.post
        self._due: dict[int, list[Bucket]] = {}
        for bucket in sorted(buckets, key=lambda b: (b.step, -b.start)):
            self._due.setdefault(bucket.step, []).append(bucket)
        self._steps = sorted(self._due)
        self._next = 0

    @property
    def captures(self) -> bool:
        """Whether a captured graph may contain the calls from ``begin`` to ``finish``."""
        return getattr(self._transport, "captures", False)

    @property
    def slot(self) -> int:
        """Which memory for flags this iteration uses, 0 or 1: each needs a separate captured graph."""
        return getattr(self._transport, "slot", 0)

    def set_flags(self, flags: np.ndarray) -> None:
        """Starts an iteration. flags: numbers of 0 or 1."""
        self._transport.set_flags(flags)

    def begin(self, loss: Any) -> None:
        """Follows the last forward pass."""
        self._next = 0
        self._transport.begin(loss)

    def after_step(self, step: int) -> None:
        """Follows a step of the backward pass: posts the buckets that it completed."""
        while self._next < len(self._steps) and self._steps[self._next] <= step:
            for bucket in self._due[self._steps[self._next]]:
                array = self._flat[bucket.start : bucket.stop]
                if bucket.over_stage:
                    self._post_over_stage(array)
                else:
                    self._transport.post(array)
            self._next += 1
        self._transport.progress()

    def finish(self) -> None:
        """Reduces all remaining buckets."""
        with self._waiting("gradients"):
            self.after_step(1 << 60)
            self._transport.finish()

    def read_loss(self, loss: Any) -> np.ndarray:
        """Makes ``loss`` the sum over processes; returns for each flag whether any process set it."""
        with self._waiting("gradients"):
            return self._transport.read_loss(loss) > 0

    def close(self, failed: bool = False) -> None:
        """No more sums follow. failed: a process ends in an error, so nothing is waited for."""
        if hasattr(self._transport, "close"):
            self._transport.close(failed)
