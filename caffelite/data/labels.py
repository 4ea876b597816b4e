"""Reads the labels of a data set without its images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import CaffeliteError
from .samples import DataSource

if TYPE_CHECKING:
    from .hdf5 import HDF5Source

MOST = 5000  # labels that are read from files; a database of large images is not read to its end for this


class Labels(NamedTuple):
    """Labels of samples; whole: they are the labels of all samples, so that no other label is in the set."""

    values: np.ndarray
    whole: bool


def labels(source: object, top: int, most: int = MOST) -> Labels:
    """The values of a source for a top: labels of images, rows of an HDF5 data set; empty where these are unknown.

    All values of sources in memory (lists, folders, tar files and arrays); about the first ``most`` of a database or
    of HDF5 files.
    """
    if isinstance(source, DataSource) and top == 1:
        values = source.samples.labels(most)
        return Labels(values, len(values) == source.samples.length)
    from .hdf5 import HDF5Source

    if isinstance(source, HDF5Source):
        return _of_rows(source, top, most)
    return Labels(np.empty(0), False)


def _of_rows(source: HDF5Source, top: int, most: int) -> Labels:
    try:
        values = source.column(top, most)
    except CaffeliteError:  # training will tell
        return Labels(np.empty(0), False)
    return Labels(values.reshape(-1).astype(np.float64), len(values) == source.length)


def all_labels(source: object, top: int) -> Iterator[np.ndarray] | None:
    """The values of every sample of a source for a top, in blocks of samples × shape of a label; None where a source
    has no labels for it. Errors: a file or record cannot be read."""
    if isinstance(source, DataSource) and top == 1:
        return iter([source.samples.all_labels()])
    from .hdf5 import HDF5Source

    return source.blocks(top) if isinstance(source, HDF5Source) else None
