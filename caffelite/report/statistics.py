"""Intervals, confusion and calibration: the arithmetic of a report."""

import math
from dataclasses import dataclass, field

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


class RowSample:
    """Pairs of arrays, accumulated batch by batch: all rows while the first array has at most ``most`` numbers, else
    every ``stride``-th row."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self.stride, self.seen = 1, 0
        self._pairs: list[tuple[np.ndarray, ...]] = []

    def add(self, one: np.ndarray, other: np.ndarray) -> None:
        """Arrays of equally many rows."""
        start = -self.seen % self.stride
        self.seen += len(one)
        self._pairs.append(tuple(np.ascontiguousarray(values[start :: self.stride]) for values in (one, other)))
        self._held += self._pairs[-1][0].size
        while self._held > self._most:
            self.stride *= 2
            one, other = self.arrays()
            self._pairs, self._held = [(one[::2], other[::2])], one[::2].size

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows that are left."""
        one, other = (np.concatenate(arrays) for arrays in zip(*self._pairs, strict=True))
        return one, other


class ScoreSample(RowSample):
    """Scores N×C with labels, N (classes) or N×C (0, 1, or -1 for what does not count), of at most MOST_VALUES
    scores."""

    def __init__(self) -> None:
        super().__init__(MOST_VALUES)
        self._curves: list[Curve | None] | None = None

    def add(self, one: np.ndarray, other: np.ndarray) -> None:
        super().add(one.astype(np.float32), other)
        self._curves = None

    def curves(self) -> list[Curve | None]:
        """The curve of each class or label against the rest; empty without samples."""
        if self._curves is None and self._pairs:
            scores, labels = self.arrays()
            if labels.ndim == 1:
                self._curves = [curve(scores[:, c], labels == c) for c in range(scores.shape[1])]
            else:
                valid = labels >= 0
                columns = range(scores.shape[1])
                self._curves = [curve(scores[valid[:, c], c], labels[valid[:, c], c] > 0) for c in columns]
        return self._curves or []


