"""HDF5Data: rows of HDF5 files named in a list file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from caffelite import inputs
from caffelite.data.draws import Key, permutation
from caffelite.data.pipeline import Batch, Source
from caffelite.errors import CaffeliteError, Locator, Where

# What h5py raises of a damaged file
MISTAKES = (OSError, KeyError, ValueError, TypeError, RuntimeError, OverflowError, AttributeError, IndexError)
RESIDENT_BYTES = 512 << 20


@dataclass(frozen=True)
class Part:
    """One file of the list: where the list names it, and its rows."""

    path: Path
    where: Where
    rows: int
    row_shapes: list[tuple[int, ...]]


class HDF5Source(Source):
    """One dataset per top, by the top's name, axis 0 the rows; file after file, around and around: N×….

    shuffle: the key of the permutations (files, and rows within each file) of every epoch, None for the files' order. Larger
    than RESIDENT_BYTES in all, one file at a time is in memory; a file that alone is larger is read row by row. Errors: a file, a
    dataset or rows are missing, tops of one file differ in rows, files differ in shape; each with the list's line.
    """

    def __init__(self, listing: Path, tops: list[str], batch: int, shuffle: Key | None, locate: Locator):
        self._tops, self._shuffle = tops, shuffle
        self._parts = [_look(path, where, tops) for path, where in _files(listing, locate)]
        self._parts = [part for part in self._parts if part.rows]
        if not self._parts:
            raise CaffeliteError("no rows in any file of the list", where=Where(str(listing)), remedy=f"named at {locate('source')}")
        first = self._parts[0]
        for part in self._parts:
            for top, shape, expected in zip(tops, part.row_shapes, first.row_shapes, strict=True):
                if shape != expected:
                    what = f'{part.path}: dataset "{top}" differs in shape from that of {first.path}'
                    raise CaffeliteError(what, where=part.where, expected=("rows", *expected), found=("rows", *shape))
        length = sum(part.rows for part in self._parts)
        self._row_bytes = 4 * sum(math.prod(shape) for shape in first.row_shapes)
        self._keep = len(self._parts) if length * self._row_bytes <= RESIDENT_BYTES else 1
        self._streamed: tuple[int, object] | None = None
        self._loaded: dict[int, list[np.ndarray]] = {}
        self._epoch: tuple[int, np.ndarray, np.ndarray] | None = None
        self._rows: tuple[int, int, np.ndarray] | None = None
        super().__init__([(batch, *shape) for shape in first.row_shapes], length)

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        done, size = 0, len(batch.arrays[0])
        while done < size:
            epoch, sample = divmod(position + done, self.length)
            parts, starts = self._order(epoch)
            place = int(np.searchsorted(starts, sample, side="right")) - 1
            part, row = int(parts[place]), int(sample - starts[place])
            count = min(size - done, self._parts[part].rows - row)
            rows = self._permuted(epoch, part)[row : row + count] if self._shuffle else slice(row, row + count)
            self._copy(part, rows, [out[done : done + count] for out in batch.arrays])
            done += count
        return iter(())

    def release(self) -> None:
        self._loaded.clear()
        self._leave()

    def _order(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The parts in the epoch's order, and the sample at which each starts."""
        if not self._epoch or self._epoch[0] != epoch:
            parts = permutation(self._shuffle, epoch, 0, len(self._parts)) if self._shuffle else np.arange(len(self._parts))
            ends = np.cumsum([self._parts[part].rows for part in parts])
            self._epoch = epoch, parts, np.concatenate(([0], ends[:-1]))
        return self._epoch[1:]

    def _permuted(self, epoch: int, part: int) -> np.ndarray:
        if not self._rows or self._rows[:2] != (epoch, part):
            self._rows = epoch, part, permutation(self._shuffle, epoch, 1 + part, self._parts[part].rows)
        return self._rows[2]

    def _copy(self, part: int, rows: slice | np.ndarray, out: list[np.ndarray]) -> None:
        try:
            if self._parts[part].rows * self._row_bytes <= RESIDENT_BYTES:
                for values, array in zip(self._load(part), out, strict=True):
                    array[...] = values[rows]
            else:
                self._stream(part, rows, out)
        except MISTAKES as mistake:
            raise CaffeliteError(f"cannot read {self._parts[part].path}: {mistake}", where=self._parts[part].where) from None

    def _load(self, part: int) -> list[np.ndarray]:
        import h5py

        if part not in self._loaded:
            if len(self._loaded) == self._keep:
                self._loaded.clear()
            with h5py.File(self._parts[part].path, "r") as file:
                self._loaded[part] = [file[top].astype(np.float32)[()] for top in self._tops]
        return self._loaded[part]

    def _stream(self, part: int, rows: slice | np.ndarray, out: list[np.ndarray]) -> None:
        """Reads rows of a file that is too large for memory, which stays open until another one is asked for."""
        import h5py

        if not self._streamed or self._streamed[0] != part:
            self._leave()
            self._streamed = part, h5py.File(self._parts[part].path, "r")
        for top, array in zip(self._tops, out, strict=True):
            values = self._streamed[1][top]
            if isinstance(rows, slice):
                array[...] = values[rows]
            else:
                for i, row in enumerate(rows.tolist()):
                    array[i] = values[row]

    def _leave(self) -> None:
        if self._streamed:
            self._streamed[1].close()
            self._streamed = None


