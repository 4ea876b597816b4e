"""The rank's side of the watchdog."""

import pytest

from caffelite.parallel.watchdog import COLLECTIVES, Watchdog


def test_unknown_collective_names_rank_and_choices():
    watchdog = object.__new__(Watchdog)  # without its process
    watchdog._rank = 3
    with pytest.raises(ValueError, match='^rank 3: unknown collective "a party"; expected one of ') as error:
        with watchdog.waiting("a party"):
            pass
    assert all(name in str(error.value) for name in COLLECTIVES)
