"""Seeds of tests that compare with brute force on random cases."""

import pytest

FIRST = 12  # in the first tier


def seeds(count: int) -> list:
    """``count`` seeds; all but the first ones belong to the second tier."""
    return [seed if seed < FIRST else pytest.param(seed, marks=pytest.mark.slow) for seed in range(count)]
