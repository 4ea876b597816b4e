"""Tables of files with answers: one class, several labels or numbers for each, in a .csv file."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import inputs
from ..errors import CaffeliteError, Collector, Where
from .listing import MOST_MISTAKES, arrangement, number, read_rows, whole_number, with_ending

CLASSES, LABELS, NUMBERS = "classes", "labels", "numbers"
TASKS = (CLASSES, LABELS, NUMBERS)
SEPARATORS = re.compile(r"[;|]")

Row = tuple[Where, list[str]]


@dataclass(frozen=True)
class Answers:
    """files: the place and the name of each, N of them. task: CLASSES, LABELS or NUMBERS; why: the reason for it.
    names: of the classes, labels or columns, K of them. values: a class for each file (N), or N×K numbers."""

    task: str
    names: list[str]
    why: str
    files: list[tuple[Where, str]]
    values: np.ndarray
    groups: list[str] | None = None  # of each file, where a column of the table tells it


def read(path: Path, task: str | None, known: list[str] | None = None, group: str | None = None) -> Answers:
    """The files of a table with their answers. task: forces one; None: decides by the content. known: the names of the
    classes, labels or columns in the order that is wanted, which the table must have. group: a column that is no
    answer.

    Errors, with their lines: rows of several lengths, cells that do not fit the task, a name that is not known, other
    columns.
    """
    rows = read_rows(path)
    if not rows:
        raise Where(str(path)).error("the table is empty", expected="rows of file, answers")
    header, rows = _header(path, rows)
    groups = None
    if group and header and group in header[1][1:]:
        column = header[1].index(group, 1)
        groups = [cells.pop(column) if column < len(cells) else "" for _, cells in rows]
        header[1].pop(column)
    if not rows or min(len(cells) for _, cells in rows) < 2:
        where = next((where for where, cells in rows if len(cells) < 2), Where(str(path)))
        expected = "a file, then its labels or numbers, separated by commas"
        raise CaffeliteError("no answer", where=where, expected=expected)
    decided, why = decide(rows, header[1] if header else None)
    task = task or decided
    if task != decided:
        why = f"-task {task} was given"
    reader = {CLASSES: _classes, LABELS: _labels, NUMBERS: _numbers}[task]
    names, values = reader(header, rows, known)
    return Answers(task, names, why, [(where, cells[0]) for where, cells in rows], values, groups)


def _header(path: Path, rows: list[Row]) -> tuple[Row | None, list[Row]]:
    """The header, where the first row is one, and the other rows: its first cell names no file."""
    first = rows[0][1][0]
    named = re.search(r"\.\w{2,5}$", first) or os.path.isfile(image_file(path.parent, first))
    return (None, rows) if named else (rows[0], rows[1:])


def image_file(folder: Path, name: str) -> str:
    """The path of a file that a table in a folder names: from the working directory or else from the folder, with the
    ending of an image where the table leaves it out and one file has it."""
    path = inputs.beside(folder, name)
    if inputs.exists(path):
        return path
    return with_ending(name) or with_ending(str(folder / name)) or path


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


def _classes(header: Row | None, rows: list[Row], known: list[str] | None) -> tuple[list[str], np.ndarray]:
    words = [_words(cells[1:]) for _, cells in rows]
    for (where, _), cell in zip(rows, words, strict=True):
        if len(cell) != 1:
            remedy = "for several labels: caffelite new -task labels"
            raise CaffeliteError("not one class", where=where, expected=1, found=len(cell), remedy=remedy)
    every = {cell[0] for cell in words}
    numbers = {word: whole_number(word) for word in every}
    if known is None and all(value is not None and value >= 0 for value in numbers.values()):
        names = [str(i) for i in range(max(value or 0 for value in numbers.values()) + 1)]
    else:
        names = known or sorted(every)
    index = {name: i for i, name in enumerate(names)}
    for word, value in numbers.items():  # "01" is the class "1"
        if word not in index and str(value) in index:
            index[word] = index[str(value)]
    return names, np.array([_known(index, cell[0], where) for (where, _), cell in zip(rows, words, strict=True)])


def _labels(header: Row | None, rows: list[Row], known: list[str] | None) -> tuple[list[str], np.ndarray]:
    cells = [cell for _, row in rows for cell in row[1:]]
    if all(number(cell) in (0, 1) for cell in cells):
        return _numbers(header, rows, known)
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


def _numbers(header: Row | None, rows: list[Row], known: list[str] | None) -> tuple[list[str], np.ndarray]:
    columns = len(header[1] if header else rows[0][1]) - 1
    names = header[1][1:] if header else [f"value{i + 1}" for i in range(columns)]
    if known is not None and header is None and names != known:
        expected = f'a first row "file,{",".join(known)}"'
        raise CaffeliteError("the table has no header", where=rows[0][0], expected=expected)
    order = arrangement(names, names if known is None else known, header[0] if header else rows[0][0])
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
    return [names[i] for i in order], values[:, order]
