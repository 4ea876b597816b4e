"""Average precision, against the definitions in loops."""

import numpy as np
import pytest

from caffelite.detection import precision


def definition(scores, hits, positives, version):
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    points, right = [], 0
    for k, i in enumerate(order, 1):
        right += hits[i]
        points.append((right / positives, right / k))
    if version == "11point":
        return sum(max((p for r, p in points if r >= t / 10 - 1e-9), default=0) for t in range(11)) / 11
    if version == "COCO":
        return sum(max((p for r, p in points if r >= t), default=0) for t in np.linspace(0, 1, 101)) / 101
    total, before = 0.0, 0.0
    for k, (recall, value) in enumerate(points):
        best = max(p for _, p in points[k:]) if version == "MaxIntegral" else value
        total, before = total + (recall - before) * best, recall
    return total


@pytest.mark.parametrize("version", [*precision.VERSIONS, "COCO"])
@pytest.mark.parametrize("count, positives", [(1, 1), (40, 30), (25, 10)])
def test_average_precision(seed, version, count, positives):
    rng = np.random.default_rng(seed)
    scores, hits = rng.random(count), np.zeros(count, bool)
    hits[rng.permutation(count)[: min(count, positives) // 2 + 1]] = True
    expected = definition(scores.tolist(), hits.tolist(), positives, version)
    assert precision.average_precision(scores, hits, positives, version) == pytest.approx(expected, abs=1e-12)


def test_nothing_found_and_nothing_to_find():
    empty = np.zeros(0)
    assert precision.average_precision(empty, empty, 3) == 0 and precision.average_precision(np.ones(2), empty, 0) == 0
    assert precision.mean_precision(np.zeros((0, 5)), "Integral") == (0.0, {})


def test_mean_over_the_rows_of_batches():
    rows = np.array(
        [[-1, 1, 1, -1, -1], [-1, 2, 2, -1, -1], [0, 1, 0.9, 1, 0], [0, 2, 0.8, 0, 1], [0, 2, 0.1, 0, 0]]
        + [[-1, 1, 0, -1, -1], [-1, 2, 0, -1, -1], [1, 2, 0.7, 1, 0]]
    )
    mean, each = precision.mean_precision(rows, "Integral")
    assert each == {1: 1.0, 2: pytest.approx(0.25)} and mean == pytest.approx(0.625)


def test_each_object_is_found_once():
    known = np.array([[0.0, 0, 10, 10], [20, 0, 30, 10]])
    actual = np.array([[0.0, 0, 10, 9], [0, 0, 10, 10], [20, 0, 30, 10], [50, 50, 60, 60]])
    scores, easy = np.array([0.9, 0.8, 0.7, 0.6]), np.zeros(2, bool)
    right, counted = precision.judge(actual, scores, known, easy, 0.5)
    assert right.tolist() == [True, False, True, False] and counted.all()
    right, counted = precision.judge(actual, scores, known, np.array([False, True]), 0.5)
    assert right.tolist() == [True, False, False, False] and counted.tolist() == [True, True, False, True]


def test_coco_prefers_objects_that_count():
    known, ignored = np.array([[0.0, 0, 10, 10], [0, 0, 40, 40]]), np.array([False, True])
    actual = np.array([[0.0, 0, 10, 10], [1, 1, 9, 9], [20, 20, 30, 30]])
    right, counted = precision.judge_coco(actual, np.array([0.9, 0.8, 0.7]), known, ignored, 0.5)
    assert right.tolist() == [True, False, False] and counted.tolist() == [True, False, False]
