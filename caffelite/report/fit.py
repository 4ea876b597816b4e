"""The errors of a regression: MAE, RMSE, R², and a sample of the values for the charts."""

import math
from dataclasses import dataclass

import numpy as np

from ..layers.base.facets import Compares
from ..net.graph import Graph, Value
from .statistics import RowSample

MOST_POINTS = 5000  # that a picture shows
MOST_OUTPUTS = 100  # numbers of a sample that have errors of their own


@dataclass(frozen=True)
class Regression:
    """The blobs that a loss compares. weights: blobs that are 0 where a value is not counted."""

    prediction: Value
    target: Value
    weights: tuple[Value, ...]


def regression(graph: Graph) -> Regression | None:
    """The last loss that compares a prediction with a target of as many numbers; None in a net that has none.

    The target is the second bottom, or the first where only the second one has learned parameters below it.
    """
    nodes = [node for node in graph.nodes if Compares.of(node.layer.spec.type).values and len(node.bottoms) > 1]
    if not nodes:
        return None
    learned: set[Value] = set()
    for node in graph.nodes:
        if node.params or not learned.isdisjoint(node.bottoms):
            learned.update(node.tops)
    first, second, *weights = nodes[-1].bottoms
    if first not in learned and second in learned:
        first, second = second, first
    return Regression(first, second, tuple(weights))


class Fit:
    """Predictions and targets, accumulated batch by batch. nan: the number of pairs that are not finite; all other
    results exclude them.

    points: 2×P, targets and predictions of every ``stride``-th pair, for charts. outputs: the same for each of several
    numbers of a sample.
    """

    def __init__(self, columns: int = 1) -> None:
        self.outputs = [Fit() for _ in range(columns)] if 1 < columns <= MOST_OUTPUTS else []
        self.values = self.nan = 0
        self._absolute = self._squared = self._error = 0.0
        self._mean = self._spread = 0.0  # of the targets: their mean, and Σ (t - mean)²
        self._sample = RowSample(MOST_POINTS)

    def add(self, predictions: np.ndarray, targets: np.ndarray) -> None:
        """Flat arrays of one length, float64."""
        finite = np.isfinite(predictions) & np.isfinite(targets)
        self.nan += int((~finite).sum())
        p, t = predictions[finite], targets[finite]
        if not len(p):
            return
        error = p - t
        self._absolute += float(np.abs(error).sum())
        self._squared += float((error * error).sum())
        self._error += float(error.sum())
        before, n, mean = self.values, len(t), float(t.mean())
        apart = mean - self._mean
        self.values += n
        self._spread += float(((t - mean) ** 2).sum()) + apart * apart * before * n / self.values
        self._mean += apart * n / self.values
        self._sample.add(t, p)

    @property
    def stride(self) -> int:
        return self._sample.stride

    @property
    def points(self) -> np.ndarray:
        return np.stack(self._sample.arrays()) if self._sample.seen else np.zeros((2, 0))

    def add_columns(self, predictions: np.ndarray, targets: np.ndarray, keep: np.ndarray) -> None:
        """As ``add``, for arrays of N×D numbers, flat. keep: whether a number counts."""
        self.add(predictions[keep], targets[keep])
        columns = len(self.outputs)
        for c, output in enumerate(self.outputs):
            mine = keep[c::columns]
            output.add(predictions[c::columns][mine], targets[c::columns][mine])

    def figures(self) -> dict:
        """MAE, RMSE, the mean error (prediction less target) and R² = 1 - Σ (t - p)² / Σ (t - mean)²; None where there
        is none."""
        n = self.values
        return {
            "values": n,
            "nan": self.nan,
            "mae": self._absolute / n if n else None,
            "rmse": math.sqrt(self._squared / n) if n else None,
            "mean_error": self._error / n if n else None,
            "r2": 1 - self._squared / self._spread if n and self._spread > 0 else None,
        }
