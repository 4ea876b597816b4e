"""The geometry of bilinear interpolation, the same on every device."""

from typing import NamedTuple

import numpy as np

Shape = tuple[int, ...]


class Axis(NamedTuple):
    """Bilinear interpolation along one axis: output o is (1 - share[o]) · x[low[o]] + share[o] · x[high[o]].

    first, last: input i is part of the outputs first[i] to last[i] - 1, and of no others.
    """

    low: np.ndarray
    high: np.ndarray
    first: np.ndarray
    last: np.ndarray
    share: np.ndarray


def aligned(size: int, start: int, length: int, count: int) -> Axis:
    """``count`` outputs over ``length`` of ``size`` inputs, from ``start`` on; the first and the last of both
    coincide."""
    positions = np.arange(count, dtype=np.int64) * (length - 1)
    steps = max(1, count - 1)
    low = positions // steps
    high = np.minimum(low + 1, length - 1)
    share = np.where(high > low, positions % steps / steps, 0.0)
    inputs = np.arange(size, dtype=np.int64) - start
    first, last = np.searchsorted(high, inputs), np.searchsorted(low, inputs, "right")
    first, last = (np.where((0 <= inputs) & (inputs < length), ends, 0) for ends in (first, last))
    whole = np.int32
    return Axis(
        (low + start).astype(whole), (high + start).astype(whole), first.astype(whole), last.astype(whole), share
    )


def aligned_axes(x: Shape, y: Shape, start: Shape, length: Shape) -> list[Axis]:
    """The axes of images x (N, C, H, W), of which the part from ``start`` on becomes y (N, C, OH, OW)."""
    return [aligned(*axis) for axis in zip(x[2:], start, length, y[2:], strict=True)]
