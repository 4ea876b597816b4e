"""Loops of CPU kernels that threads share."""

import numba
import numpy as np
import pytest
from numba import njit

from caffelite.devices.cpu.kernels.parallel import body, counters, launch, loop, ticks

STEP = 2


@body
def _record(first, last, starts, scale, shift):
    for i in range(first, last):
        if i == shift[0]:
            raise ValueError("of an iteration")
        starts[i] += scale * (first + shift[1])


@njit(nogil=True)
def record(count, starts, scale, shift):
    launch(_record, count, (starts, scale, shift))


@loop("starts.size // STEP")
def record_one_of_two(first, last, starts, shift):
    """starts: the first iteration of its thread."""
    for i in range(first, last):
        starts[i * STEP] = first + shift


@pytest.fixture
def two_threads():
    before = numba.get_num_threads()
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("needs two threads")
    numba.set_num_threads(2)
    yield
    numba.set_num_threads(before)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_threads_run_contiguous_equal_parts(two_threads, count):
    starts = np.zeros(count + 1)
    record(count, starts, 2.0, (-1, 5))
    parts = np.array_split(np.arange(count), 2)
    expected = [2.0 * (part[0] + 5) for part in parts for _ in part] + [0]
    np.testing.assert_array_equal(starts, expected)


def test_one_thread_runs_all_iterations(two_threads):
    numba.set_num_threads(1)
    starts = np.zeros(8)
    record(8, starts, 2.0, (-1, 5))
    np.testing.assert_array_equal(starts, np.full(8, 10))


def test_an_error_of_any_part_is_raised(two_threads):
    for iteration in (0, 7):
        with pytest.raises(ValueError, match="of an iteration"):
            record(8, np.zeros(8), 2.0, (iteration, 5))


def test_a_loop_is_called_without_its_ends(two_threads):
    starts = np.zeros(12)
    record_one_of_two(starts, 1.0)
    np.testing.assert_array_equal(starts, [1, 0, 1, 0, 1, 0, 4, 0, 4, 0, 4, 0])
    assert record_one_of_two.__doc__ == "starts: the first iteration of its thread."
    code = record_one_of_two.py_func.__code__
    assert (code.co_filename, code.co_firstlineno) == (__file__, record.py_func.__code__.co_firstlineno + 5)


def test_regions_of_several_threads_are_counted(two_threads):
    starts = np.zeros(8)
    record(8, starts, 2.0, (-1, 5))
    before = counters.copy()
    record(8, starts, 2.0, (-1, 5))
    record(1, starts, 2.0, (-1, 5))
    numba.set_num_threads(1)
    record(8, starts, 2.0, (-1, 5))
    regions, elapsed, available, worked = (counters - before).tolist()
    assert regions == 1
    assert available == 2 * elapsed
    assert (0 < worked <= available) if ticks() else worked == 0
