"""Outputs that say which detections are right: their rows over all batches, and the mean average precision of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..detection.precision import mean_precision
from ..net.graph import Graph, Value

WIDTH = 5  # numbers of a row


class Judged:
    """Collects the rows of a net's DetectionEvaluate outputs, by the number of the output.

    version: of the average precision; None: as each layer says.
    """

    def __init__(self, outputs: Sequence[Value], version: str | None = None):
        self.versions = {
            i: version or value.node.layer.p.ap_version
            for i, value in enumerate(outputs)
            if value.node.layer.evaluates_detection
        }
        self._rows: dict[int, list[np.ndarray]] = {i: [] for i in self.versions}

    def add(self, output: int, values: np.ndarray) -> np.ndarray:
        """Adds the rows of a batch; returns their mean average precision (1)."""
        rows = values.reshape(-1, WIDTH)
        self._rows[output].append(rows)
        return np.array([mean_precision(rows, self.versions[output])[0]])

    def gathered(self, comm: Any) -> dict[int, np.ndarray]:
        """The rows of all processes."""
        mine = {i: np.concatenate([np.zeros((0, WIDTH)), *rows]) for i, rows in self._rows.items()}
        if not mine:
            return mine
        every = comm.gather(mine, "scores")
        return {i: np.concatenate([part[i] for part in every]) for i in mine}

    def scores(self, rows: Mapping[int, np.ndarray]) -> dict[int, tuple[float, dict[int, float]]]:
        """The mean average precision of each output, and that of each class."""
        return {i: mean_precision(found, self.versions[i]) for i, found in rows.items()}


def judged_of(graph: Graph, version: str | None = None) -> Judged:
    return Judged(graph.outputs, version)
