"""Gradients in buckets: stretches of the flat buffer in the order in which backward completes them, each summed as soon
as it is complete.

Parameters lie in the flat buffer in forward order, so backward completes it from its end towards its start.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Piece:
    """A parameter's stretch of the flat buffer, and the step of backward after which its gradient is complete (None: it
    gets none)."""

    start: int
    stop: int
    step: int | None


@dataclass(frozen=True)
class Bucket:
    """Elements start … stop - 1, complete after a step of backward."""

    start: int
    stop: int
    step: int


def cut(pieces: Iterable[Piece], count: int) -> list[Bucket]:
    """About ``count`` buckets of about the same size, from the end of the buffer on; pieces come in its order. No
    parameter is cut.

    Gradients that nobody computes are in no bucket.
    """
    pieces = list(pieces)
    least = sum(p.stop - p.start for p in pieces if p.step is not None) / max(1, count)
    found: list[Bucket] = []
    held: Bucket | None = None
    for piece in reversed(pieces):
        if piece.step is None:
            if held:
                found.append(held)
            held = None
            continue
        held = Bucket(piece.start, held.stop if held else piece.stop, max(piece.step, held.step if held else 0))
        if held.stop - held.start >= least:
            found.append(held)
            held = None
    return found + ([held] if held else [])


class GradientReducer:
    """Sums a flat gradient over ranks while backward runs: ``begin``, ``after`` each of its steps, ``finish``.

    Every rank posts the same buckets in the same order. transport: ``post(array)`` starts a sum in place,
    ``progress()`` moves those that are under way, ``finish()`` waits for all of them; ``put(flags)`` takes what signals
    ask for, ``note(loss)`` starts its sum and the loss's, and ``noted(loss)`` gives the flags, with the summed loss in
    place. One that ``captures`` does nothing but queue between put and noted, in one of two ways by its ``turn``; one
    that has something to end has ``close(failed)``.
    """

    def __init__(self, transport, flat, buckets: list[Bucket], size: int, waiting: Callable):
        self._transport, self._flat, self._waiting, self.size = transport, flat, waiting, size
        self._due: dict[Hashable, list[Bucket]] = {}
        for bucket in sorted(buckets, key=lambda b: (b.step, -b.start)):
            self._due.setdefault(bucket.step, []).append(bucket)
        self._steps = sorted(self._due)
        self._next = 0

    @property
    def captures(self) -> bool:
        return getattr(self._transport, "captures", False)

    @property
    def turn(self) -> int:
        return self._transport.turn

    def put(self, flags: np.ndarray) -> None:
        """An iteration begins; flags: numbers of 0 or 1."""
        self._transport.put(flags)

    def begin(self, loss) -> None:
        """The last forward pass is done."""
        self._next = 0
        self._transport.note(loss)

    def after(self, step: int) -> None:
        """A step of the backward pass is done."""
        while self._next < len(self._steps) and self._steps[self._next] <= step:
            for bucket in self._due[self._steps[self._next]]:
                self._transport.post(self._flat[bucket.start : bucket.stop])
            self._next += 1
        self._transport.progress()

    def finish(self) -> None:
        """All that is left is summed."""
        with self._waiting("gradients"):
            self.after(1 << 60)
            self._transport.finish()

    def noted(self, loss) -> np.ndarray:
        """The flags, each 1 where it is on any rank; the loss is the sum over ranks."""
        with self._waiting("gradients"):
            return self._transport.noted(loss) > 0

    def close(self, failed: bool = False) -> None:
        """No more sums. failed: this process or another one ends in an error, so nothing is waited for."""
        if hasattr(self._transport, "close"):
            self._transport.close(failed)
