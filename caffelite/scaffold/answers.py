"""Reads a CSV file of images and answers, and decides by its content what a net has to learn: one class, several labels
or numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from .. import inputs
from ..data.listing import MOST_MISTAKES, Listed, number, read_rows
from ..errors import CaffeliteError, Collector, Where
from .dataset import CLASSES, LABELS, NUMBERS, Dataset, Subset

SEPARATORS = re.compile(r"[;|]")

Row = tuple[Where, list[str]]


def read(path: Path, task: str | None, known: list[str] | None = None) -> Dataset:
    """The images of a CSV file with their answers. task: forces one; None: decides by the content. known: names of
    the classes, labels or columns of the training data, which a test file must have too.

    Errors, with their lines: rows of several lengths, cells that do not fit the task, an unknown name.
    """
    rows = read_rows(path)
    if not rows:
        raise CaffeliteError("the table is empty", where=Where(str(path)), expected="rows of file, answers")
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
