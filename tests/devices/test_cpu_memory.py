"""The CPU's memory: where arrays start."""

import numpy as np
import pytest

from caffelite.devices import open_device


@pytest.mark.parametrize("size", [5, 1 << 21])
def test_arrays_start_on_cache_lines(size):
    """The arena, the parameters and the workspace begin so, so that vectors of theirs lie in one line each."""
    device = open_device()
    for array in (device.empty(size, np.uint8), device.zeros((1, size), np.uint8), device.space(size)):
        assert array.nbytes >= size and array.ctypes.data % 64 == 0
    assert not device.zeros((3, 4)).any() and device.empty((3, 4)).shape == (3, 4)
