"""Finds the images of a data set: list files, and folders of class folders."""

import csv
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from .. import file_types, inputs, roots
from ..errors import CaffeliteError, Collector, Where, did_you_mean
from .database import EXACT_LABELS
from .draws import key, permutation
from .pictures import ENDINGS

CLUTTER = {"thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx", "@eadir"}  # besides names that start with a dot
CORRECTIONS = "_corrections.csv"  # end of the names of lists that `corrections` reads
MOST_MISTAKES = 100  # of one list
MOST_NAMES = 10  # of files that are left out, in a message
AS_TABLE = 'numbers with a fraction, or several for an image, are read from a .csv table with a header, as "file,age"'
AS_NUMBER = 'number the classes from 0; caffelite new also reads a .csv table with a header, as "file,class"'
SEPARATED = re.compile(r"[,;\t]")

log = logging.getLogger("caffelite")


@dataclass(frozen=True)
class Listed:
    """An image's name below its root, its label, and where that is written."""

    name: str
    label: int
    where: Where


def whole_number(text: str) -> int | None:
    """The number that decimal digits write, with a sign or without; None for other text. Beyond 18 digits only its size
    is right."""
    match = re.fullmatch(r"([+-]?)0*(\d+)", text, re.ASCII)
    return int(match[1] + match[2][:19]) if match else None


def shortened(text: str, most: int = 60) -> str:
    """Text of a file for a message of one line."""
    return text if len(text) <= most else f"{text[:most]}…"


def read_list(path: str | os.PathLike) -> list[Listed]:
    """The lines of a list file, "NAME LABEL" each; a name may contain spaces; empty lines are skipped.

    Errors, with their lines and up to 100 at once: no label, or one that is no integer that float32 represents; an
    empty list; a file that is no text.
    """
    try:
        text = file_types.read_listing(path, "surrogateescape")
    except (OSError, UnicodeDecodeError) as mistake:
        raise Where(str(path)).error(f"cannot read the list: {inputs.reason(mistake)}") from None
    if (end := text.find("\0")) >= 0:
        found = "an image" if _is_image([str(path)]) else "a NUL character"
        where = Where(str(path), text.count("\n", 0, end) + 1)
        raise CaffeliteError("not a list of images", where=where, expected='text, lines of "NAME LABEL"', found=found)
    listed, mistakes = [], Collector()
    for line_number, line in enumerate(text.split("\n"), 1):
        where, parts = Where(str(path), line_number), line.rsplit(maxsplit=1)
        if not parts:
            continue
        if len(parts) == 1:
            remedy = AS_TABLE if SEPARATED.search(line) else None
            found = f'"{shortened(line.strip())}"'
            mistakes.add(where.error("no label", expected='"NAME LABEL"', found=found, remedy=remedy))
        elif (label := whole_number(parts[1])) is None:
            label_text = f'"{shortened(parts[1])}"'
            remedy = AS_TABLE if number(parts[1]) is not None else AS_NUMBER
            mistakes.add(where.error("the label is no number", expected="an integer", found=label_text, remedy=remedy))
        elif abs(label) > EXACT_LABELS:
            expected = f"at most {EXACT_LABELS}"
            mistakes.add(where.error("the label is too large", expected=expected, found=shortened(parts[1])))
        else:
            listed.append(Listed(parts[0], label, where))
        if len(mistakes.mistakes) == MOST_MISTAKES:
            break
    mistakes.raise_any()
    if not listed:
        raise Where(str(path)).error("the list is empty", expected='lines of "NAME LABEL"')
    return listed


def with_ending(name: str) -> str | None:
    """The one image file whose name is this one and an ending; None where there is none, or several."""
    folder, stem = os.path.split(name)
    if not stem or not os.path.isdir(folder or "."):
        return None
    endings = sorted({*ENDINGS, *(ending.upper() for ending in ENDINGS)})
    there = [name + ending for ending in endings if os.path.isfile(name + ending)]
    return there[0] if len(there) == 1 else None