def _files(listing: Path, locate: Locator) -> list[tuple[Path, Where]]:
    """Each path of the list with its line; relative to the working directory or, where it is not there, to the list's folder."""
    try:
        lines = inputs.read_text(listing, inputs.LIST).splitlines()
    except (OSError, UnicodeDecodeError) as mistake:
        what, remedy = (
            f"cannot read the list of HDF5 files {listing}: {inputs.reason(mistake)}",
            "write the path of each HDF5 file on a line of its own",
        )
        raise CaffeliteError(what, where=locate("source"), expected="a text file", remedy=remedy) from None
    named = []
    for number, line in enumerate(lines, 1):
        if name := line.strip():
            path, beside = Path(name), listing.parent / name
            named.append((beside if not os.path.exists(path) and os.path.exists(beside) else path, Where(os.fspath(listing), number)))
    return named


def _look(path: Path, where: Where, tops: list[str]) -> Part:
    """Reads a file's shapes, no values."""
    import h5py

    try:
        inputs.check(path)
    except FileNotFoundError:
        remedy = "paths count from the working directory, then from the list's folder"
        raise CaffeliteError(f"no file {path}", where=where, remedy=remedy) from None
    except OSError as mistake:
        raise CaffeliteError(f"cannot open {path} as HDF5: {inputs.reason(mistake)}", where=where) from None
    try:
        with h5py.File(path, "r") as file:
            shapes = [_shape(file, top, path, where) for top in tops]
    except MISTAKES as mistake:
        raise CaffeliteError(f"cannot open {path} as HDF5: {mistake}", where=where) from None
    if len({shape[0] for shape in shapes}) > 1:
        found = ", ".join(f"{top} {shape[0]}" for top, shape in zip(tops, shapes, strict=True))
        raise CaffeliteError(f"{path}: datasets differ in rows", where=where, expected="as many rows in each", found=found)
    return Part(path, where, shapes[0][0], [shape[1:] for shape in shapes])


def _check_elsewhere(file, names: Iterable[str]) -> None:
    """Raises OSError where one of the files that an HDF5 file names besides is a FIFO or a device."""
    for name in names:
        path = Path(os.fsdecode(name))
        if path.exists():
            inputs.check(path)
        elif (beside := Path(file.filename).parent / path).exists():
            inputs.check(beside)


def _shape(file, top: str, path: Path, where: Where) -> tuple[int, ...]:
    import h5py

    link = file.get(top, getlink=True)
    if isinstance(link, h5py.ExternalLink):
        _check_elsewhere(file, [link.filename])
    values = file.get(top)
    if not isinstance(values, h5py.Dataset):
        raise CaffeliteError(f'{path} has no dataset "{top}"', where=where, expected="one for each top", found=", ".join(file) or "none")
    _check_elsewhere(file, [name for name, _, _ in values.external or ()])
    _check_elsewhere(file, [source.file_name for source in values.virtual_sources()] if values.is_virtual else [])
    if not values.shape or values.dtype.kind not in "fiub":
        found = f"{values.shape or 'a single value'} of {values.dtype}"
        raise CaffeliteError(f'{path}: dataset "{top}" cannot feed a top', where=where, expected="an array of numbers", found=found)
    return values.shape
