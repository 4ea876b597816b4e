"""tools/moments_error.py: raw float32 sums lose the variance of a channel far from zero, shifted sums keep it."""

import moments_error as tool
import numpy as np
import pytest


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_only_raw_sums_lose_digits_far_from_zero(dtype, seed):
    count = tool.TILE * 256
    near, far = (tool.errors(count, ratio, dtype, 3, np.random.default_rng(seed)) for ratio in (0, 100))
    assert (near < 1e-5).all()
    assert (far[:2] > 1e-4).all() and far[2] < 1e-6
