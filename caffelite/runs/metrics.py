"""The rows of a run's metrics.csv."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from typing import Any

FIXED = ("iteration", "seconds", "phase", "rate", "smoothed_loss")  # the columns before the scores
_PHASE = re.compile(r"train|test\d{0,9}")


def rows(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The values of each row by column, less those that it lacks: numbers, and ``phase`` as text. lines: the header and
    whole lines after it; one that a crash cut off is left out."""
    reader = csv.reader(line for line in lines if line.endswith("\n"))
    names = next(reader, [])
    for line in reader:
        try:
            texts = dict(zip(names, line, strict=True))
            fixed = {"iteration": int(texts["iteration"]), "phase": texts["phase"]}
            values = {name: float(text) for name, text in texts.items() if text and name not in fixed}
        except (ValueError, KeyError):
            continue
        if "seconds" in values and _PHASE.fullmatch(texts["phase"]):
            yield fixed | values


def net_of(phase: str) -> int | None:
    """The test net of a row's phase; None for training."""
    return None if phase == "train" else int(phase.removeprefix("test") or 0)
