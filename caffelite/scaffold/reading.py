"""Finds and reads the data of a project: what kind of source a path is, where its test set is, and what a net has to
learn: one class, several labels or numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from .. import caffelite_pb2 as pb, inputs
from ..data import class_names, listing
from ..data.draws import key
from ..data.listing import MOST_MISTAKES, Listed, number, read_rows
from ..data.pictures import ENDINGS
from ..data.records import Records, backend_of
from ..data.writers import progress_bar, write_records
from ..errors import CaffeliteError, Collector, Where

TEST_FOLDERS = ("test", "val")
EXPECTED = "a folder of class folders, a list of images, a .csv table, or a database such as pets_train_lmdb"


def read(source: Path, task: str | None, skip: list[str] | None, progress: bool) -> Dataset:
    """The data of a source, with its test set where it has one next to it.

    task: forces what a table's answers are. skip: receives files that are no images; None: they are errors. Errors:
    no such source; those of its kind.
    """
    if not os.path.exists(source):
        raise CaffeliteError(f"no data: {source} does not exist", expected=EXPECTED)
    if backend_of(source):
        return _databases(source, progress)
    if source.is_dir():
        return _folder(source, skip)
    if source.suffix.lower() == ".csv":
        return read_table(source, task)
    if source.name.endswith((".tar", ".tar.gz", ".tgz", ".zip")):
        raise Where(str(source)).error("an archive", expected=EXPECTED, remedy="unpack it first")
    if source.suffix.lower() in ENDINGS:
        raise CaffeliteError(f"{source} is one image", expected=EXPECTED)
    listed = [_resolved(image, source.parent) for image in listing.read_list(source)]
    return Dataset(str(source), CLASSES, _names(source, listed), "a list with one label per image", Subset(listed))


def read_test(source: Path, data: Dataset, skip: list[str] | None, progress: bool) -> Subset:
    """A second source as test set. Errors: another kind of data than that of training, an unknown class."""
    if not os.path.exists(source):
        raise CaffeliteError(f"-test: {source} does not exist", expected="a fraction, as in 0.2, or a path")
    if backend_of(source):
        if data.train.database is None:
            raise _unlike(source, data)
        return Subset(database=source, labels=_database_labels(source, progress))
    if data.train.database is not None:
        raise _unlike(source, data)
    if source.is_dir():
        return _folder_part(source, data.names, skip)[0]
    if source.suffix.lower() == ".csv":
        return read_table(source, data.task, data.names).train
    return Subset([_resolved(image, source.parent) for image in listing.read_list(source)])


def _unlike(source: Path, data: Dataset) -> CaffeliteError:
    expected = "a database" if data.train.database else "images, as for training"
    return CaffeliteError(f"-test: {source} is another kind of data than {data.source}", expected=expected)


def _resolved(image: Listed, folder: Path) -> Listed:
    return Listed(inputs.beside(folder, image.name), image.label, image.where)


# folders


def _folder(source: Path, skip: list[str] | None) -> Dataset:
    if (source / "train").is_dir():
        for name in TEST_FOLDERS:
            if (source / name).is_dir():
                train, names = _folder_part(source / "train", [], skip)
                test, _ = _folder_part(source / name, names, skip)
                return Dataset(str(source), CLASSES, names, "a folder per class", train, test)
    train, names = _folder_part(source, [], skip)
    return Dataset(str(source), CLASSES, names, "a folder per class", train)


def _folder_part(source: Path, names: list[str], skip: list[str] | None) -> tuple[Subset, list[str]]:
    remedy = "move it away, or leave it out with -skip"
    listed, names = listing.list_classes(listing.files_below(source), str(source), names, skip, remedy)
    return Subset([Listed(str(source / image.name), image.label, image.where) for image in listed]), names


# lists


def _names(source: Path, listed: list[Listed]) -> list[str]:
    """Names of the classes: from a file of labels next to the source, else their numbers."""
    labels = {image.label for image in listed}
    if min(labels) < 0:
        where = next(image.where for image in listed if image.label < 0)
        raise CaffeliteError("a negative label", where=where, expected="0 or more", found=min(labels))
    return _label_file(source, max(labels) + 1) or [str(i) for i in range(max(labels) + 1)]


def _label_file(source: Path, count: int) -> list[str]:
    """The names in a file next to the source; empty where there is none."""
    names = class_names.of_data(source)
    if names and len(names) < count:
        what = f"the labels next to {source} name {len(names)} classes"
        raise CaffeliteError(what, expected=f"{count}, the highest label in {source} plus 1")
    return names


# databases


def _databases(source: Path, progress: bool) -> Dataset:
    labels = _database_labels(source, progress)
    names = _label_file(source, int(labels.max()) + 1) or [str(i) for i in range(int(labels.max()) + 1)]
    test = None
    for other in TEST_FOLDERS:
        path = source.with_name(re.sub("train", other, source.name))
        if path != source and path.is_dir():
            test = Subset(database=path, labels=_database_labels(path, progress))
            break
    return Dataset(
        str(source), CLASSES, names, "a database has one label per image", Subset(database=source, labels=labels), test
    )


def _database_labels(path: Path, progress: bool) -> np.ndarray:
    """The label of every record. Errors: a record that is no Datum; a negative label."""
    labels = []
    with Records(path) as records, progress_bar(path.name, len(records), progress, "labels") as bar:
        for record, value in records:
            try:
                labels.append(pb.Datum.FromString(value).label)
            except DecodeError:
                raise records.bad(record, "not a Datum record") from None
            if labels[-1] < 0:
                raise records.bad(record, "a negative label", expected="0 or more", found=labels[-1])
            bar.update()
    return np.array(labels)


def split_database(subset: Subset, count: int, seed: int, paths: Sequence[Path], progress: bool) -> None:
    """Copies a database's records into one to train and one with ``count`` records to test; labels and seed decide
    which."""
    assert subset.database is not None and subset.labels is not None
    chosen = set(database_test_rows(subset, count, seed))
    for path, wanted in ((paths[0], False), (paths[1], True)):
        with Records(subset.database) as records:
            selected = (record for row, record in enumerate(records) if (row in chosen) == wanted)
            total = count if wanted else len(subset) - count
            write_records(path, selected, total, progress, backend="lmdb")


def database_test_rows(subset: Subset, count: int, seed: int) -> list[int]:
    """``count`` record numbers, spread over the classes in proportion."""
    assert subset.labels is not None
    order = sorted(range(len(subset)), key=lambda row: key(seed, "split", str(row)))
    by_class: dict[int, list[int]] = {}
    for row in order:
        by_class.setdefault(int(subset.labels[row]), []).append(row)
    ranked = [
        (position / len(rows), label, row) for label, rows in by_class.items() for position, row in enumerate(rows)
    ]
    return [row for _, _, row in sorted(ranked)[:count]]


SEPARATORS = re.compile(r"[;|]")

Row = tuple[Where, list[str]]


def read_table(path: Path, task: str | None, known: list[str] | None = None) -> Dataset:
    """The images of a CSV file with their answers. task: forces one; None: decides by the content. known: names of
    the classes, labels or columns of the training data, which a test file must have too.

    Errors, with their lines: rows of several lengths, cells that do not fit the task, an unknown name.
    """
    rows = read_rows(path)
    if not rows:
        raise Where(str(path)).error("the table is empty", expected="rows of file, answers")
    header, rows = _header(rows)
    if not rows or min(len(cells) for _, cells in rows) < 2:
        where = next((where for where, cells in rows if len(cells) < 2), Where(str(path)))
        raise CaffeliteError("no answer", where=where, expected="a file, then its labels or numbers")
    decided, why = decide(rows, header)
    task = task or decided
    if task != decided:
        why = f"-task {task} was given"
    reader = {CLASSES: _classes, LABELS: _labels, NUMBERS: _numbers}[task]
    names, values = reader(path, header, rows, known)
    base = path.parent
    labels = values if task == CLASSES else np.zeros(len(rows), int)
    listed = [
        Listed(inputs.beside(base, cells[0]), int(label), where)
        for (where, cells), label in zip(rows, labels, strict=True)
    ]
    return Dataset(str(path), task, names, why, Subset(listed, None if task == CLASSES else values.astype(np.float32)))


def _header(rows: list[Row]) -> tuple[list[str] | None, list[Row]]:
    """The header, where the first row is one, and the other rows: its first cell names no image file."""
    first = rows[0][1]
    named = re.search(r"\.\w{2,5}$", first[0]) is None
    return (first, rows[1:]) if named else (None, rows)


def decide(rows: list[Row], header: list[str] | None = None) -> tuple[str, str]:
    """(task, reason) by the cells after the file names."""
    cells = [cell for _, row in rows for cell in row[1:] if cell]
    columns = max(len(row) for _, row in rows) - 1
    parsed = [number(cell) for cell in cells]
    if None not in parsed:
        values = {value for value in parsed if value is not None}
        if columns > 1 and values <= {0.0, 1.0}:
            return LABELS, f"{columns} columns of 0 and 1: several labels can hold at once"
        whole = all(value == int(value) and value >= 0 for value in values)
        if columns == 1 and whole and values == set(range(len(values))) and 2 * len(values) <= len(rows):
            return CLASSES, f"one column with every whole number from 0 to {len(values) - 1}: classes"
        return NUMBERS, f"{columns} column{'s' * (columns > 1)} of numbers that are not 0 and 1 alone"
    several = columns > 1 or any(SEPARATORS.search(cell) for cell in cells)
    if several:
        return LABELS, "words, of which an image has several"
    return CLASSES, "one word for each image: classes"


def _words(cells: list[str]) -> list[str]:
    return [word.strip() for cell in cells for word in SEPARATORS.split(cell) if word.strip()]


def _classes(path: Path, header: list[str] | None, rows: list[Row], known: list[str] | None):
    words = [_words(cells[1:]) for _, cells in rows]
    for (where, _), cell in zip(rows, words, strict=True):
        if len(cell) != 1:
            remedy = "for several labels give -task labels"
            raise CaffeliteError("not one class", where=where, expected=1, found=len(cell), remedy=remedy)
    every = {cell[0] for cell in words}
    whole = all(word.isdigit() for word in every)
    names = known or ([str(i) for i in range(max(map(int, every)) + 1)] if whole else sorted(every))
    index = {name: i for i, name in enumerate(names)}
    return names, np.array([_known(index, cell[0], where) for (where, _), cell in zip(rows, words, strict=True)])


def _labels(path: Path, header: list[str] | None, rows: list[Row], known: list[str] | None):
    cells = [cell for _, row in rows for cell in row[1:]]
    if all(number(cell) in (0, 1) for cell in cells):
        names, values = _numbers(path, header, rows, known)
        return names, values
    words = [_words(row[1:]) for _, row in rows]
    names = known or sorted({word for image_words in words for word in image_words})
    index = {name: i for i, name in enumerate(names)}
    values = np.zeros((len(rows), len(names)))
    for i, ((where, _), image_words) in enumerate(zip(rows, words, strict=True)):
        for word in image_words:
            values[i, _known(index, word, where)] = 1
    return names, values


def _known(index: dict[str, int], word: str, where: Where) -> int:
    if word not in index:
        shown = ", ".join(list(index)[:10])
        raise CaffeliteError("an unknown name", where=where, expected=f"one of {shown}", found=f'"{word}"')
    return index[word]


def _numbers(path: Path, header: list[str] | None, rows: list[Row], known: list[str] | None):
    columns = len(header or rows[0][1]) - 1
    names = (header or [])[1:] or [f"value{i + 1}" for i in range(columns)]
    if known is not None and len(known) != columns:
        raise CaffeliteError("other columns than in training", where=rows[0][0], expected=len(known), found=columns)
    mistakes, values = Collector(), np.zeros((len(rows), columns))
    for i, (where, cells) in enumerate(rows):
        parsed = [number(cell) for cell in cells[1:]]
        if len(parsed) != columns:
            found = f"{len(parsed)} after the file"
            mistakes.add(CaffeliteError("a row of another length", where=where, expected=columns, found=found))
        elif None in parsed:
            cell = cells[1 + parsed.index(None)]
            mistakes.add(CaffeliteError("no number", where=where, expected="a finite number", found=f'"{cell}"'))
        else:
            values[i] = parsed
        if len(mistakes.mistakes) == MOST_MISTAKES:
            break
    mistakes.raise_any()
    return known or names, values


CLASSES, LABELS, NUMBERS = "classes", "labels", "numbers"
TASKS = (CLASSES, LABELS, NUMBERS)


@dataclass
class Subset:
    """Training or test samples. Of files: listed, with a class as label, and values (files × columns) for labels and
    numbers. Of a database: its path, and count and labels of its records."""

    listed: list[Listed] = field(default_factory=list)
    values: np.ndarray | None = None
    database: Path | None = None
    labels: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.listed) if self.labels is None else len(self.labels)

    def take(self, rows: Sequence[int]) -> Subset:
        """The samples of files with these numbers."""
        values = None if self.values is None else self.values[list(rows)]
        return Subset([self.listed[row] for row in rows], values)


@dataclass
class Dataset:
    """task: CLASSES (one of several per sample), LABELS (any of several), NUMBERS. names: of the classes, labels or
    columns. why: the reason for the task. test: None where a part of train is to be held out."""

    source: str
    task: str
    names: list[str]
    why: str
    train: Subset
    test: Subset | None = None


def held_out(subset: Subset, task: str, fraction: float, seed: int) -> list[int]:
    """The rows of files to test with: of each class a fraction, at least one of two or more; without classes a
    fraction of all. Only names and seed decide which, so that more files do not move those that were there."""
    groups: dict[int, list[int]] = {}
    for row, image in enumerate(subset.listed):
        groups.setdefault(image.label if task == CLASSES else 0, []).append(row)
    chosen = []
    for rows in groups.values():
        count = min(max(round(fraction * len(rows)), 1), len(rows) - 1)
        chosen += sorted(rows, key=lambda row: key(seed, "split", subset.listed[row].name))[:count]
    return in_hash_order(subset, chosen, seed)


def in_hash_order(subset: Subset, rows: list[int], seed: int) -> list[int]:
    """Rows in an order that names and seed decide."""
    return sorted(rows, key=lambda row: key(seed, "order", subset.listed[row].name))
