"""Printed digits that are drawn without a font."""

import numpy as np
import pytest

from caffelite.drawn import digits


def test_printed_digits_have_the_size_of_written_ones(seed):
    images, labels = digits.digits(200, seed)
    assert images.shape == (200, 28, 28) and images.dtype == np.uint8 and np.bincount(labels).tolist() == [20] * 10
    assert (images.reshape(200, -1).max(1) == 255).all() and not images[:, [0, -1]].any()
    assert not images[..., [0, -1]].any()
    for image in images:
        sides = [np.flatnonzero((image > 127).any(axis)) for axis in (1, 0)]
        assert 18 <= max(np.ptp(side) + 1 for side in sides) <= 21
        assert [side.mean() for side in sides] == pytest.approx([13.5, 13.5], abs=1.1)


def test_a_seed_draws_equal_digits_and_no_duplicates(seed):
    images, labels = digits.digits(100, seed)
    assert (digits.digits(100, seed)[0] == images).all() and (digits.digits(100, seed + 1)[0] != images).any()
    assert len(np.unique(images.reshape(100, -1), axis=0)) == 100 and len(set(labels[:30])) > 5


@pytest.mark.parametrize("digit", range(10))
def test_a_pen_follows_every_stroke_of_every_form(digit, monkeypatch):
    for form in digits.FORMS[digit]:
        points = np.concatenate(form)
        assert points.min() >= -0.01 and points[:, 0].max() <= 0.61 and np.ptp(points[:, 1]) > 0.95, (
            "a box 1 tall, 0.6 wide"
        )
        middle = (points.min(0) + points.max(0)) / 2
        starts, ends = (
            np.concatenate([(stroke[a:b] - middle) * 18 for stroke in form]) for a, b in ((None, -1), (1, None))
        )
        drawn = digits._ink(starts, ends, np.array([1.0, 1.0]), 1.0)
        x, y = np.floor(np.concatenate([starts, ends]) + 14).astype(int).T
        assert (drawn[y, x] > 100).all() and (drawn > 0).mean() < 0.35


def test_a_pen_s_breadth_and_height():
    across = digits._ink(np.array([[-6.0, 0]]), np.array([[6.0, 0]]), np.array([3.0, 1.0]), 0.1)
    down = digits._ink(np.array([[0, -6.0]]), np.array([[0, 6.0]]), np.array([3.0, 1.0]), 0.1)
    assert (across[:, 14] > 127).sum() == 2 and (down[14] > 127).sum() == 6
