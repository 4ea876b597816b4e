"""HDF5Data: rows of HDF5 files named in a list file; and all rows of such files."""

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import file_types, inputs
from ..errors import CaffeliteError, Locator, Where
from . import hdf5_reader
from .draws import Key, permutation
from .fingerprint import Facts, digest, histogram, sampled
from .order import BalancedOrder
from .pipeline import Batch, Source, rows_not_finite

RESIDENT_BYTES = 512 << 20


@dataclass(frozen=True)
class ListedFile:
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
        self._files = [look(path, where, tops) for path, where in listed(listing, locate)]
        self._files = [file for file in self._files if file.rows]
        if not self._files:
            raise Where(str(listing)).error("no rows in any file of the list", remedy=f"named at {locate('source')}")
        first = self._files[0]
        for file in self._files:
            for top, shape, expected in zip(tops, file.row_shapes, first.row_shapes, strict=True):
                if shape != expected:
                    what = f'{file.path}: dataset "{top}" differs in shape from that of {first.path}'
                    raise file.where.error(what, expected=("rows", *expected), found=("rows", *shape))
        length = sum(file.rows for file in self._files)
        self._row_bytes = 4 * sum(math.prod(shape) for shape in first.row_shapes)
        self._keep = len(self._files) if length * self._row_bytes <= RESIDENT_BYTES else 1
        self._loaded: dict[int, list[np.ndarray]] = {}
        self._epoch: tuple[int, np.ndarray, np.ndarray] | None = None
        self._rows: tuple[int, int, np.ndarray] | None = None
        self.balanced: BalancedOrder | None = None
        super().__init__([(batch, *shape) for shape in first.row_shapes], length)

    def balance(self, where: Where) -> None:
        """From now on every class is drawn equally often. Errors: no top with one label for each row."""
        top = self._tops.index("label") if "label" in self._tops else 1
        shape = self._files[0].row_shapes[top] if top < len(self._tops) else None
        if shape is None or math.prod(shape) != 1:
            found = "no second top" if shape is None else f'"{self._tops[top]}", {shape} for each row'
            expected = 'a top "label", or else a second top, with one number for each row'
            raise CaffeliteError("sampler BALANCED has no labels", where=where, expected=expected, found=found)

        def labels() -> np.ndarray:
            return np.concatenate([block.reshape(-1) for block in self.blocks(top)])

        self.balanced = BalancedOrder(self.length, labels, self._shuffle)

    def blocks(self, top: int) -> Iterator[np.ndarray]:
        """The values of a top, file by file: rows×…. Errors: a file cannot be read."""
        for file in self._files:
            yield rows_of(file, self._tops, slice(0, file.rows), top)[0]

    def _fill_balanced(self, order: BalancedOrder, position: int, batch: Batch) -> None:
        indices = order(position, len(batch.arrays[0]))
        starts, file_indices = self._locate_rows(indices)
        for file_index in np.unique(file_indices).tolist():
            mine = np.flatnonzero(file_indices == file_index)
            rows = indices[mine] - starts[file_index]
            resident = self._keep == len(self._files)
            for values, array in zip(self._values(file_index, rows, resident), batch.arrays, strict=True):
                array[mine] = values

    def _locate_rows(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first row of each file, and the file of each of these rows."""
        starts = np.cumsum([0, *(file.rows for file in self._files)])
        return starts, np.searchsorted(starts, indices, side="right") - 1

    def name(self, position: int) -> str:
        if self.balanced:
            indices = self.balanced(position, 1)
            starts, file_indices = self._locate_rows(indices)
            return self._row_name(int(file_indices[0]), int(indices[0] - starts[file_indices[0]]))
        epoch, sample = divmod(position, self.length)
        file_index, row, _ = self._position(epoch, sample)
        return self._row_name(
            file_index, int(self._permuted(self._shuffle, epoch, file_index)[row]) if self._shuffle else row
        )

    def _row_name(self, file_index: int, row: int) -> str:
        return f"row {row} of {self._files[file_index].path}"

    def _position(self, epoch: int, sample: int) -> tuple[int, int, int]:
        """The file of a sample of an epoch, its row in the file's order, and how many follow there, itself included."""
        file_indices, starts = self._order(epoch)
        position = int(np.searchsorted(starts, sample, side="right")) - 1
        file_index, row = int(file_indices[position]), int(sample - starts[position])
        return file_index, row, self._files[file_index].rows - row

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        if self.balanced:
            self._fill_balanced(self.balanced, position, batch)
            return iter(())
        done, size = 0, len(batch.arrays[0])
        while done < size:
            epoch, sample = divmod(position + done, self.length)
            file_index, row, left = self._position(epoch, sample)
            count = min(size - done, left)
            rows: slice | np.ndarray = slice(row, row + count)
            if self._shuffle:
                rows = self._permuted(self._shuffle, epoch, file_index)[rows]
            self._copy(file_index, rows, [out[done : done + count] for out in batch.arrays])
            done += count
        return iter(())

    def release(self) -> None:
        self._loaded.clear()

    def _order(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The files in the epoch's order, and the sample at which each starts."""
        if not self._epoch or self._epoch[0] != epoch:
            file_indices = (
                permutation(self._shuffle, epoch, 0, len(self._files)) if self._shuffle else np.arange(len(self._files))
            )
            ends = np.cumsum([self._files[file_index].rows for file_index in file_indices])
            self._epoch = epoch, file_indices, np.concatenate(([0], ends[:-1]))
        return self._epoch[1:]

    def _permuted(self, shuffle: Key, epoch: int, file_index: int) -> np.ndarray:
        if not self._rows or self._rows[:2] != (epoch, file_index):
            self._rows = epoch, file_index, permutation(shuffle, epoch, 1 + file_index, self._files[file_index].rows)
        return self._rows[2]

    def _copy(self, file_index: int, rows: slice | np.ndarray, out: list[np.ndarray]) -> None:
        whole = self._files[file_index].rows * self._row_bytes <= RESIDENT_BYTES
        for values, array in zip(self._values(file_index, rows, whole), out, strict=True):
            array[...] = values

    def _values(self, file_index: int, rows: slice | np.ndarray, whole: bool) -> list[np.ndarray]:
        """Rows of a file for each top. whole: through memory that holds the whole file."""
        if whole:
            return [values[rows] for values in self._load(file_index)]
        return rows_of(self._files[file_index], self._tops, rows)

    def _load(self, file_index: int) -> list[np.ndarray]:
        if file_index not in self._loaded:
            if len(self._loaded) == self._keep:
                self._loaded.clear()
            self._loaded[file_index] = rows_of(
                self._files[file_index], self._tops, slice(0, self._files[file_index].rows)
            )
        return self._loaded[file_index]

    def facts(self) -> Facts:
        indices = sampled(self.length)
        starts, file_indices = self._locate_rows(indices)
        contents_of: dict[str, list[np.ndarray]] = {top: [] for top in self._tops}
        resident = self._keep == len(self._files)
        for file_index in np.unique(file_indices).tolist():
            rows = indices[file_indices == file_index] - starts[file_index]
            for top, values in zip(self._tops, self._values(file_index, rows, resident), strict=True):
                contents_of[top].append(values)
        contents = {f'content of "{top}"': digest(contents_of[top]) for top in self._tops}
        facts = {**super().facts(), "files": str(len(self._files)), **contents}
        for i, shape in enumerate(self._files[0].row_shapes) if resident else ():
            if math.prod(shape) == 1:
                columns = [self._load(file_index)[i].reshape(-1) for file_index in range(len(self._files))]
                facts[f'values of "{self._tops[i]}"'] = histogram(np.concatenate(columns))
        return facts

    def not_finite(self, most: int) -> list[str]:
        bad_rows: set[int] = set()
        for top in range(len(self._tops)):
            rows = self.column(top, most)
            bad_rows.update(rows_not_finite([rows], len(rows)))
        indices = np.array(sorted(bad_rows), int)
        starts, file_indices = self._locate_rows(indices)
        return [
            self._row_name(file_index, row)
            for file_index, row in zip(file_indices.tolist(), (indices - starts[file_indices]).tolist(), strict=True)
        ]

    def column(self, top: int, most: int) -> np.ndarray:
        """The first rows of a top, read file by file until they have ``most`` numbers: rows×…. Errors: a file
        cannot be read."""
        chunks, count = [], 0
        for file in self._files:
            if count >= most:
                break
            each = max(1, math.prod(file.row_shapes[top]))  # a label map has one for each place
            rows = slice(0, min(file.rows, max(1, (most - count) // each)))
            chunks.append(rows_of(file, self._tops, rows, top)[0])
            count += chunks[-1].size
        return np.concatenate(chunks)


def rows_of(file: ListedFile, tops: list[str], rows: slice | np.ndarray, top: int | None = None) -> list[np.ndarray]:
    """Rows of a file for each top, or for one. Errors: it cannot be read, or it has changed."""
    names, shapes = (tops, file.row_shapes) if top is None else ([tops[top]], [file.row_shapes[top]])
    try:
        inputs.check(file.path)
        return hdf5_reader.read(file.path, names, rows, shapes, file.chunks)
    except (OSError, hdf5_reader.Unreadable) as mistake:
        raise file.where.error(f"cannot read {file.path}: {inputs.reason(mistake)}") from None


def listed(listing: Path, locate: Locator) -> list[tuple[Path, Where]]:
    """Each path of the list with its line; relative to the working directory or, where it is not there, to the list's
    folder."""
    file_types.refuse_file(listing, but=(file_types.HDF5,))
    try:
        lines = inputs.read_text(listing, inputs.LIST).splitlines()
    except (OSError, UnicodeDecodeError) as mistake:
        what = f"cannot read the list of HDF5 files {listing}: {inputs.reason(mistake)}"
        raise locate.error(
            what, "source", expected="a text file", remedy="write the path of each HDF5 file on a line of its own"
        ) from None
    named = []
    for number, line in enumerate(lines, 1):
        if name := line.strip():
            near_list = listing.parent / name
            path = near_list if not os.path.exists(name) and os.path.exists(near_list) else Path(name)
            named.append((path, Where(os.fspath(listing), number)))
    return named


def look(path: Path, where: Where, tops: list[str]) -> ListedFile:
    """Reads a file's shapes, no values."""
    try:
        inputs.check(path)
        descriptions, names = hdf5_reader.look(path, tops)
    except FileNotFoundError:
        remedy = inputs.windows_path(path) or "paths count from the working directory, then from the list's folder"
        raise where.error(f"no file {path}", remedy=remedy) from None
    except (OSError, hdf5_reader.Unreadable) as mistake:
        file_types.refuse_file(path, but=(file_types.HDF5,))
        raise where.error(f"cannot open {path} as HDF5: {inputs.reason(mistake)}") from None
    shapes, chunks = [], 0
    for top, one in zip(tops, descriptions, strict=True):
        if one is None:
            said = ", ".join(names) or "none"
            raise where.error(f'{path} has no dataset "{top}"', expected="one for each top", found=said)
        if not one.shape or not one.numbers:
            said = f"{one.shape or 'a single value'} of {one.type}"
            raise where.error(f'{path}: dataset "{top}" cannot feed a top', expected="an array of numbers", found=said)
        shapes.append(one.shape)
        chunks += one.chunk
    if len({shape[0] for shape in shapes}) > 1:
        said = ", ".join((f"{top} {shape[0]}" for top, shape in zip(tops, shapes, strict=True)))
        raise where.error(f"{path}: datasets differ in rows", expected="as many rows in each", found=said)
    return ListedFile(path, where, shapes[0][0], [shape[1:] for shape in shapes], chunks)


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
        named = [(path, Where(str(path)))] if path.suffix.lower() in SUFFIXES else listed(path, locate)
        self.names: list[str] = []
        if named:
            try:
                self.names = hdf5_reader.look(named[0][0], [""])[1]
            except (OSError, hdf5_reader.Unreadable) as mistake:
                file_types.refuse_file(named[0][0], but=(file_types.HDF5,))
                what = f"cannot open {named[0][0]} as HDF5: {inputs.reason(mistake)}"
                raise CaffeliteError(what, where=named[0][1]) from None
        self._files = [look(each, where, self.names) for each, where in named]

    def __len__(self) -> int:
        return sum(file.rows for file in self._files)

    def __iter__(self) -> Iterator[tuple[str, Row]]:
        for file in self._files:
            size = 4 * sum(int(np.prod(shape)) for shape in file.row_shapes)
            step = max(1, BLOCK // max(1, size))
            for start in range(0, file.rows, step):
                rows = slice(start, min(file.rows, start + step))
                arrays = rows_of(file, self.names, rows)
                for i in range(rows.stop - start):
                    row = {name: values[i] for name, values in zip(self.names, arrays, strict=True)}
                    yield f"{file.path} row {start + i}", row
