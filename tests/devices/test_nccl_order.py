"""Sums over GPUs whose streams run in an order that is drawn: collectives that compete for a GPU must not block each
other.

NCCL's kernels may occupy a GPU until all its peers have come, so here a GPU does nothing else meanwhile.
"""

import collections
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from devices.host.cupy import Array, numbers, stand_in

from caffelite.devices.cuda.nccl import NCCLAllReduce

RANKS = 3


class Deadlock(Exception):
    pass


class Stream:
    """Queued work: (kind, ...) each, "work", "mark", "wait" or "sum"."""

    def __init__(self):
        self.queue, self.ptr = collections.deque(), self

    def add(self, work):
        self.queue.append(("work", work))

    def wait_event(self, event):
        self.queue.append(("wait", event.mark))

    def ready(self) -> bool:
        return bool(self.queue) and (self.queue[0][0] != "wait" or self.queue[0][1].passed)


class Event:
    def record(self, stream):
        self.mark = SimpleNamespace(passed=False)
        stream.queue.append(("mark", self.mark))


class Communicator:
    """The sums of one name on one GPU, which are counted: the others' of the same count join in."""

    def __init__(self, name):
        self.name, self.sums = name, 0

    def allReduce(self, source, target, count, kind, how, stream):
        self.sums += 1
        stream.queue.append(("sum", (self.name, self.sums), numbers(source, count, np.float32)))


def run(gpus: list[list[Stream]], seed: int) -> None:
    """Works until all queues are empty. Errors: no GPU can go on, which a watchdog would find."""
    rng, blocked = np.random.default_rng(seed), {}
    while any(stream.queue for streams in gpus for stream in streams) or blocked:
        free = [(rank, s) for rank, streams in enumerate(gpus) if rank not in blocked for s in streams if s.ready()]
        if not free:
            raise Deadlock(str({rank: key for rank, (key, _) in blocked.items()}))
        rank, stream = free[rng.integers(len(free))]
        kind, what, *arrays = stream.queue.popleft()
        if kind == "work":
            what()
        elif kind == "mark":
            what.passed = True
        elif kind == "sum":
            blocked[rank] = what, arrays[0]
            here = {other: array for other, (key, array) in blocked.items() if key == what}
            if len(here) == len(gpus):
                total = np.sum(list(here.values()), 0)
                for other, array in here.items():
                    array[:] = total
                    del blocked[other]


def queued(shared: bool, reverse: int | None = None) -> tuple[list[list[Stream]], list[np.ndarray]]:
    """Streams of GPUs on which two reducers take turns, and the arrays that they sum. shared: they have one stream.
    reverse: a rank that begins with the other reducer."""
    gpus, arrays = [], []
    for rank in range(RANKS):
        compute, beside, reducers = Stream(), Stream(), []
        streams = [compute, beside]
        for name in "ab":
            if name == "b" and not shared:
                streams.append(beside := Stream())
            modules = stand_in(Communicator(name), None, Event)
            reducers.append(NCCLAllReduce(compute, beside, rank, RANKS, lambda uid: [uid], **modules))
        for step in range(3):
            for reducer in reducers[:: -1 if rank == reverse else 1]:
                arrays.append(array := np.zeros(4, np.float32).view(Array))
                compute.add(partial(np.copyto, array, np.float32(rank + step)))
                reducer.post(array)
        for reducer in reducers:
            reducer.finish()
        gpus.append(streams)
    return gpus, arrays


@pytest.mark.parametrize("seed", range(20))
def test_sums_of_one_stream_end_in_any_order(seed):
    gpus, arrays = queued(shared=True)
    run(gpus, seed)
    expected = [sum(range(RANKS)) + RANKS * step for _ in range(RANKS) for step in range(3) for _ in "ab"]
    assert [array.tolist() for array in arrays] == [[value] * 4 for value in expected]


def test_sums_of_several_streams_can_block_each_other():
    """Why a device's sums share one stream."""
    ended = []
    for seed in range(20):
        gpus, _arrays = queued(shared=False)
        try:
            run(gpus, seed)
            ended.append(seed)
        except Deadlock:
            pass
    assert len(ended) < 20


@pytest.mark.parametrize("seed", range(5))
def test_another_order_on_one_rank_is_seen(seed):
    gpus, _arrays = queued(shared=True, reverse=1)
    with pytest.raises(Deadlock, match=r"0: \('a', 1\), 1: \('b', 1\)|1: \('b', 1\)"):
        run(gpus, seed)
