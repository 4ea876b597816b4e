"""The thread: order, failures, seeking, and that it ends."""

import functools
import threading
import time

import numpy as np
import pytest

from caffelite.data.pipeline import Shard, Source
from caffelite.errors import CaffeliteError


class Counting(Source):
    """Hands out the samples' numbers; fails at the number that is given."""

    released = 0

    def __init__(self, batch=3, fails_at=None, **options):
        super().__init__([(batch, 2), (batch,)], length=5, **options)
        self.fails_at = fails_at

    def tasks(self, position, batch):
        """A task a sample; the reading itself does them where there are no workers."""
        for i in range(len(batch.arrays[1])):
            task = functools.partial(self.write, position + i, i, *batch.arrays)
            if self.workers:
                yield task
            else:
                task()

    def write(self, number, i, data, label):
        if self.workers and i == 0:
            time.sleep(0.001)  # so that others are done first
        if self.fails_at is not None and number >= self.fails_at:
            raise CaffeliteError(f"sample {number} is bad")
        data[i], label[i] = number, number

    def release(self):
        self.released += 1


@pytest.fixture(params=[0, 3])
def workers(request):
    return request.param


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "caffelite data"]


def test_position_counts_only_the_samples_handed_out(workers):
    with Counting(workers=workers) as source:
        for turn in range(20):
            assert source.position == 3 * turn
            data, label = source.next()
            assert label.tolist() == [3 * turn, 3 * turn + 1, 3 * turn + 2]
            assert data.dtype == np.float32 and data.flags.c_contiguous and data.shape == (3, 2)


def test_buffers_are_made_once():
    with Counting(prefetch=2) as source:
        places = {source.next()[0].ctypes.data for _ in range(30)}
    assert len(places) <= 3


def test_a_batch_is_its_holders_until_the_following_next():
    with Counting(prefetch=1) as source:
        for turn in range(10):
            _, label = source.next()
            while source._slots.empty():  # until the thread has begun its only other buffer
                time.sleep(0)
            assert label[0] == 3 * turn


@pytest.mark.parametrize("handed_out", [0, 1, 4])
def test_seek_goes_on_from_there(handed_out, workers):
    with Counting(workers=workers) as source:
        for _ in range(handed_out, workers):
            source.next()
        source.seek(100)
        assert source.position == 100 and not threads()
        assert source.next()[1].tolist() == [100, 101, 102]
        assert source.position == 103


def test_a_failure_is_raised_in_its_turn_and_again(workers):
    with Counting(fails_at=6, workers=workers) as source:
        source.next(), source.next()
        for _ in range(3):
            with pytest.raises(CaffeliteError, match="sample 6 is bad"):
                source.next()
        assert source.position == 6 and not threads()
        source.seek(3)
        assert source.next()[1][0] == 3


def test_any_failure_of_a_thread_reaches_the_caller(workers):
    with Counting(workers=workers) as source:
        source.write = lambda *_: 1 / 0
        with pytest.raises(ZeroDivisionError):
            source.next()


def test_a_failure_of_reading_waits_for_its_turn():
    """What was read before it may fail as well, and comes first."""

    class Ending(Counting):
        def tasks(self, position, batch):
            yield from super().tasks(position, batch)
            raise CaffeliteError("the reading failed")

    with Ending(fails_at=1, workers=2) as source, pytest.raises(CaffeliteError, match="sample 1 is bad"):
        source.next()
    with Ending(workers=2) as source, pytest.raises(CaffeliteError, match="the reading failed"):
        source.next()


def test_leaving_early_waits_for_nothing_that_is_not_begun():
    begun, go = [], threading.Event()
    with Counting(batch=50, workers=2) as source:
        source.write = lambda number, *_: (begun.append(number), go.wait())
        source._start()
        while len(begun) < 2:
            time.sleep(0)
        threading.Timer(0.01, go.set).start()
    assert not threads() and len(begun) <= 4


def test_close_ends_the_thread_and_releases_once(workers):
    source = Counting(workers=workers)
    source.next()
    assert len(threads()) == 1 + workers
    source.close()
    source.close()
    assert not threads() and source.released == 1
    with pytest.raises(ValueError, match="closed"):
        source.next()


def test_no_thread_before_the_first_batch():
    with Counting():
        assert not threads()


def test_too_large_a_batch_says_so():
    with (
        Counting(batch=1 << 60) as source,
        pytest.raises(CaffeliteError, match=r"not enough memory for 5 batches of \d+×2 and"),
    ):
        source.next()


def test_prefetch_is_bounded(monkeypatch):
    monkeypatch.setattr("caffelite.data.pipeline.MOST_PREFETCH", 3)
    with Counting(prefetch=4_000) as source:
        assert len({source.next()[0].ctypes.data for _ in range(30)}) <= 4


@pytest.mark.parametrize("size", [2, 3])
def test_shares_together_read_what_one_alone_would(size):
    """Also after a seek, and though another number of readers got there."""

    def numbers(batch, share, start, rounds):
        source = Counting(batch)
        source.shard = share
        with source:
            source.seek(start)
            actual = [source.next()[0].copy() for _ in range(rounds)]
            assert source.position == start + rounds * batch * share.size
        return actual

    for start in (0, 7):
        whole = numbers(2 * size, Shard(), start, 4)
        parts = [numbers(2, Shard(rank, size), start, 4) for rank in range(size)]
        for i, batch in enumerate(whole):
            np.testing.assert_array_equal(batch, np.concatenate([part[i] for part in parts]))


@pytest.mark.parametrize("rank", [0, 1])
def test_divided_sources_return_the_parts_of_a_batch(rank):
    """Of one of two groups of processes, whose devices divide each batch."""

    def numbers(part):
        source = Counting(6)
        source.shard = Shard(rank, 2)
        if part is not None:
            source.divide(part, 3)
        with source:
            source.seek(24)
            actual = [source.next()[0].copy() for _ in range(4)]
            assert source.position == 24 + 4 * 12
        return actual

    whole, parts = numbers(None), [numbers(part) for part in range(3)]
    for i, batch in enumerate(whole):
        np.testing.assert_array_equal(batch, np.concatenate([part[i] for part in parts]))
