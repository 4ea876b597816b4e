"""HDF5Data: rows of HDF5 files named in a list file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import inputs
from ..errors import CaffeliteError, Locator, Where
from . import hdf5_reader
from .draws import Key, permutation
from .fingerprint import Facts, digest, histogram, sampled
from .order import BalancedOrder
from .pipeline import Batch, Source, rows_not_finite

RESIDENT_BYTES = 512 << 20


@dataclass(frozen=True)
class Part:
    """One file of the list: where the list names it, its rows, and the bytes of a chunk of each of its data sets, in
    all."""

    path: Path
    where: Where
    rows: int
    row_shapes: list[tuple[int, ...]]
    chunks: int


class HDF5Source(Source):
    """One dataset per top, by the top's name, axis 0 the rows; file after file, around and around: N×….

    shuffle: the key of the permutations (files, and rows within each file) of every epoch, None for the files' order.
    Larger than RESIDENT_BYTES in all, one file at a time is in memory; a file that alone is larger is read row by row.
    Errors: a file, a dataset or rows are missing, tops of one file differ in rows, files differ in shape; each with the
    list's line.
    """

    floats = True

    def __init__(self, listing: Path, tops: list[str], batch: int, shuffle: Key | None, locate: Locator):
        self._tops, self._shuffle = tops, shuffle
        self._parts = [look(path, where, tops) for path, where in listed(listing, locate)]
        self._parts = [part for part in self._parts if part.rows]
        if not self._parts:
            raise CaffeliteError(
                "no rows in any file of the list", where=Where(str(listing)), remedy=f"named at {locate('source')}"
            )
        first = self._parts[0]
        for part in self._parts:
            for top, shape, expected in zip(tops, part.row_shapes, first.row_shapes, strict=True):
                if shape != expected:
                    what = f'{part.path}: dataset "{top}" differs in shape from that of {first.path}'
                    raise CaffeliteError(what, where=part.where, expected=("rows", *expected), found=("rows", *shape))
        length = sum(part.rows for part in self._parts)
        self._row_bytes = 4 * sum(math.prod(shape) for shape in first.row_shapes)
        self._keep = len(self._parts) if length * self._row_bytes <= RESIDENT_BYTES else 1
        self._loaded: dict[int, list[np.ndarray]] = {}
        self._epoch: tuple[int, np.ndarray, np.ndarray] | None = None
        self._rows: tuple[int, int, np.ndarray] | None = None
        self.balanced: BalancedOrder | None = None
        super().__init__([(batch, *shape) for shape in first.row_shapes], length)

    def balance(self, where: Where) -> None:
        """From now on every class is drawn equally often. Errors: no top with one label for each row."""
        top = self._tops.index("label") if "label" in self._tops else 1
        shape = self._parts[0].row_shapes[top] if top < len(self._tops) else None
        if shape is None or math.prod(shape) != 1:
            found = "no second top" if shape is None else f'"{self._tops[top]}", {shape} for each row'
            expected = 'a top "label", or else a second top, with one number for each row'
            raise CaffeliteError("sampler BALANCED has no labels", where=where, expected=expected, found=found)

        def labels() -> np.ndarray:
            return np.concatenate([block.reshape(-1) for block in self.blocks(top)])

        self.balanced = BalancedOrder(self.length, labels, self._shuffle)

    def blocks(self, top: int) -> Iterator[np.ndarray]:
        """The values of a top, file by file: rows×…. Errors: a file cannot be read."""
        for part in self._parts:
            yield rows_of(part, self._tops, slice(0, part.rows), top)[0]

    def _fill_balanced(self, order: BalancedOrder, position: int, batch: Batch) -> None:
        indices = order(position, len(batch.arrays[0]))
        starts, parts = self._places(indices)
        for part in np.unique(parts).tolist():
            mine = np.flatnonzero(parts == part)
            rows = indices[mine] - starts[part]
            resident = self._keep == len(self._parts)
            read = rows_of(self._parts[part], self._tops, rows) if not resident else self._load(part)
            for values, array in zip(read, batch.arrays, strict=True):
                array[mine] = values[rows] if resident else values

    def _places(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first row of each part, and the part of each of these rows."""
        starts = np.cumsum([0, *(part.rows for part in self._parts)])
        return starts, np.searchsorted(starts, indices, side="right") - 1

    def name(self, position: int) -> str:
        if self.balanced:
            indices = self.balanced(position, 1)
            starts, parts = self._places(indices)
            return self._row_name(int(parts[0]), int(indices[0] - starts[parts[0]]))
        epoch, sample = divmod(position, self.length)
        part, row, _ = self._place(epoch, sample)
        return self._row_name(part, int(self._permuted(self._shuffle, epoch, part)[row]) if self._shuffle else row)

    def _row_name(self, part: int, row: int) -> str:
        return f"row {row} of {self._parts[part].path}"

    def _place(self, epoch: int, sample: int) -> tuple[int, int, int]:
        """The part of a sample of an epoch, its place in the part, and how many follow there, itself included."""
        parts, starts = self._order(epoch)
        position = int(np.searchsorted(starts, sample, side="right")) - 1
        part, row = int(parts[position]), int(sample - starts[position])
        return part, row, self._parts[part].rows - row

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        if self.balanced:
            self._fill_balanced(self.balanced, position, batch)
            return iter(())
        done, size = 0, len(batch.arrays[0])
        while done < size:
            epoch, sample = divmod(position + done, self.length)
            part, row, left = self._place(epoch, sample)
            count = min(size - done, left)
            rows: slice | np.ndarray = slice(row, row + count)
            if self._shuffle:
                rows = self._permuted(self._shuffle, epoch, part)[rows]
            self._copy(part, rows, [out[done : done + count] for out in batch.arrays])
            done += count
        return iter(())

    def release(self) -> None:
        self._loaded.clear()

    def _order(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The parts in the epoch's order, and the sample at which each starts."""
        if not self._epoch or self._epoch[0] != epoch:
            parts = (
                permutation(self._shuffle, epoch, 0, len(self._parts)) if self._shuffle else np.arange(len(self._parts))
            )
            ends = np.cumsum([self._parts[part].rows for part in parts])
            self._epoch = epoch, parts, np.concatenate(([0], ends[:-1]))
        return self._epoch[1:]

    def _permuted(self, shuffle: Key, epoch: int, part: int) -> np.ndarray:
        if not self._rows or self._rows[:2] != (epoch, part):
            self._rows = epoch, part, permutation(shuffle, epoch, 1 + part, self._parts[part].rows)
        return self._rows[2]

    def _copy(self, part: int, rows: slice | np.ndarray, out: list[np.ndarray]) -> None:
        if self._parts[part].rows * self._row_bytes <= RESIDENT_BYTES:
            arrays = [values[rows] for values in self._load(part)]
        else:  # too large for memory
            arrays = rows_of(self._parts[part], self._tops, rows)
        for values, array in zip(arrays, out, strict=True):
            array[...] = values

    def _load(self, part: int) -> list[np.ndarray]:
        if part not in self._loaded:
            if len(self._loaded) == self._keep:
                self._loaded.clear()
            self._loaded[part] = rows_of(self._parts[part], self._tops, slice(0, self._parts[part].rows))
        return self._loaded[part]

    def facts(self) -> Facts:
        indices = sampled(self.length)
        starts, parts = self._places(indices)
        contents_of: dict[str, list[np.ndarray]] = {top: [] for top in self._tops}
        resident = self._keep == len(self._parts)
        for part in np.unique(parts).tolist():
            rows = indices[parts == part] - starts[part]
            read = (
                [values[rows] for values in self._load(part)]
                if resident
                else rows_of(self._parts[part], self._tops, rows)
            )
            for top, values in zip(self._tops, read, strict=True):
                contents_of[top].append(values)
        contents = {f'content of "{top}"': digest(contents_of[top]) for top in self._tops}
        facts = {**super().facts(), "files": str(len(self._parts)), **contents}
        for i, shape in enumerate(self._parts[0].row_shapes) if resident else ():
            if math.prod(shape) == 1:
                columns = [self._load(part)[i].reshape(-1) for part in range(len(self._parts))]
                facts[f'values of "{self._tops[i]}"'] = histogram(np.concatenate(columns))
        return facts

    def not_finite(self, most: int) -> list[str]:
        bad_rows: set[int] = set()
        for top in range(len(self._tops)):
            rows = self.column(top, most)
            bad_rows.update(rows_not_finite([rows], len(rows)))
        indices = np.array(sorted(bad_rows), int)
        starts, parts = self._places(indices)
        return [
            self._row_name(part, row)
            for part, row in zip(parts.tolist(), (indices - starts[parts]).tolist(), strict=True)
        ]

    def column(self, top: int, most: int) -> np.ndarray:
        """The first rows of a top, read file by file until they have ``most`` numbers: rows×…. Errors: a file
        cannot be read."""
        chunks, count = [], 0
        for part in self._parts:
            if count >= most:
                break
            each = max(1, math.prod(part.row_shapes[top]))  # a label map has one for each place
            rows = slice(0, min(part.rows, max(1, (most - count) // each)))
            chunks.append(rows_of(part, self._tops, rows, top)[0])
            count += chunks[-1].size
        return np.concatenate(chunks)


def rows_of(part: Part, tops: list[str], rows: slice | np.ndarray, top: int | None = None) -> list[np.ndarray]:
    """Rows of a file for each top, or for one. Errors: it cannot be read, or it has changed."""
    names, shapes = (tops, part.row_shapes) if top is None else ([tops[top]], [part.row_shapes[top]])
    try:
        inputs.check(part.path)
        return hdf5_reader.read(part.path, names, rows, shapes, part.chunks)
    except (OSError, hdf5_reader.Unreadable) as mistake:
        raise CaffeliteError(f"cannot read {part.path}: {inputs.reason(mistake)}", where=part.where) from None


def listed(listing: Path, locate: Locator) -> list[tuple[Path, Where]]:
    """Each path of the list with its line; relative to the working directory or, where it is not there, to the list's
    folder."""
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
            path, near_list = Path(name), listing.parent / name
            named.append(
                (
                    near_list if not os.path.exists(path) and os.path.exists(near_list) else path,
                    Where(os.fspath(listing), number),
                )
            )
    return named


def look(path: Path, where: Where, tops: list[str]) -> Part:
    """Reads a file's shapes, no values."""
    try:
        inputs.check(path)
        descriptions, names = hdf5_reader.look(path, tops)
    except FileNotFoundError:
        remedy = "paths count from the working directory, then from the list's folder"
        raise CaffeliteError(f"no file {path}", where=where, remedy=remedy) from None
    except (OSError, hdf5_reader.Unreadable) as mistake:
        raise CaffeliteError(f"cannot open {path} as HDF5: {inputs.reason(mistake)}", where=where) from None
    shapes, chunks = [], 0
    for top, one in zip(tops, descriptions, strict=True):
        if one is None:
            said = ", ".join(names) or "none"
            raise CaffeliteError(f'{path} has no dataset "{top}"', where=where, expected="one for each top", found=said)
        if not one.shape or not one.numbers:
            said = f"{one.shape or 'a single value'} of {one.type}"
            raise CaffeliteError(
                f'{path}: dataset "{top}" cannot feed a top', where=where, expected="an array of numbers", found=said
            )
        shapes.append(one.shape)
        chunks += one.chunk
    if len({shape[0] for shape in shapes}) > 1:
        said = ", ".join(f"{top} {shape[0]}" for top, shape in zip(tops, shapes, strict=True))
        raise CaffeliteError(
            f"{path}: datasets differ in rows", where=where, expected="as many rows in each", found=said
        )
    return Part(path, where, shapes[0][0], [shape[1:] for shape in shapes], chunks)