def remedy_of_missing(mistake: Exception) -> str | None:
    """What may help where an image that a list names is not there: the file has an ending, or the line has several
    labels."""
    if not isinstance(mistake, FileNotFoundError):
        return None
    name = os.fsdecode(mistake.filename or "")
    if file := with_ending(name):
        return f"there is {file}: add the ending to the name"
    words = name.rsplit(maxsplit=1)
    several = len(words) == 2 and number(words[1]) is not None and _is_image([words[0].split()[0]])
    return AS_TABLE if several else None


def list_classes(
    names: Iterable[str],
    where: str,
    classes: Sequence[str] = (),
    left_out: list[str] | None = None,
    remedy: str = "move it away",
) -> tuple[list[Listed], list[str]]:
    """(images, classes) of file names "CLASS/…/FILE", in the order of the names. Classes are labeled in the order of
    their names, or of their numbers where all names are numbers, unless they are given.

    where: the container, for errors. What systems and tools leave in folders (names that start with a dot, Thumbs.db)
    is skipped with one warning. Where all files are below one folder and
    none directly in it, its subfolders are the classes. left_out: receives the files without an image's extension or
    without a class; None: they are errors with this remedy. Other errors: a class that is not among those given.
    """
    parts = sorted(tuple(name.split("/")) for name in names if not name.endswith(CORRECTIONS))
    clutter = Counter(part for p in parts if (part := clutter_of(p)))
    if clutter:
        shown = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in sorted(clutter.items()))
        log.warning("%s: skipped %d files that are no data: %s", where, clutter.total(), shown)
        parts = [p for p in parts if not clutter_of(p)]
    around = _around(parts, classes)
    folders = in_order_of_classes({p[around] for p in parts if len(p) > around + 1})
    if not folders:
        raise Where(where).error("no class folders", expected="a folder of images for each class")
    classes = list(classes) or folders
    mistakes, listed = Collector(), []
    label = {name: number for number, name in enumerate(classes)}
    for name in sorted(set(folders) - set(classes)):
        expected = f"one of {shortened(', '.join(classes), 200)}"
        mistakes.add(Where(f"{where}/{name}").error("another class", expected=expected))
    for p in parts:
        where_it_is = Where(f"{where}/{'/'.join(p)}")
        strange = None if _is_image(p) else "not an image by its name"
        if len(p) <= around + 1:
            strange = "a file that is in no class folder"
        if not strange:
            listed.append(Listed("/".join(p), label.get(p[around], 0), where_it_is))
        elif left_out is not None:
            left_out.append(f"{where_it_is}: {strange}")
        else:
            mistakes.add(CaffeliteError(strange, where=where_it_is, remedy=remedy))
    mistakes.raise_any()
    if not listed:
        what = "no images in the class folders"
        raise Where(where).error(what, expected=f"files that end with {', '.join(ENDINGS)}")
    return listed, classes


def clutter_of(parts: Iterable[str]) -> str | None:
    """The part of a path that no user has made."""
    return next((name for name in parts if name.startswith(".") or name.lower() in CLUTTER), None)


def describe_left_out(names: Sequence[str]) -> str:
    """How many files were left out, with the first names."""
    what = "1 file is" if len(names) == 1 else f"{len(names)} files are"
    return f"{what} left out: {', '.join(names[:MOST_NAMES])}{', …' if len(names) > MOST_NAMES else ''}"


def _is_image(parts: Sequence[str]) -> bool:
    return os.path.splitext(parts[-1])[1].lower() in ENDINGS


def in_order_of_classes(names: Iterable[str]) -> list[str]:
    """Names of classes in the order of their labels: by number where all of them are numbers, else as text."""
    names = list(names)
    numbers = {name: whole_number(name) for name in names}
    return sorted(names) if None in numbers.values() else sorted(names, key=lambda name: (numbers[name], name))


def _around(parts: Sequence[tuple[str, ...]], classes: Sequence[str]) -> int:
    """The number of nested folders around the class folders: each has no sibling, is none of the known classes and
    contains folders, but no image."""
    depth = 0
    while True:
        tops = {p[depth] for p in parts if len(p) > depth + 1}
        images = any(_is_image(p) for p in parts if len(p) in (depth + 1, depth + 2))
        if len(tops) != 1 or images or tops & set(classes) or not any(len(p) > depth + 2 for p in parts):
            return depth
        depth += 1


