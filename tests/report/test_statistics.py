"""Intervals, confusion, calibration: against what can be computed by hand or by SciPy."""

import numpy as np
import pytest

from caffelite.report import statistics
from caffelite.report.statistics import Classification


@pytest.mark.parametrize(("right", "tested"), [(0, 10), (10, 10), (355, 360), (1, 3)])
def test_share_interval_is_wilson_s(right, tested):
    from scipy import stats  # here, because it takes long to import

    expected = stats.binomtest(right, tested).proportion_ci(method="wilson")
    assert statistics.share_interval(right, tested) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_share_interval_holds_what_it_promises(seed):
    actual = np.random.default_rng(seed).binomial(200, 0.9, 4000)
    held = np.mean([low <= 0.9 <= high for low, high in (statistics.share_interval(k, 200) for k in actual)])
    assert held == pytest.approx(0.95, abs=0.015)


def test_mean_interval_is_student_s():
    from scipy import stats  # here, because it takes long to import

    batches = [0.5, 0.7, 0.4, 0.9]
    expected = stats.t.interval(0.95, 3, np.mean(batches), stats.sem(batches))
    assert statistics.mean_interval(batches) == pytest.approx(expected)
    assert statistics.mean_interval([0.5]) is None and statistics.mean_interval([0.01, 0.3])[0] == 0
    assert statistics.mean_interval([-0.01, 0.3])[0] < 0


def judged(scores, labels, samples=True) -> Classification:
    actual = Classification(len(scores[0]))
    labels = np.array(labels)
    actual.add(np.array(scores, float), labels, np.arange(len(labels)) if samples else None)
    return actual


def test_confusion_precision_recall():
    actual = judged([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.5, 0.4, 0.1], [0.1, 0.1, 0.8]], [0, 1, 1, 2])
    assert actual.confusion.tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 1]] and (actual.right, actual.tested) == (3, 4)
    zero, one, two = actual.by_class()
    assert (zero["precision"], zero["recall"], zero["f1"]) == (0.5, 1, pytest.approx(2 / 3))
    assert (one["precision"], one["recall"], one["samples"]) == (1, 0.5, 2)
    assert actual.confused() == [(1, 0, 1)]
    assert actual.surprise == pytest.approx(-np.log([0.6, 0.7, 0.4, 0.8]).sum())
    assert [(m.sample, m.label, m.prediction, m.score, m.own) for m in actual.worst] == [(2, 1, 0, 0.5, 0.4)]


def test_a_tie_is_no_hit():
    actual = judged([[0.5, 0.5], [0.5, 0.5]], [0, 1])
    assert actual.right == 0 and actual.confusion.tolist() == [[0, 1], [1, 0]]


def test_a_class_that_is_not_there():
    row = judged([[0.9, 0.1]], [0]).by_class()[1]
    assert row["recall"] is row["precision"] is row["low"] is row["f1"] is None


def test_calibration(seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.5, 1, 20000)
    labels = (rng.random(20000) >= p).astype(int)
    actual = judged(np.stack([p, 1 - p], 1), labels)
    assert actual.calibration_error() < 0.01
    assert all(row["accuracy"] == pytest.approx(row["confidence"], abs=0.04) for row in actual.calibration())
    sure = judged([[1.0, 0.0]] * 4, [0, 0, 0, 1])
    assert sure.calibration_error() == pytest.approx(0.25)
    assert sure.calibration() == [
        {"from": pytest.approx(14 / 15), "to": 1.0, "samples": 4, "confidence": 1.0, "accuracy": 0.75}
    ]


def test_worst_first_and_no_more_than_fit():
    rows = [[1 - x, x] for x in np.linspace(0.51, 0.99, 60)]
    actual = judged(rows, [0] * 60)
    assert len(actual.worst) == statistics.MOST_WORST and actual.worst[0].sample == 59
    assert judged(rows, [0] * 60, samples=False).worst == []


def test_among_the_best_five():
    rows = [np.array([6, 5, 4, 3, 2, 1]) / 21] * 2
    assert judged(rows, [4, 5]).top(5) == 0.5


def test_nan_scores_count_as_wrong_and_stand_in_no_bin():
    actual = judged([[0.9, 0.1], [np.nan, np.nan], [0.2, 0.8], [np.nan, 0.5]], [0, 0, 0, 1])
    assert (actual.nan, actual.tested, actual.right, actual.top(5)) == (2, 4, 1, 0.5)
    assert actual.confusion.tolist() == [[1, 1], [0, 0]] and actual.bins[0].sum() == 2
    assert [row["recall"] for row in actual.by_class()] == [pytest.approx(1 / 3), 0]
    assert actual.log_loss() == pytest.approx(-np.log([0.9, 0.2]).mean())
    assert [m.sample for m in actual.worst] == [2]


def test_no_interval_of_nan():
    assert statistics.mean_interval([0.5, float("nan")]) is None and statistics.share_interval(float("nan"), 4) is None
