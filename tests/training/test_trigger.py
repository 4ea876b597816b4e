import math

import pytest

from caffelite.training.trigger import due, next_after


@pytest.mark.parametrize("interval", [1, 2, 7])
def test_the_next_iteration_is_the_first_that_is_due(interval):
    for iteration in range(-1, 20):
        coming = next(i for i in range(iteration + 1, 40) if due(interval, i))
        assert next_after(interval, iteration) == coming


def test_an_interval_of_zero_is_never_due():
    assert not due(0, 0) and not due(0, 5) and next_after(0, 5) == math.inf
