"""The arithmetic of a forecast."""

import pytest

from caffelite.parallel.forecast import Link, Measured, forecast

LINK = Link(1e9, 0.0)
ONE = Measured(
    forward=0.010, backward=[0.004, 0.006, 0.010], update=0.001, buckets=[(0, 8_000_000), (2, 1_000_000)], batch=32
)


def test_ring():
    assert LINK.all_reduce(1e9, 4) == pytest.approx(1.5)
    assert LINK.all_reduce(1e9, 1) == 0
    assert Link(1e9, 1e-5).all_reduce(0, 4) == pytest.approx(6e-5)
    assert LINK.all_reduce(1e9, 1024) == pytest.approx(2, rel=1e-2)


def test_what_backward_hides_is_not_waited_for():
    """8 MB leave after 4 ms and take 8; 1 MB leaves after 20 and takes 1: that is waited for."""
    actual = forecast(ONE, 2, LINK)
    assert actual.waiting == pytest.approx(0.001) and actual.travel == pytest.approx(0.009)
    assert actual.seconds == pytest.approx(0.032) and actual.images == pytest.approx(64 / 0.032)


def test_a_slow_link_is_waited_for():
    """80 ms leave after 4, 10 more follow at once: 94, of which backward hides 20."""
    assert forecast(ONE, 2, Link(1e8, 0)).waiting == pytest.approx(0.074)


def test_without_overlap_all_is_waited_for():
    actual = forecast(ONE, 2, LINK, overlap=False)
    assert actual.waiting == pytest.approx(actual.travel)


def test_alone():
    actual = forecast(ONE, 1, LINK)
    assert actual.waiting == 0 and actual.seconds == pytest.approx(ONE.compute)


def test_a_divided_batch_divides_the_time_but_not_the_gradients():
    actual = forecast(ONE, 4, LINK, strong=True)
    assert actual.compute == pytest.approx(0.030 / 4 + 0.001) and actual.batch == 8
    assert actual.travel == pytest.approx(1.5 * 9e-3)


def test_shared_cores():
    assert forecast(ONE, 4, LINK, slower=2).compute == pytest.approx(2 * ONE.compute)
