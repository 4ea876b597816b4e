"""Compares the answers of a net with known ones: accuracies and errors with their 95 % intervals, and a report."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb, prototxt
from . import page, pictures
from .statistics import Classification, mean_interval, share_interval

HALF = 0.5  # the probability from which a label counts as given
NEAR_ONE = 1e-3  # how far the sum of probabilities may be from 1, in 16 bits too


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
        return f"{self.name}: {self.value:.4g}{span} ({self.images})"

    @property
    def images(self) -> str:
        return f"{self.samples} image{'s' * (self.samples != 1)}"

    def record(self) -> dict:
        return asdict(self)


def _share(name: str, right: float, samples: int) -> Score:
    low, high = share_interval(right, samples) or (None, None)
    return Score(name, right / samples, low, high, samples)


def _mean(name: str, values: np.ndarray) -> Score:
    low, high = mean_interval(values.tolist()) or (None, None)
    return Score(name, float(values.mean()), low, high, len(values))


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Scores N×C as they are where each row is of probabilities, else their softmax."""
    if (scores >= 0).all() and np.allclose(scores.sum(1), 1, atol=NEAR_ONE):
        return scores
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)


def judge(scores: np.ndarray, truth: np.ndarray) -> Classification:
    """The answers of a net that names one class, as a test judges them. scores N×C, answers N."""
    judged = Classification(scores.shape[1])
    judged.add(probabilities(scores), truth, np.arange(len(truth)))
    return judged


def classes(judged: Classification, names: list[str]) -> list[Score]:
    """Accuracy, then the recall of each class that occurs, with Wilson's intervals."""
    counts, right = judged.confusion.sum(1).tolist(), np.diag(judged.confusion).tolist()
    recalls = [_share(name, *each) for name, *each in zip(names, right, counts, strict=True) if each[1]]
    return [_share("accuracy", judged.right, judged.tested), *recalls]


def labels(scores: np.ndarray, truth: np.ndarray, names: list[str]) -> list[Score]:
    """The share of labels that are right (Student's interval over images), of images with all labels right, and of
    each label (Wilson's). scores, answers N×L."""
    right = (scores > HALF) == (truth > HALF)
    return [
        _mean("accuracy of labels", right.mean(1)),
        _share("all labels right", int(right.all(1).sum()), len(right)),
        *(_share(name, int(column.sum()), len(right)) for name, column in zip(names, right.T, strict=True)),
    ]


def numbers(scores: np.ndarray, truth: np.ndarray, names: list[str]) -> list[Score]:
    """The mean absolute error of each column, with Student's interval over images. scores, answers N×L."""
    errors = np.abs(scores - truth)
    return [_mean(f"mean absolute error of {name}", column) for name, column in zip(names, errors.T, strict=True)]


def write_report(
    folder: Path,
    scores: Sequence[Score],
    judged: Classification | None,
    names: list[str],
    listed: Sequence[tuple[Path, int]],
    read: Callable[[Path], np.ndarray],
    about: dict[str, Any],
) -> Path:
    """Writes the report of `caffelite test`, of pictures with known answers; the path of its page.

    judged: of a net that names one class; None of others, whose report has ``scores`` alone. listed: the pictures and
    their classes, of which the folder gets a list. read: a picture as C×H×W. about: name, model, weights of the net.
    Errors: those of `page.write`.
    """
    made = time.strftime("%Y-%m-%d %H:%M:%S")
    shown = scores[:1] if judged else scores  # the classes have a table of their own
    records = [score.record() | {"over": score.images} for score in shown]
    figures = {"phase": None, **about, "made": made, "samples": scores[0].samples, "scores": records}
    if judged is None:
        return page.write(folder, figures, {})
    figures |= page.classification_figures(judged, names) | {"data_layer": _data_layer(folder)}
    mistakes = pictures.worst_errors_png(judged, lambda samples: [read(listed[i][0]) for i in samples], names)
    lines = "".join(f"{os.path.abspath(file)} {label}\n" for file, label in listed)
    return page.write(folder, figures, page.classification_images(judged, figures, mistakes), lines)


def _data_layer(folder: Path) -> str:
    """The layer that reads the pictures by the report's list, as prototxt."""
    layer = pb.LayerParameter(name="pictures", type="ImageData", top=["data", "label"])
    layer.image_data_param.source = os.path.abspath(folder / page.LIST)
    layer.image_data_param.batch_size = 1
    return prototxt.write(layer)
