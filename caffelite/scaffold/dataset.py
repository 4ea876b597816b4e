"""What a project learns from: the samples and answers of a folder, a list, a table or a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..data.draws import key
from ..data.listing import Listed

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
