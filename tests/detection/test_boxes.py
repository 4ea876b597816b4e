"""Arithmetic of boxes, against loops over single boxes."""

import math

import numpy as np
import pytest

from caffelite.detection import boxes


def area(box, one=0):
    w, h = box[2] - box[0], box[3] - box[1]
    return 0 if w < 0 or h < 0 else (w + one) * (h + one)


def overlap(a, b, one=0):
    common = area([max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])], one)
    union = area(a, one) + area(b, one) - common
    return common / union if common > 0 and union > 0 else 0


def some_boxes(rng, count, scale=1.0):
    corners = rng.random((count, 2, 2)) * scale
    return np.concatenate([corners.min(1), corners.max(1)], 1)


@pytest.mark.parametrize("pixels", [False, True])
def test_overlaps(rng, pixels):
    a, b = some_boxes(rng, 7, 30), some_boxes(rng, 5, 30)
    a[1], b[2] = [5, 5, 3, 9], [4, 4, 4, 4]  # an empty one, and one without sides
    expected = [[overlap(x, y, pixels) for y in b] for x in a]
    np.testing.assert_allclose(boxes.overlaps(a, b, pixels), expected, rtol=1e-12)


def test_degenerate_boxes_overlap_nothing():
    bad = np.array([[0, 0, 0, 0], [1, 1, 0, 0], [math.nan] * 4, [0, 0, math.nan, 1]])
    good = np.array([[0.0, 0.0, 1.0, 1.0]])
    assert not boxes.overlaps(bad, good).any() and not boxes.overlaps(bad, bad).any()
    assert boxes.overlaps(np.zeros((0, 4)), good).shape == (0, 1)


def test_coverages(rng):
    a, b = some_boxes(rng, 6), some_boxes(rng, 4)
    a[0] = [0.5, 0.5, 0.5, 0.7]
    actual = boxes.coverages(a, b)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            common = area([max(x[0], y[0]), max(x[1], y[1]), min(x[2], y[2]), min(x[3], y[3])])
            assert actual[i, j] == pytest.approx(common / area(x) if area(x) else 0)


def test_project_moves_and_cuts():
    part = np.array([0.2, 0.0, 0.6, 0.5])
    actual, seen = boxes.project(np.array([[0.0, 0.1, 0.4, 0.3], [0.6, 0.0, 0.8, 0.2], [0.3, 0.6, 0.4, 0.7]]), part)
    np.testing.assert_allclose(actual[0], [0, 0.2, 0.5, 0.6])
    assert seen.tolist() == [True, False, False]


@pytest.mark.parametrize("code", [boxes.CORNER, boxes.CENTER_SIZE, boxes.CORNER_SIZE])
@pytest.mark.parametrize("variances", [None, [0.1, 0.1, 0.2, 0.3]])
def test_decode_inverts_encode(rng, code, variances):
    known, priors = some_boxes(rng, 20), some_boxes(rng, 20)
    v = None if variances is None else np.array(variances)
    offsets = boxes.encode(known, priors, v, code)
    np.testing.assert_allclose(boxes.decode(offsets, priors, v, code), known, rtol=1e-9, atol=1e-12)


def test_encode_center_size():
    actual = boxes.encode(np.array([2.0, 3, 6, 5]), np.array([1.0, 1, 3, 5]), np.array([0.1, 0.1, 0.2, 0.2]), 2)
    np.testing.assert_allclose(actual, [(4 - 2) / 2 / 0.1, (4 - 3) / 4 / 0.1, math.log(2) / 0.2, math.log(0.5) / 0.2])


@pytest.mark.parametrize("eta", [1, 0.8])
@pytest.mark.parametrize("pixels", [False, True])
def test_suppress(rng, eta, pixels):
    actual, scores = some_boxes(rng, 60, 20), np.round(rng.random(60), 1)  # equal scores too
    scores[3] = math.nan
    order = sorted((i for i in range(60) if scores[i] > 0.2), key=lambda i: (-scores[i], i))[:40]
    stays, threshold = [], 0.55
    for i in order:
        if all(overlap(actual[i], actual[j], pixels) <= threshold for j in stays):
            stays.append(i)
            threshold *= eta if threshold > 0.5 else 1
    mine = boxes.suppress(actual, scores, 0.55, most=40, above=0.2, eta=eta, pixels=pixels)
    assert mine.tolist() == stays
    assert (
        boxes.suppress(actual, scores, 0.55, most=40, above=0.2, eta=eta, pixels=pixels, most_kept=3).tolist()
        == stays[:3]
    )


def test_suppress_of_nothing():
    assert boxes.suppress(np.zeros((0, 4)), np.zeros(0), 0.5).tolist() == []
    assert boxes.suppress(np.zeros((2, 4)), np.full(2, math.nan), 0.5).tolist() == []
