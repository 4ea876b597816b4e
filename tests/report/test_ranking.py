"""Curves and figures of scores against scikit-learn."""

import warnings

import numpy as np
import pytest

from caffelite.report import statistics
from caffelite.report.statistics import Classification


@pytest.fixture(scope="module")
def metrics():
    """scikit-learn's; its import takes seconds, which the collection of tests is spared."""
    from sklearn import metrics

    return metrics


@pytest.mark.parametrize("decimals", [None, 1, 0])
@pytest.mark.parametrize("share", [0.5, 0.02])
def test_curves_are_those_of_scikit_learn(seed, decimals, share, metrics):
    """decimals: how many equal scores there are."""
    rng = np.random.default_rng(seed)
    positive = rng.random(700) < share
    positive[0] = True
    scores = rng.normal(size=700) + positive
    scores = scores if decimals is None else scores.round(decimals)
    actual = statistics.curve(scores, positive)
    fpr, tpr, _ = metrics.roc_curve(positive, scores, drop_intermediate=False)
    np.testing.assert_allclose(actual.fpr, fpr)
    np.testing.assert_allclose(actual.tpr, tpr)
    precision, recall, _ = metrics.precision_recall_curve(positive, scores)
    np.testing.assert_allclose(actual.precision, precision[::-1])
    np.testing.assert_allclose(actual.tpr, recall[::-1])
    assert actual.auc == pytest.approx(metrics.roc_auc_score(positive, scores))
    assert actual.ap == pytest.approx(metrics.average_precision_score(positive, scores))


def test_one_kind_of_sample_has_no_curve():
    assert statistics.curve(np.array([1.0, 2.0]), np.array([True, True])) is None
    assert statistics.curve(np.array([1.0, 2.0]), np.array([False, False])) is None
    assert statistics.curve(np.zeros(0), np.zeros(0, bool)) is None


def test_thinned_curves_keep_their_ends(seed):
    rng = np.random.default_rng(seed)
    actual = statistics.curve(rng.normal(size=5000), rng.random(5000) < 0.3)
    fpr, tpr, precision = statistics.thinned(actual)
    assert len(fpr) == statistics.MOST_POINTS and (fpr[0], tpr[0], precision[0]) == (0, 0, 1)
    assert fpr[-1] == tpr[-1] == 1


def test_many_scores_are_sampled_evenly(monkeypatch, seed):
    monkeypatch.setattr(statistics, "MOST_VALUES", 300)
    rng, sample = np.random.default_rng(seed), statistics.ScoreSample()
    scores, labels = rng.random((1000, 3)), np.arange(1000)
    for start in range(0, 1000, 37):
        sample.add(scores[start : start + 37], labels[start : start + 37])
    kept, numbers = sample.arrays()
    assert numbers.tolist() == list(range(0, 1000, sample.stride)) and 50 < len(kept) <= 100
    np.testing.assert_array_equal(kept, scores[:: sample.stride].astype(np.float32))


def classified(seed, classes=6, count=400):
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes - 1, count, p=[0.6, 0.25, 0.1, 0.04, 0.01])  # the last class has no sample
    scores = rng.normal(size=(count, classes)) + 1.5 * np.eye(classes)[labels]
    probabilities = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    actual = Classification(classes)
    for start in range(0, count, 64):
        actual.add(probabilities[start : start + 64], labels[start : start + 64], None)
    return actual, probabilities, labels


def test_balanced_accuracy_and_top_k(seed, metrics):
    actual, probabilities, labels = classified(seed)
    answers = probabilities.argmax(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of answers without a label
        assert actual.balanced_accuracy() == pytest.approx(metrics.balanced_accuracy_score(labels, answers))
    for k in (1, 2, 3, 5):
        expected = metrics.top_k_accuracy_score(labels, probabilities, k=k, labels=range(6))
        assert actual.top(k) == pytest.approx(expected)


def test_curves_of_classes_against_the_rest(seed, metrics):
    actual, probabilities, labels = classified(seed)
    curves = actual.curves()
    assert curves[5] is None
    for c in range(5):
        scores = probabilities[:, c].astype(np.float32)
        assert curves[c].auc == pytest.approx(metrics.roc_auc_score(labels == c, scores))
        assert curves[c].ap == pytest.approx(metrics.average_precision_score(labels == c, scores))


def test_intersection_over_union(seed, metrics):
    actual, probabilities, labels = classified(seed, count=300)
    answers = probabilities.argmax(1)
    present = sorted(set(labels) | set(answers))
    expected = metrics.jaccard_score(labels, answers, labels=present, average=None)
    shares = actual.intersection_over_union()
    assert [shares[c] for c in present] == pytest.approx(expected)
    assert all(shares[c] is None for c in range(6) if c not in present)


def test_pixels_keep_no_scores():
    actual = Classification(3, pixels=True)
    actual.add(np.full((10, 3), 1 / 3), np.zeros(10, int), None)
    assert actual.curves() == [] and actual.intersection_over_union() == [0, 0, None]
