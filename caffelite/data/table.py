"""Reads a table of image files: a CSV file with a header, whose first column has the files and whose other columns
have numbers."""

from __future__ import annotations

import csv
import math
import os
from dataclasses import dataclass

import numpy as np

from .. import inputs
from ..errors import CaffeliteError, Collector, Where
from .listing import MOST_MISTAKES, Listed, shortened


@dataclass(frozen=True)
class Table:
    """columns: names of the numbers; listed: the files, their label unused; values: files × columns, float32."""

    columns: tuple[str, ...]
    listed: list[Listed]
    values: np.ndarray


def read_rows(path: str | os.PathLike) -> list[tuple[Where, list[str]]]:
    """The rows of a CSV file that are not empty, with their lines; cells without the spaces around them. Errors: no
    such file, no text, a quote that is not closed."""
    try:
        text = inputs.read(path, inputs.LIST).decode("utf-8-sig", "surrogateescape")
    except OSError as mistake:
        raise CaffeliteError(f"cannot read the table: {inputs.reason(mistake)}", where=Where(str(path))) from None
    if "\0" in text:
        raise CaffeliteError("a NUL character", where=Where(str(path)), expected="a CSV file")
    reader, rows, line = csv.reader(text.splitlines(keepends=True), strict=True, skipinitialspace=True), [], 1
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append((Where(str(path), line), cells))
            line = reader.line_num + 1
    except csv.Error as mistake:
        raise CaffeliteError(f"not a CSV file: {mistake}", where=Where(str(path), line)) from None
    return rows


def number(cell: str) -> float | None:
    """The finite number that a cell holds, or None."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def read_table(path: str | os.PathLike) -> Table:
    """A table of numbers. Errors, with their lines and up to 100 at once: a cell that is no finite number, a row of
    another length than the header; no header; no rows."""
    rows = read_rows(path)
    header = rows[0][1] if rows else []
    if len(header) < 2 or all(number(cell) is not None for cell in header[1:]):
        where, expected = Where(str(path), 1), 'a header, as in "file,age,height", then a row for each file'
        raise CaffeliteError("the table has no header", where=where, expected=expected)
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
        raise CaffeliteError("the table has no rows", where=Where(str(path)))
    return Table(tuple(header[1:]), listed, np.array(values, np.float32))
