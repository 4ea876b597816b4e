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
from ..data import class_names, groups as data_groups, listing, tables
from ..data.datum_labels import labels_of
from ..data.draws import key
from ..data.listing import Listed
from ..data.pictures import ENDINGS
from ..data.records import Records, backend_of
from ..data.tables import CLASSES
from ..data.writers import progress_bar, write_records
from ..errors import CaffeliteError, Where

TEST_FOLDERS = ("test", "val")
EXPECTED = "a folder of class folders, a list of images, a .csv table, or a database such as pets_train_lmdb"


def read(source: Path, task: str | None, left_out: list[str], progress: bool, group: str | None = None) -> Dataset:
    """The data of a source, with its test set where it has one next to it.

    task: forces what a table's answers are. left_out: receives files that are no images, and empty folders. group: a
    column of a table that names the group of each image. Errors: no such source; those of its kind.
    """
    if not os.path.exists(source):
        raise CaffeliteError(f"no data: {source} does not exist", expected=EXPECTED)
    if backend_of(source):
        return _databases(source, progress)
    if source.is_dir():
        return _folder(source, left_out)
    if source.suffix.lower() == ".csv":
        return read_table(source, task, group=group)
    if source.name.endswith((".tar", ".tar.gz", ".tgz", ".zip")):
        raise Where(str(source)).error("an archive", expected=EXPECTED, remedy="unpack it first")
    if source.suffix.lower() in ENDINGS:
        raise CaffeliteError(f"{source} is one image", expected=EXPECTED)
    listed = [_resolved(image, source.parent) for image in listing.read_list(source)]
    return Dataset(str(source), CLASSES, _names(source, listed), "a list with one label per image", Subset(listed))


def read_test(source: Path, data: Dataset, left_out: list[str], progress: bool, group: str | None = None) -> Subset:
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
        return _folder_part(source, data.names, left_out)[0]
    if source.suffix.lower() == ".csv":
        return read_table(source, data.task, data.names, group).train
    listed = [_resolved(image, source.parent) for image in listing.read_list(source)]
    return Subset([_among(image, data.names) for image in listed])


def _among(image: Listed, names: list[str]) -> Listed:
    """The image of a list with its label; where classes have numbers as names, the label is such a name. Errors: no
    such class."""
    numbers = [listing.whole_number(name) for name in names]
    known = list(range(len(names))) if None in numbers else numbers
    if image.label not in known:
        shown = listing.shortened(", ".join(map(str, known)))
        raise image.where.error("a label that no training image has", expected=f"one of {shown}", found=image.label)
    return Listed(image.name, known.index(image.label), image.where)


def _unlike(source: Path, data: Dataset) -> CaffeliteError:
    expected = "a database" if data.train.database else "images, as for training"
    return CaffeliteError(f"-test: {source} is another kind of data than {data.source}", expected=expected)


def _resolved(image: Listed, folder: Path) -> Listed:
    return Listed(inputs.beside(folder, image.name), image.label, image.where)


# folders


def _folder(source: Path, left_out: list[str]) -> Dataset:
    if (source / "train").is_dir():
        for name in TEST_FOLDERS:
            if (source / name).is_dir():
                train, names = _folder_part(source / "train", [], left_out)
                test, _ = _folder_part(source / name, names, left_out)
                return Dataset(str(source), CLASSES, names, "a folder per class", train, test)
    train, names = _folder_part(source, [], left_out)
    return Dataset(str(source), CLASSES, names, "a folder per class", train)


def _folder_part(source: Path, names: list[str], left_out: list[str]) -> tuple[Subset, list[str]]:
    files = listing.files_below(source, left_out)
    listed, names = listing.list_classes(files, str(source), names, left_out)
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
                several = labels_of(pb.Datum.FromString(value), value)
            except (DecodeError, ValueError):
                raise records.bad(record, "not a Datum record") from None
            if len(several) > 1 or several[0] != int(several[0]):
                what, remedy = "its label is no class", "write the net by hand: a Data layer reads such records"
                raise records.bad(record, what, found=", ".join(map("{:g}".format, several)), remedy=remedy)
            labels.append(int(several[0]))
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


def read_table(path: Path, task: str | None, known: list[str] | None = None, group: str | None = None) -> Dataset:
    """The images of a CSV file with their answers. task: forces one; None: decides by the content. known: names of
    the classes, labels or columns of the training data, which a test file must have too. group: a column that is no
    answer. Errors: see ``tables.read``.
    """
    answers = tables.read(path, task, known, group)
    values = answers.values.astype(np.float32)
    labels = answers.values.astype(int) if answers.task == CLASSES else np.zeros(len(values), int)
    listed = [
        Listed(tables.image_file(path.parent, name), label, where)
        for (where, name), label in zip(answers.files, labels.tolist(), strict=True)
    ]
    subset = Subset(listed, None if answers.task == CLASSES else values, groups=answers.groups)
    return Dataset(str(path), answers.task, answers.names, answers.why, subset)


@dataclass
class Subset:
    """Training or test samples. Of files: listed, with a class as label, and values (files × columns) for labels and
    numbers. Of a database: its path, and count and labels of its records. groups: of each file, where a column of a
    table tells it."""

    listed: list[Listed] = field(default_factory=list)
    values: np.ndarray | None = None
    database: Path | None = None
    labels: np.ndarray | None = None
    groups: list[str] | None = None

    def __len__(self) -> int:
        return len(self.listed) if self.labels is None else len(self.labels)

    def take(self, rows: Sequence[int]) -> Subset:
        """The samples of files with these numbers."""
        values = None if self.values is None else self.values[list(rows)]
        groups = None if self.groups is None else [self.groups[row] for row in rows]
        return Subset([self.listed[row] for row in rows], values, groups=groups)


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


def held_out(subset: Subset, task: str, fraction: float, seed: int, own: Sequence[str] = ()) -> list[int]:
    """The rows of files to test with: of each class a fraction, at least one of two or more; without classes a
    fraction of all. Only names and seed decide which, so that more files do not move those that were there. own: the
    group of each file, which stays on one side."""
    if own:
        labels = [image.label if task == CLASSES else 0 for image in subset.listed]
        tested = data_groups.held_out(own, labels, fraction, seed)
        return in_hash_order(subset, [row for row, name in enumerate(own) if name in tested], seed)
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
