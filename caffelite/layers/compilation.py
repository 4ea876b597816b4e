"""The interface between compiler and layer: what the compiler queries, and how a layer reads the decisions."""

from __future__ import annotations

import copy
from typing import Self

from .config import LayerConfig, SavedBlobs, Shape
from .declarations import Declarations


class Compilable(Declarations):
    """The answers of a layer that needs, reads and fuses nothing special. All may depend on ``config``, but for
    ``multiply_adds``."""

    config = LayerConfig()
    saved_shapes: dict[str, tuple[Shape, str | None]]  # what ``saved_blobs`` returns by default
    saved_always: frozenset[str] = frozenset()  # the saved blobs that stay from one pass to the next

    def configured(self, config: LayerConfig) -> Self:
        """A copy that has ``config``."""
        copied = copy.copy(self)
        copied.config = config
        return copied

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        """Products with learned weights in one forward pass."""
        return 0

    def saved_blobs(self) -> SavedBlobs:
        """What forward keeps for backward, by name: shape, dtype (None: the net's)."""
        return self.saved_shapes

    def backward_reads_bottom(self, index: int) -> bool:
        return True

    def backward_reads_top(self, index: int) -> bool:
        return True

    # A part of the layer, where several devices divide it

    def divisible(self, axis: int) -> bool:
        """Whether a part of each top along ``axis`` (0: samples, 1: channels) depends on the same part of the bottoms
        alone, and on all of each parameter or the same part of it."""
        return axis == 0 and not self.couples_samples

    def set_part(self, axis: int, index: int, count: int) -> None:
        """Called after ``shapes`` for part ``index`` of ``count`` along ``axis``."""
