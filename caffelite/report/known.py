"""Compares the answers of a net with known ones: accuracies and errors with their 95 % intervals."""

from dataclasses import asdict, dataclass

import numpy as np

from .statistics import mean_interval, share_interval

HALF = 0.5  # the probability from which a label counts as given


@dataclass(frozen=True)
class Score:
    """A mean over ``samples`` images and its 95 % interval, None where there is none."""

    name: str
    value: float
    low: float | None
    high: float | None
    samples: int

    def __str__(self) -> str:
        span = "" if self.low is None else f", 95 % between {self.low:.4g} and {self.high:.4g}"
        return f"{self.name}: {self.value:.4g}{span} ({self.samples} images)"

    def record(self) -> dict:
        return asdict(self)


def _share(name: str, right: np.ndarray) -> Score:
    low, high = share_interval(float(right.sum()), len(right)) or (None, None)
    return Score(name, float(right.mean()), low, high, len(right))


def _mean(name: str, values: np.ndarray) -> Score:
    low, high = mean_interval(values.tolist()) or (None, None)
    return Score(name, float(values.mean()), low, high, len(values))


def classes(scores: np.ndarray, truth: np.ndarray, names: list[str]) -> list[Score]:
    """Accuracy, then the recall of each class that occurs, with Wilson's intervals. scores N×C, answers N."""
    right = scores.argmax(1) == truth
    return [
        _share("accuracy", right),
        *(_share(names[c], right[truth == c]) for c in range(len(names)) if (truth == c).any()),
    ]


def labels(scores: np.ndarray, truth: np.ndarray, names: list[str]) -> list[Score]:
    """The share of labels that are right (Student's interval over images), of images with all labels right, and of
    each label (Wilson's). scores, answers N×L."""
    right = (scores > HALF) == (truth > HALF)
    return [
        _mean("accuracy of labels", right.mean(1)),
        _share("all labels right", right.all(1)),
        *(_share(name, column) for name, column in zip(names, right.T, strict=True)),
    ]


def numbers(scores: np.ndarray, truth: np.ndarray, names: list[str]) -> list[Score]:
    """The mean absolute error of each column, with Student's interval over images. scores, answers N×L."""
    errors = np.abs(scores - truth)
    return [_mean(f"mean absolute error of {name}", column) for name, column in zip(names, errors.T, strict=True)]
