"""Communicators. The solver asks one thing of them: that gradients be the same, averaged, on every rank."""

from __future__ import annotations


class Alone:
    """One process: nothing to exchange."""

    rank, size = 0, 1

    def average(self, flat) -> None:
        """Replaces a flat buffer by its mean over all ranks."""
