"""CSV files that people open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> object:
    """A value for a CSV file that people open: text that a spreadsheet would take for a formula gets an apostrophe."""
    if not isinstance(value, str) or not value[1:] or not value.startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """The rows of a CSV file, a line each."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([cell(value) for value in row] for row in rows)
    return out.getvalue()
