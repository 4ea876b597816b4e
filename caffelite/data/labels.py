"""The labels in a data set, read without its images."""

from __future__ import annotations

import numpy as np

from caffelite.data.hdf5 import HDF5Source
from caffelite.data.samples import DataSource

MOST = 5000  # records; a database of large images is not read to its end for this


def labels(source: object, top: int, most: int = MOST) -> np.ndarray:
    """What the first ``most`` samples give to a top: labels of images, rows of an HDF5 data set; empty where that is not known."""
    if isinstance(source, DataSource) and top == 1:
        return source.samples.labels(most)
    if isinstance(source, HDF5Source):
        return _of_rows(source, top, most)
    return np.empty(0)


def _of_rows(source: HDF5Source, top: int, most: int) -> np.ndarray:
    import h5py

    found: list[np.ndarray] = []
    for part in source._parts:
        with h5py.File(part.path, "r") as file:
            found.append(np.asarray(file[source._tops[top]][: most - sum(map(len, found))], np.float64))
        if sum(map(len, found)) >= most:
            break
    return np.concatenate(found).reshape(-1)
