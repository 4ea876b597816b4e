"""ROC and precision-recall curves of scores, one class or label against the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST_VALUES = 20_000_000  # scores that are kept for curves; of more, every second sample, every fourth and so on
MOST_POINTS = 500  # of a drawn curve


@dataclass(frozen=True)
class Curve:
    """The curves of one class, by falling threshold. fpr, tpr: false and true positive rate; precision: at each tpr,
    which is the recall. auc: area under the ROC curve; ap: average precision."""

    fpr: np.ndarray
    tpr: np.ndarray
    precision: np.ndarray
    auc: float
    ap: float


def curve(scores: np.ndarray, positive: np.ndarray) -> Curve | None:
    """The curves of scores (N) for positive samples (N, bool); None where one kind of sample is missing.

    Equal scores are one threshold. ap = Σ (recall_k - recall_{k-1}) · precision_k, auc by trapezoids.
    """
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], positive[order]
    ends = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)  # the last sample of each threshold
    true = np.cumsum(hits)[ends] if len(ranked) else np.zeros(0)
    if not len(ranked) or not true[-1] or true[-1] == len(ranked):
        return None
    false = 1 + ends - true
    tpr, fpr = (np.concatenate(([0.0], values / values[-1])) for values in (true, false))
    precision = np.concatenate(([1.0], true / (1 + ends)))
    ap = float((np.diff(tpr) * precision[1:]).sum())
    auc = float((np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2).sum())
    return Curve(fpr, tpr, precision, auc, ap)


def thinned(curve: Curve) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(fpr, tpr, precision) of at most MOST_POINTS points of a curve, the ends among them."""
    at = np.unique(np.linspace(0, len(curve.tpr) - 1, MOST_POINTS).astype(int))
    return curve.fpr[at], curve.tpr[at], curve.precision[at]


class ScoreSample:
    """Scores N×C with labels, accumulated batch by batch: all of them up to MOST_VALUES scores, else those of every
    ``stride``-th sample. width: numbers of a label, 1 or C."""

    def __init__(self) -> None:
        self.stride = 1
        self.seen = 0  # samples
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []
        self._held = 0

    def add(self, scores: np.ndarray, labels: np.ndarray) -> None:
        """scores N×C; labels N (classes) or N×C (0, 1, or -1 for what does not count)."""
        first = -self.seen % self.stride
        self.seen += len(scores)
        chunk = scores[first :: self.stride].astype(np.float32), labels[first :: self.stride]
        self._parts.append(chunk)
        self._held += chunk[0].size
        while self._held > MOST_VALUES:
            self.stride *= 2
            scores_left, labels_left = (values[::2] for values in self.arrays())
            self._parts, self._held = [(scores_left, labels_left)], scores_left.size

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The kept scores and labels."""
        return np.concatenate([s for s, _ in self._parts]), np.concatenate([t for _, t in self._parts])

    def curves(self) -> list[Curve | None]:
        """The curve of each class or label against the rest; empty without samples."""
        if not self._parts:
            return []
        scores, labels = self.arrays()
        if labels.ndim == 1:
            return [curve(scores[:, c], labels == c) for c in range(scores.shape[1])]
        return [curve(scores[valid, c], labels[valid, c] > 0) for c, valid in enumerate((labels >= 0).T)]


def mean(values: list[float | None]) -> float | None:
    """The mean of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
