"""Buckets of gradients: cut from the end of the flat buffer, summed in the order in which backward completes them."""

from contextlib import nullcontext

import numpy as np
import pytest
from textnet import bind, inputs

from caffelite.parallel import Bucket, GradientReducer, Piece, cut
from caffelite.training import gradients


def test_buckets_of_about_a_size_from_the_end():
    pieces = [Piece(i * 10, i * 10 + 10, 9 - i) for i in range(10)]
    assert cut(pieces, 2) == [Bucket(50, 100, 4), Bucket(0, 50, 9)]
    assert cut(pieces, 3) == [Bucket(60, 100, 3), Bucket(20, 60, 7), Bucket(0, 20, 9)]
    assert cut(pieces, 1) == cut(pieces, 0) == [Bucket(0, 100, 9)]
    assert [bucket.stop - bucket.start for bucket in cut(pieces, 100)] == [10] * 10


def test_a_shared_parameter_is_reduced_after_its_last_use():
    pieces = [Piece(0, 8, 5), Piece(8, 16, None), Piece(16, 24, 4), Piece(24, 32, 1)]
    assert cut(pieces, 1) == [Bucket(16, 32, 4), Bucket(0, 8, 5)]
    assert cut([], 6) == []


@pytest.mark.parametrize(
    "words, overlap, count",
    [("", True, 4), ("reduce_buckets: 2", True, 2), ("reduce_buckets: 1", True, 1), ("", False, 1)],
)
def test_a_net_s_buckets(words, overlap, count):
    """Four products of the same size, whose biases join the weights in front of them."""
    layers = "".join(
        f'layer {{ name: "l{i}" type: "InnerProduct" bottom: "{"x" if i == 0 else f"l{i - 1}"}" top: "l{i}" '
        "inner_product_param { num_output: 32 bias_term: false } }"
        for i in range(4)
    )
    loss = 'layer { name: "loss" type: "EuclideanLoss" bottom: "l3" bottom: "x" top: "loss" }'
    net = bind(words + "\n" + inputs(x=(2, 32)) + layers + loss)
    actual = gradients.buckets(net, overlap)
    assert len(actual) == count and actual[0].stop == net.params.size and actual[-1].start == 0
    assert [bucket.step for bucket in actual] == sorted(bucket.step for bucket in actual)


class Transport:
    def __init__(self):
        self.posted, self.done = [], False

    def set_flags(self, flags):
        self.flags = flags

    def begin(self, loss): ...

    def read_loss(self, loss):
        return self.flags

    def post(self, array):
        self.posted.append(array.copy())

    def progress(self): ...

    def finish(self):
        self.done = True


def test_each_bucket_is_posted_when_backward_has_completed_it():
    transport, flat = Transport(), np.arange(30.0)
    reducer = GradientReducer(
        transport, flat, [Bucket(20, 30, 1), Bucket(0, 10, 3), Bucket(10, 20, 3)], 2, lambda what: nullcontext()
    )
    for _ in range(2):
        transport.posted.clear()
        reducer.set_flags(np.array([0.0, 1.0]))
        reducer.begin(loss := np.zeros(1))
        lengths = []
        for step in range(4):
            reducer.after_step(step)
            lengths.append(len(transport.posted))
        assert lengths == [0, 1, 1, 3] and [part[0] for part in transport.posted] == [20, 10, 0]
        reducer.finish()
        assert transport.done and reducer.read_loss(loss).tolist() == [False, True]


def test_a_wait_offers_the_core_only_after_a_moment(monkeypatch):
    from caffelite.parallel.transports import mpi

    offers = []
    clock = iter([0.0, *(i * mpi.SPIN / 2 for i in range(100))])
    monkeypatch.setattr(mpi.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(mpi, "yield_core", lambda: offers.append(len(calls)))
    calls = []

    def progress():
        calls.append(None)
        return len(calls) == 6

    mpi.wait(progress)
    assert offers == [4, 5]
