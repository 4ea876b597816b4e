"""Finds NaN and infinity among numbers that a data set stores as floats."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def rows_not_finite(arrays: Iterable[np.ndarray], rows: int) -> list[int]:
    """The rows that are not finite in an array of floats with so many rows. A sum tells of most arrays that they have
    none."""
    samples: set[int] = set()
    with np.errstate(all="ignore"):
        for array in arrays:
            if array.dtype.kind == "f" and array.shape[:1] == (rows,) and not np.isfinite(array.sum()):
                samples.update(np.flatnonzero(~np.isfinite(array).reshape(rows, -1).all(1)).tolist())
    return sorted(samples)
