"""Reads the rows of HDF5 files for tools that examine a data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .. import inputs
from ..errors import CaffeliteError, Locator, Where
from . import hdf5, hdf5_reader

SUFFIXES = (".h5", ".hdf5")
BLOCK = 16 << 20  # bytes that are read at a time

Row = dict[str, np.ndarray]  # values by data set


def is_hdf5(path: Path) -> bool:
    """Whether a file is HDF5 by its name, or a list of such files."""
    if path.suffix.lower() != ".txt" or not path.is_file():
        return path.suffix.lower() in SUFFIXES
    with inputs.open_file(path) as file:
        return file.readline(4096).strip().lower().endswith(tuple(suffix.encode() for suffix in SUFFIXES))


class HDF5Rows:
    """(place, values) of every row of an HDF5 file, or of the files of a list. Errors: as those of ``HDF5Source``; data
    sets that no net could read."""

    def __init__(self, path: Path):
        locate = Locator(str(path))
        named = [(path, Where(str(path)))] if path.suffix.lower() in SUFFIXES else hdf5.listed(path, locate)
        self.names: list[str] = []
        if named:
            try:
                self.names = hdf5_reader.look(named[0][0], [""])[1]
            except (OSError, hdf5_reader.Unreadable) as mistake:
                what = f"cannot open {named[0][0]} as HDF5: {inputs.reason(mistake)}"
                raise CaffeliteError(what, where=named[0][1]) from None
        self._files = [hdf5.look(each, where, self.names) for each, where in named]

    def __len__(self) -> int:
        return sum(file.rows for file in self._files)

    def __iter__(self) -> Iterator[tuple[str, Row]]:
        for file in self._files:
            size = 4 * sum(int(np.prod(shape)) for shape in file.row_shapes)
            step = max(1, BLOCK // max(1, size))
            for start in range(0, file.rows, step):
                rows = slice(start, min(file.rows, start + step))
                arrays = hdf5.rows_of(file, self.names, rows)
                for i in range(rows.stop - start):
                    row = {name: values[i] for name, values in zip(self.names, arrays, strict=True)}
                    yield f"{file.path} row {start + i}", row