def split(listed: Sequence[Listed], share: float, seed: int) -> tuple[list[Listed], list[Listed]]:
    """(train, test): a share of each label's images, at least one of two or more, goes to the test set, chosen by
    hashes of the names."""
    by_label: dict[int, list[Listed]] = {}
    for image in listed:
        by_label.setdefault(image.label, []).append(image)
    chosen = set()
    for images in by_label.values():
        count = min(max(round(share * len(images)), 1), len(images) - 1) if share else 0
        chosen.update(sorted((image.name for image in images), key=lambda name: key(seed, "split", name))[:count])
    return parted(listed, chosen)


def parted(listed: Sequence[Listed], names: Container[str]) -> tuple[list[Listed], list[Listed]]:
    """(those of other names, those of these names)."""
    return [i for i in listed if i.name not in names], [i for i in listed if i.name in names]


def files_below(folder: str | os.PathLike, left_out: list[str] | None = None) -> list[str]:
    """Every file in a folder and its folders, by its name from there. left_out: receives folders that are empty; None:
    they are errors. Other errors: not a folder; a link to a folder that it is in."""
    folder = Path(folder)
    if not folder.is_dir():
        near = did_you_mean(folder.name, (p.name for p in folder.parent.glob("*/"))) if folder.parent.is_dir() else None
        raise Where(str(folder)).error("not a folder", expected="a folder of class folders", remedy=near)
    names = []
    for parent, folders, files in roots.walk(folder):
        below = os.path.relpath(parent, folder)
        if below != "." and not folders and not files and not clutter_of(below.split(os.sep)):
            if left_out is None:
                raise Where(parent).error("the folder is empty", remedy="remove it, or put its images there")
            left_out.append(f"{parent}: the folder is empty")
        for path in (os.path.join(parent, name) for name in folders):
            if os.path.islink(path) and Path(os.path.realpath(parent)).is_relative_to(os.path.realpath(path)):
                raise Where(path).error("a link to a folder that it is in", remedy="remove the link")
        names += [os.path.normpath(os.path.join(below, file)).replace(os.sep, "/") for file in files]
    return names


def shuffled(listed: Sequence[Listed], seed: int) -> list[Listed]:
    """The same images in an order that the seed alone decides."""
    return [listed[i] for i in permutation(key(seed, "list"), 0, 0, len(listed))]


def list_lines(path: Path) -> list[str]:
    """The lines of a list that are not empty, without the spaces around them. Errors: those of opening files."""
    if path.is_dir():
        return []
    return [line.strip() for line in file_types.read_listing(path, "surrogateescape").split("\n") if line.strip()]


def placed_lines(path: Path) -> Iterator[tuple[Where, str]]:
    """The lines of a list that are not empty, each with its place. Errors: the list cannot be read."""
    try:
        lines = file_types.read_listing(path, "surrogateescape").split("\n")
    except (OSError, UnicodeDecodeError) as mistake:
        raise Where(str(path)).error(f"cannot read the list: {inputs.reason(mistake)}") from None
    return ((Where(str(path), number), line) for number, line in enumerate(lines, 1) if line.strip())


Entry = TypeVar("Entry")


def read_entries(path: Path, parse: Callable[[list[str], Where], Entry | None], line: str, lines: str) -> list[Entry]:
    """What ``parse`` makes of the words and the place of each line that is not empty. line, lines: what is expected.
    Errors: the list cannot be read; a line of which ``parse`` makes None; an empty list."""
    entries = []
    for where, text in placed_lines(path):
        entry = None if "\0" in text else parse(text.split(), where)
        if entry is None:
            raise where.error("a line is not understood", expected=line, found=f'"{shortened(text.strip())}"')
        entries.append(entry)
    if not entries:
        raise Where(str(path)).error("the list is empty", expected=lines)
    return entries


