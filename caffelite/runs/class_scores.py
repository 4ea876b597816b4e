"""The score of each class in the tests of a run: the values of an output that has several, as the second top of
Accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import prototxt
from ..data.class_names import of_net
from ..errors import CaffeliteError
from ..training.checkpoint import snapshot
from . import folder as files, history
from .history import Row, output_of

MOST_CURVES = 8  # classes that a chart shows; of more those with the lowest last score


@dataclass(frozen=True)
class ClassScores:
    """output: its name. iterations: of T tests. values: T×C, NaN where a class has none. labels: C names of classes."""

    output: str
    iterations: list[int]
    values: np.ndarray
    labels: list[str]


def columns(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """The scores of T rows by output, NaN where a row has none: T, or T×N of an output with N values."""
    names = dict.fromkeys(name for row in rows for name in row.values)
    sizes: dict[str, int] = {}
    for output, index in map(output_of, names):
        sizes[output] = max(sizes.get(output, 0), 0 if index is None else index + 1)
    known = {name: np.array([row.values.get(name, np.nan) for row in rows]) for name in names}
    absent = np.full(len(rows), np.nan)
    return {
        output: np.stack([known.get(f"{output}[{i}]", absent) for i in range(size)], 1) if size else known[output]
        for output, size in sizes.items()
    }


def read(folder: Path) -> ClassScores | None:
    """The class scores of a run's first test net; None where it has none. Errors: the run has no records."""
    rows = history.read_tests(folder).get(0, [])
    for output, values in columns(rows).items():
        if values.ndim > 1:
            return ClassScores(output, [row.iteration for row in rows], values, labels(folder, values.shape[1]))
    return None


def labels(folder: Path, count: int) -> list[str]:
    """The names of a run's classes, as its net and its data have them; numbers where there are not ``count`` names."""
    names: list[str] = []
    path = folder / files.NET
    with suppress(CaffeliteError, OSError):
        document = prototxt.read_net(path)
        names = of_net(path, [(layer, document.locate) for layer in document.message.layer if not layer.bottom], count)
    return names or [str(i) for i in range(count)]


def lowest(values: np.ndarray, most: int = MOST_CURVES) -> list[int]:
    """The classes to draw, in their order: at most ``most``, those with the lowest last score. values: T×C."""
    last = np.nan_to_num(values[-1], nan=np.inf)
    return sorted(np.argsort(last, kind="stable")[:most].tolist())


def of_weights(weights: Path) -> ClassScores | None:
    """The class scores of the run that wrote a caffemodel, where its folder lies beside it or contains it; else
    None."""
    run = snapshot.run_of(weights)
    for folder in _runs_beside(weights) if run else ():
        with suppress(CaffeliteError):
            if any(session.get("run") == run for session in files.sessions(folder)):
                return read(folder)
    return None


def _runs_beside(weights: Path) -> Iterator[Path]:
    folder = weights.absolute().parent
    yield folder
    with suppress(OSError):
        yield from (each for each in sorted(folder.iterdir()) if (each / files.RUN).is_file())
