"""What some layers do for their neighbors: run these as part of their own step, and share arrays with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .compilation import Compilable
from .layer import Layer


class Fusing:
    """The answers of a layer that does nothing for its neighbors; types that do derive from it. The compiler asks
    ``fusing(layer)``. As those of `Compilable`, the answers may depend on ``config``."""

    # What binding sets
    prepared_op: Any  # of a prepared layer: its convolution
    stale: bool  # of a prepared layer: its weights have to be prepared again
    folded: Sequence[Layer] = ()  # the bound layers that run as part of a prepared convolution
    fused_scale: Layer  # the bound Scale layer that runs as part of this one, where ``config`` says so

    def can_fuse(self, follower: Compilable) -> bool:
        """Whether the layer can do the work, forward and backward, of one that alone reads its top (a Scale)."""
        return False

    def can_prepare(self) -> bool:
        """Whether forward can work with weights that are packed when they change."""
        return False

    def can_fold(self, follower: Compilable) -> bool:
        """Whether a layer that can be prepared can do the work of one that alone reads its top."""
        return False

    def can_fuse_sum(self, follower: Compilable) -> bool:
        """Whether the layer can do the work, forward and backward, of one that adds its top and another blob."""
        return False

    def can_fuse_relu(self) -> bool:
        """Whether forward can apply a leaky ReLU, which alone reads its top, to its top."""
        return False

    def can_fuse_relu_backward(self) -> bool:
        """Whether backward includes that of a fused ReLU."""
        return self.relu_backward_overwrites()

    def relu_backward_overwrites(self) -> bool:
        """Whether backward multiplies the top's gradient by the slope of a fused ReLU in place."""
        return False

    # Folded into a convolution, in nets that only test

    def channel_affine(self) -> tuple[np.ndarray, np.ndarray] | None:
        """(scale, shift) of each channel, float64, of a bound layer in host memory that multiplies and adds these; None
        for another layer."""
        return None

    def channel_slopes(self) -> np.ndarray | None:
        """What a bound layer in host memory multiplies values by, in each channel, that are not positive; None for
        another layer."""
        return None

    # Shared arrays

    def most_gradient_parts(self) -> int:
        """In how many arrays, at most, backward takes its only top's gradient: ``dy`` then are these parts."""
        return 1

    def takes_slices(self) -> bool:
        """Whether its tops, and their gradients, may be slices of wider rows."""
        return False

    def passes_gradient(self, index: int) -> bool:
        """Whether a bottom's gradient equals the first top's; where both share an array, backward writes
        nothing."""
        return False

    def top_slices(self) -> list[tuple[int, int]]:
        """For a layer that only copies its bottoms into its top: (start, pitch) of each, as in net/slices.py."""
        return []


PLAIN = Fusing()


def fusing(layer: Compilable) -> Fusing:
    """What a layer does for its neighbors."""
    return layer if isinstance(layer, Fusing) else PLAIN
