"""Caffe's CSV files of a run: NumIters, Seconds, LearningRate and the outputs, as its parse_log.py writes them."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from ..errors import CaffeliteError
from .history import History, Row

HEAD = ("NumIters", "Seconds", "LearningRate")


def write(history: History, folder: Path) -> list[Path]:
    """Writes NAME.train and NAME.test, and NAME.test1 and so on for more test nets; the paths, in this order."""
    phases = [("train", history.train), *((f"test{net or ''}", rows) for net, rows in sorted(history.tests.items()))]
    phases += [("test", [])] * (not history.tests)
    rates, written = _rates(history), []
    for phase, rows in phases:
        path = folder / f"{history.name}.{phase}"
        try:
            with open(path, "w", newline="") as file:
                names = list(dict.fromkeys(name for row in rows for name in row.values))
                table = csv.writer(file, lineterminator="\n")
                table.writerows([[*HEAD, *names], *(_line(row, rates[id(row)], names) for row in rows)] if rows else [])
        except OSError as error:
            raise CaffeliteError(f"cannot write {path}: {(error.strerror or '').lower()}") from None
        written.append(path)
    return written


def _rates(history: History) -> dict[int, float]:
    """The LearningRate of each row as Caffe's script computes it: the last one logged before the row, the first row's
    from its successor."""
    latest, found = math.nan, {}
    order = [(row.iteration, 1, row) for row in history.train] + [
        (r.iteration, 0, r) for rows in history.tests.values() for r in rows
    ]
    for _, trains, row in sorted(order, key=lambda entry: entry[:2]):
        found[id(row)] = latest
        if trains and not math.isnan(row.rate):
            latest = row.rate
    for rows in (history.train, *history.tests.values()):
        if len(rows) > 1:
            found[id(rows[0])] = found[id(rows[1])]
    return found


def _line(row: Row, rate: float, names: list[str]) -> list[object]:
    return [float(row.iteration), row.seconds, rate, *(row.values.get(name, "") for name in names)]
