"""Outputs that say which detections are right: their rows over all batches, and the mean average precision of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..detection.precision import mean_precision
from ..layers.detection import DetectionJudge
from ..net.graph import Graph, Value

WIDTH = 5  # numbers of a row


class Judged:
    """Collects the rows of a net's DetectionEvaluate and EvalDetection outputs, by the number of the output.

    version: of the average precision; None: as each layer says.
    """

    def __init__(self, outputs: Sequence[Value], version: str | None = None):
        self._layers: dict[int, Any] = {
            i: value.node.layer for i, value in enumerate(outputs) if isinstance(value.node.layer, DetectionJudge)
        }
        self.versions: dict[int, str] = {i: version or layer.ap_version for i, layer in self._layers.items()}
        self._rows: dict[int, list[np.ndarray]] = {i: [] for i in self.versions}

    def add(self, output: int, values: np.ndarray) -> np.ndarray:
        """Adds the rows of a batch; returns their mean average precision (1)."""
        rows = self._layers[output].judged_rows(values)
        self._rows[output].append(rows)
        return np.array([mean_precision(rows, self.versions[output])[0]])

    def collected(self, outputs: list[tuple[Value, float, np.ndarray]]) -> list[tuple[Value, float, np.ndarray]]:
        """The outputs of a batch (blob, loss weight, values) with the mean average precision in place of rows, which
        are added."""
        if not self.versions:
            return outputs
        return [
            (value, weight, self.add(i, values) if i in self.versions else values)
            for i, (value, weight, values) in enumerate(outputs)
        ]

    def finished(self, comm: Any, means: list[np.ndarray]) -> tuple[dict[int, np.ndarray], dict[int, dict[int, float]]]:
        """The rows of all processes, and what ``scores`` returns for them."""
        rows = {i: np.concatenate([np.zeros((0, WIDTH)), *parts]) for i, parts in self._rows.items()}
        if rows:
            every = comm.gather(rows, "scores")
            rows = {i: np.concatenate([part[i] for part in every]) for i in rows}
        return rows, self.scores(rows, means)

    def scores(self, rows: Mapping[int, np.ndarray], means: list[np.ndarray]) -> dict[int, dict[int, float]]:
        """The average precision of each class of each output; writes the means over classes into ``means``."""
        class_precisions = {}
        for i, one in rows.items():
            mean, class_precisions[i] = mean_precision(one, self.versions[i])
            means[i] = np.array([mean])
        return class_precisions


def judged_of(graph: Graph, version: str | None = None) -> Judged:
    return Judged(graph.outputs, version)
