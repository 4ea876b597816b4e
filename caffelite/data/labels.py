"""The labels in a data set, read without its images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from caffelite.data.hdf5 import MISTAKES, HDF5Source
from caffelite.data.samples import DataSource

MOST = 5000  # labels that are read from files; a database of large images is not read to its end for this


class Labels(NamedTuple):
    """Labels of samples; whole: those of all samples, so that what is not among them is nowhere in the set."""

    values: np.ndarray
    whole: bool


def labels(source: object, top: int, most: int = MOST) -> Labels:
    """What a source gives to a top: labels of images, rows of an HDF5 data set; empty where that is not known.

    All that are in memory (those of lists, folders, tar files and arrays); of a database or HDF5 files about the first ``most``.
    """
    if isinstance(source, DataSource) and top == 1:
        values = source.samples.labels(most)
        return Labels(values, len(values) == source.samples.length)
    if isinstance(source, HDF5Source):
        return _of_rows(source, top, most)
    return Labels(np.empty(0), False)


def _of_rows(source: HDF5Source, top: int, most: int) -> Labels:
    import h5py

    found, count, rows = [np.empty(0)], 0, 0
    for part in source._parts:
        if count >= most:
            break
        try:
            with h5py.File(part.path, "r") as file:
                values = file[source._tops[top]]
                each = max(1, values.size // max(1, len(values)))  # a label map has one for each place
                found.append(np.asarray(values[: max(1, (most - count) // each)], np.float64))
        except MISTAKES:  # training will tell
            return Labels(np.empty(0), False)
        rows, count = rows + len(found[-1]), count + found[-1].size
    return Labels(np.concatenate([values.reshape(-1) for values in found]), rows == source.length)
