"""The charts of a report, by the places of their texts."""

import numpy as np
import pytest

from caffelite.report import pictures
from caffelite.report.statistics import Classification

LONG = ["большая собака", "a long class name", "x"]


@pytest.fixture
def figures(monkeypatch):
    """The figures that are drawn."""
    actual, saved = [], pictures.saved
    monkeypatch.setattr(pictures, "saved", lambda figure: actual.append(figure) or saved(figure))
    return actual


def judged(classes: int) -> Classification:
    """As many answers of each class as right ones, at all probabilities."""
    actual, rng = Classification(classes), np.random.default_rng(1)
    scores = rng.dirichlet(np.ones(classes), 400)
    actual.add(scores, scores.argmax(1), np.arange(400))
    return actual


@pytest.mark.parametrize("classes", [3, 10])
def test_confusion_labels_are_within_the_picture(figures, classes):
    pictures.confusion(judged(classes), (LONG * 4)[:classes])
    (figure,) = figures
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        for text in (axis.label, *axis.get_ticklabels()):
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1, text


def test_the_calibration_error_covers_no_point(figures):
    pictures.calibration(judged(3))
    axes = figures[0].axes[0]
    texts = [*axes.texts, axes.title, axes._left_title]
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    points = axes.transData.transform(axes.collections[-1].get_offsets())
    assert boxes and not any(box.padded(8).contains(*point) for box in boxes for point in points)
