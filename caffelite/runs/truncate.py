"""Removes the records of iterations that a resumed run will do again."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from .. import inputs
from . import folder as files

_ITERATION = re.compile(rb"\] Iteration (\d+)\b")
_OUTPUT = re.compile(rb"\] (    (Train|Test) net output #|Test loss: )")


def metrics(path: Path, iteration: int, columns: list[str]) -> tuple[list[str], float]:
    """Keeps the rows of iterations before ``iteration`` and writes the header.

    Returns the columns, which are ``columns`` and further ones of the file, and the seconds of the last row.
    Errors: OSError.
    """
    kept = []
    if path.exists():
        with open(path, newline="") as file:
            kept = [row for row in csv.DictReader(file) if _before(row["iteration"], iteration)]
    columns = list(dict.fromkeys([*columns, *(name for row in kept for name in row if name)]))
    out = io.StringIO()
    table = csv.DictWriter(out, columns, lineterminator="\n", extrasaction="ignore")
    table.writeheader()
    table.writerows(kept)
    files.write_atomically(path, out.getvalue())
    return columns, float(kept[-1]["seconds"] or 0) if kept else 0.0


def _before(text: str | None, iteration: int) -> bool:
    return text is not None and text.isdecimal() and int(text) < iteration


def losses(path: Path, iteration: int) -> io.BufferedRandom:
    """Opens the file of losses for writing, less those of ``iteration`` and later ones. Errors: OSError."""
    file = open(path, "r+b" if path.exists() else "w+b")
    if file.seek(0, io.SEEK_END) > 4 * iteration:
        file.truncate(4 * iteration)
    return file


def log(path: Path, iteration: int) -> None:
    """Removes the lines that report ``iteration`` or a later one, with the scores below them; other lines stay.

    What ended the earlier session is thus still in the log. Errors: OSError.
    """
    if not path.exists():
        return
    lines = inputs.read(path, inputs.LOG).splitlines(keepends=True)
    kept = list(_log_lines_before(lines, iteration))
    if len(kept) < len(lines):
        draft = path.with_name(f".{path.name}.draft")
        draft.write_bytes(b"".join(kept))
        draft.replace(path)


def _log_lines_before(lines: list[bytes], iteration: int) -> Iterator[bytes]:
    dropping = False
    for line in lines:
        if match := _ITERATION.search(line):
            dropping = int(match[1]) >= iteration
        if dropping and (match or _OUTPUT.search(line)):
            continue
        yield line