def mean(values: list[float | None]) -> float | None:
    """The mean of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


Z = 1.959963985  # 95 % of a normal distribution is within this number of standard deviations
BINS = 15  # of confidence
MOST_WORST = 40
MOST_IN_CELL = 1000  # samples of a cell of the confusion matrix that are listed
TOP = (1, 2, 3, 5, 10)  # the k of top-k accuracies


def share_interval(right: float, tested: float) -> tuple[float, float] | None:
    """The 95 % interval of a share, by Wilson: p = (p̂ + z²/2n ± z √(p̂(1-p̂)/n + z²/4n²)) / (1 + z²/n). None of
    NaN."""
    p, n = right / tested, tested
    if not math.isfinite(p):
        return None
    middle, spread = p + Z * Z / (2 * n), Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    return max(0.0, (middle - spread) / (1 + Z * Z / n)), min(1.0, (middle + spread) / (1 + Z * Z / n))


def mean_interval(batches: list[float], mean: float | None = None) -> tuple[float, float] | None:
    """The 95 % interval of a mean over batches, x̄ ± t s / √n by Student, cut at 0 where no batch is below.

    None of fewer than two, and where one is not finite. mean: x̄ where it is not that of the batches, because one holds
    fewer samples.
    """
    n = len(batches)
    if n < 2 or not all(map(math.isfinite, batches)):
        return None
    from scipy.special import stdtrit

    mean = float(np.mean(batches)) if mean is None else mean
    half = float(stdtrit(n - 1, 0.975) * np.std(batches, ddof=1) / math.sqrt(n))
    return mean - half if min(batches) < 0 else max(0.0, mean - half), mean + half


@dataclass(frozen=True)
class Mistake:
    """sample: its number in the data; label, answer: classes; score: the probability of the answer; own: that of the
    label."""

    sample: int
    label: int
    prediction: int
    score: float
    own: float


@dataclass
class Classification:
    """A classifier's answers, accumulated batch by batch. confusion: labels × answers; bins: samples, confidence and
    hits.

    cells: (label, answer) -> the first MOST_IN_CELL samples, by their indices in the data; empty where rows are not
    samples. unscored: samples of each label with NaN scores. They count as wrong, as in Accuracy, and have no answer.
    pixels: labels belong to positions of an image, not to samples; then no curves are kept.
    """

    classes: int
    pixels: bool = False
    confusion: np.ndarray = field(init=False)
    bins: np.ndarray = field(init=False)
    unscored: np.ndarray = field(init=False)
    worst: list[Mistake] = field(default_factory=list)
    cells: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    ranks: np.ndarray = field(init=False)  # of the labels among the scores, from 1: how many samples have each
    sample: ScoreSample = field(default_factory=ScoreSample)
    surprise: float = 0.0

    def __post_init__(self) -> None:
        self.confusion = np.zeros((self.classes, self.classes), np.int64)
        self.bins = np.zeros((3, BINS))
        self.unscored = np.zeros(self.classes, np.int64)
        self.ranks = np.zeros(self.classes + 1, np.int64)

    def add(self, probabilities: np.ndarray, labels: np.ndarray, samples: np.ndarray | None) -> None:
        """probabilities N×C, labels N (integers); samples: their indices in the data, None where rows are not
        samples."""
        scored = np.isfinite(probabilities).all(1)
        if not scored.all():
            self.unscored += np.bincount(labels[~scored], minlength=self.classes)
            probabilities, labels = probabilities[scored], labels[scored]
            samples = samples[scored] if samples is not None else None
        rows = np.arange(len(labels))
        predictions = probabilities.argmax(1)
        own = probabilities[rows, labels]
        sure = probabilities[rows, predictions]
        rivals = (probabilities >= own[:, None]).sum(1)  # itself too
        tied = (predictions == labels) & (rivals > 1)  # as in Accuracy, no hit: the answer is the other
        if tied.any():
            others = probabilities[tied].copy()
            others[np.arange(len(others)), labels[tied]] = -1
            predictions[tied] = others.argmax(1)
        hits = predictions == labels
        np.add.at(self.confusion, (labels, predictions), 1)
        bins = np.minimum((sure * BINS).astype(int), BINS - 1)
        for i, values in enumerate((np.ones(len(labels)), sure, hits)):
            self.bins[i] += np.bincount(bins, values, BINS)
        self.ranks += np.bincount(rivals, minlength=self.classes + 1)
        if not self.pixels:
            self.sample.add(probabilities, labels)
        self.surprise -= float(np.log(np.maximum(own, 1e-300)).sum())
        if samples is not None:
            self._list(labels, predictions, samples)
            wrong = np.flatnonzero(~hits)
            mistakes = [
                Mistake(int(samples[i]), int(labels[i]), int(predictions[i]), float(sure[i]), float(own[i]))
                for i in wrong
            ]
            self.worst = sorted([*self.worst, *mistakes], key=lambda m: (m.own - m.score, m.sample))[:MOST_WORST]

    def _list(self, labels: np.ndarray, predictions: np.ndarray, samples: np.ndarray) -> None:
        for label, prediction, sample in zip(labels.tolist(), predictions.tolist(), samples.tolist(), strict=True):
            listed = self.cells.setdefault((label, prediction), [])
            if len(listed) < MOST_IN_CELL:
                listed.append(sample)

    @property
    def tested(self) -> int:
        return int(self.confusion.sum()) + self.nan

    @property
    def nan(self) -> int:
        return int(self.unscored.sum())

    def log_loss(self) -> float | None:
        """The mean of -log of the label's probability over the samples that have one; None where none has."""
        scored = self.tested - self.nan
        return self.surprise / scored if scored else None

    @property
    def right(self) -> int:
        return int(np.trace(self.confusion))

    def top(self, k: int) -> float:
        """The share of samples whose label is among the k best scores."""
        return int(self.ranks[: k + 1].sum()) / self.tested

    def balanced_accuracy(self) -> float | None:
        """The mean recall of the classes that have samples."""
        return mean([row["recall"] for row in self.by_class()])

    def curves(self) -> list[Curve | None]:
        """The ROC and precision-recall curve of each class against the rest; empty for pixels."""
        return self.sample.curves()

    def intersection_over_union(self) -> list[float | None]:
        """TP / (TP + FP + FN) of each class; None of a class that is neither a label nor an answer."""
        there, said, both = self.confusion.sum(1) + self.unscored, self.confusion.sum(0), np.diag(self.confusion)
        union = (there + said - both).tolist()
        return [k / n if n else None for k, n in zip(both.tolist(), union, strict=True)]

    def by_class(self) -> list[dict]:
        """Samples, precision, recall with its interval, and F1 of each class; None where nothing is divided."""
        there, said, both = self.confusion.sum(1) + self.unscored, self.confusion.sum(0), np.diag(self.confusion)
        rows = []
        for n, m, k in zip(there.tolist(), said.tolist(), both.tolist(), strict=True):
            low, high = (share_interval(k, n) if n else None) or (None, None)
            precision, recall = k / m if m else None, k / n if n else None
            f1 = 2 * k / (n + m) if n + m else None
            row = {"samples": n, "answers": m, "precision": precision, "recall": recall}
            rows.append({**row, "low": low, "high": high, "f1": f1})
        return rows

    def calibration(self) -> list[dict]:
        """Of each bin of confidence that holds samples: how many, their mean confidence, and the share of hits."""
        edges = np.arange(BINS + 1) / BINS
        return [
            {
                "from": float(edges[i]),
                "to": float(edges[i + 1]),
                "samples": int(n),
                "confidence": float(c / n),
                "accuracy": float(h / n),
            }
            for i, (n, c, h) in enumerate(self.bins.T)
            if n
        ]

    def calibration_error(self) -> float:
        """The expected calibration error: Σ n_b / N |accuracy_b - confidence_b|."""
        return float(np.abs(self.bins[1] - self.bins[2]).sum() / max(self.bins[0].sum(), 1))

    def confused(self, most: int = 20) -> list[tuple[int, int, int]]:
        """(label, answer, how often) of the commonest mistakes."""
        off = self.confusion - np.diag(np.diag(self.confusion))
        order = np.argsort(-off, axis=None, kind="stable")[:most]
        return [(int(i // self.classes), int(i % self.classes), int(off.flat[i])) for i in order if off.flat[i]]