@dataclass(frozen=True)
class Table:
    """columns: names of the numbers; listed: the files, their label unused; values: files × columns, float32."""

    columns: tuple[str, ...]
    listed: list[Listed]
    values: np.ndarray


def read_rows(path: str | os.PathLike) -> list[tuple[Where, list[str]]]:
    """The rows of a CSV file that are not empty, with their lines; cells without the spaces around them. Where the
    first row has no comma, semicolons or else tabs separate. Errors: no such file, no text, a quote that is not
    closed."""
    try:
        text = file_types.read_listing(path, "surrogateescape")
    except (OSError, UnicodeDecodeError) as mistake:
        raise Where(str(path)).error(f"cannot read the table: {inputs.reason(mistake)}") from None
    if "\0" in text:
        raise Where(str(path)).error("a NUL character", expected="a CSV file")
    first = re.sub(r'"[^"]*"', "", text.lstrip().partition("\n")[0])
    separator = next((one for one in ",;\t" if one in first), ",")
    lines = text.splitlines(keepends=True)
    reader, rows, line = csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=True), [], 1
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append((Where(str(path), line), cells))
            line = reader.line_num + 1
    except csv.Error as mistake:
        raise Where(str(path), line).error(f"not a CSV file: {mistake}") from None
    return rows


def number(cell: str) -> float | None:
    """The finite number that a cell holds, or None."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def read_columns(path: str | os.PathLike) -> tuple[str, ...]:
    """The names of the numbers in a table. Errors: it cannot be read; no header."""
    return tuple(_header(path, read_rows(path))[1:])


def _header(path: str | os.PathLike, rows: list[tuple[Where, list[str]]]) -> list[str]:
    header = rows[0][1] if rows else []
    if len(header) < 2 or all(number(cell) is not None for cell in header[1:]):
        expected = 'a header, as in "file,age,height", then a row for each file'
        raise Where(str(path), 1).error("the table has no header", expected=expected)
    return header


def arrangement(columns: Sequence[str], wanted: Sequence[str], where: Where) -> list[int]:
    """The index of each wanted column. Errors: one of them is not there, another one is, or one occurs twice."""
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise where.error("two columns have one name", found=f'"{shortened(twice)}"')
    if set(columns) != set(wanted):
        missing = [f'no "{shortened(name)}"' for name in wanted if name not in columns]
        others = [f'"{shortened(name)}"' for name in columns if name not in wanted]
        expected = shortened(", ".join(wanted), 200)
        found = shortened(", ".join([*missing, *others]), 200)
        raise where.error("other columns than in training", expected=expected, found=found)
    return [columns.index(name) for name in wanted]


def read_table(path: str | os.PathLike, columns: Sequence[str] = ()) -> Table:
    """A table of numbers. columns: the names in the order that is wanted; default: as they are. Errors, with their
    lines and up to 100 at once: a cell that is no finite number, a row of another length than the header; no header; no
    rows; other columns than those wanted."""
    rows = read_rows(path)
    header = _header(path, rows)
    order = arrangement(header[1:], columns, rows[0][0]) if columns else list(range(len(header) - 1))
    mistakes, listed, values = Collector(), [], []
    for where, cells in rows[1:]:
        row_values = [number(cell) for cell in cells[1:]]
        if len(cells) != len(header):
            found = f"{len(cells)} columns"
            mistakes.add(CaffeliteError("a row of another length", where=where, expected=len(header), found=found))
        elif None in row_values:
            cell = shortened(cells[1 + row_values.index(None)])
            what = f'column "{shortened(header[1 + row_values.index(None)])}" holds no number'
            mistakes.add(CaffeliteError(what, where=where, expected="a finite number", found=f'"{cell}"'))
        else:
            listed.append(Listed(cells[0], 0, where))
            values.append(row_values)
        if len(mistakes.mistakes) == MOST_MISTAKES:
            break
    mistakes.raise_any()
    if not listed:
        raise Where(str(path)).error("the table has no rows")
    return Table(tuple(header[1 + i] for i in order), listed, np.array(values, np.float32)[:, order])
