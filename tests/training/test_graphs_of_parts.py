"""Iterations of a net in parts, captured in graphs on each of its devices: NCCL's sends, receives and collectives are
nodes of the graphs. Threads stand in for processes, and the host for GPUs, CuPy and NCCL."""

import itertools
import logging
from functools import partial

import numpy as np
import pytest
from devices.host.backend import HostBackend
from devices.host.cupy import Array, numbers, stand_in
from devices.host.ranks import HostSums
from net.links import Exchange

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.devices.cuda import GPU, NCCLLinks
from caffelite.net import deferred
from caffelite.parallel.control import Subset
from caffelite.parallel.group import ProcessGroup
from caffelite.parallel.transports import choice
from caffelite.training import build_trainer
from caffelite.training.checkpoint.content import parameters_of

pytestmark = pytest.mark.host

NET = """
name: "parts"
layer { name: "images" type: "Data" top: "image" top: "label"
  transform_param { mirror: true crop_size: 6 scale: 0.0039 }
  data_param { source: "images" backend: LMDB batch_size: 4 } }
layer { name: "conv" type: "Convolution" bottom: "image" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "ip1" type: "InnerProduct" bottom: "conv" top: "ip1"
  inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "drop1" type: "Dropout" bottom: "ip1" top: "ip1" }
layer { name: "class" type: "InnerProduct" bottom: "ip1" top: "class"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "class" bottom: "label" top: "loss" }
"""
SOLVER = """
net: "parts.prototxt" base_lr: 0.05 momentum: 0.9 weight_decay: 0.001 lr_policy: "inv" gamma: 0.1 power: 0.75
max_iter: 16 display: 7 random_seed: 5 average_loss: 16 snapshot: 7 snapshot_prefix: "s"
"""


class Meeting:
    """The control of one of several threads."""

    def __init__(self, exchange: Exchange, size: int, rank: int, values: dict):
        self.exchange, self.size, self.rank, self.turn, self.values = exchange, size, rank, 0, values

    def gather(self, value):
        self.turn += 1
        met = self.values.setdefault(self.turn, {})
        met[self.rank] = value
        self.exchange.turn.notify_all()
        self.exchange.wait(lambda: len(met) == self.size, f"rank {self.rank} waits in a gather")
        return [met[rank] for rank in range(self.size)]

    def subset(self, ranks):
        return Subset(self, ranks)

    def close(self): ...


class Communicator:
    """NCCL's, between threads. A call does its work on its stream; it waits there for the other side. As in NCCL, the
    host waits for all members when a communicator is made, and again within the first call of each kind, which connects
    them."""

    def __init__(self, exchange: Exchange, groups: dict, size: int, uid, rank: int):
        self.exchange, self.groups, self.size, self.uid, self.rank = exchange, groups, size, uid, rank
        self.messages, self.brought, self.met = groups.setdefault(uid, ([], {}, {}))
        self.turn, self.splits, self.closed = 0, 0, ""
        groups.setdefault("all", []).append(self)
        self._meet("being made")

    def _meet(self, what: str):
        assert not self.closed, f"a call of a communicator after its {self.closed}"
        met = self.met.setdefault(what, set())
        if self.rank not in met:
            met.add(self.rank)
            self.exchange.turn.notify_all()
            self.exchange.wait(lambda: len(met) == self.size, f"rank {self.rank} waits for the others in {what}")

    def commSplit(self, color, key):
        self.splits += 1
        met = self.met.setdefault(("split", self.splits), {})
        met[self.rank] = color, key, self.rank
        self.exchange.turn.notify_all()
        self.exchange.wait(lambda: len(met) == self.size, f"rank {self.rank} waits for the others in a split")
        members = [rank for other, _, rank in sorted(met.values()) if other == color]
        if color < 0:
            return None
        uid = self.uid, self.splits, color
        return Communicator(self.exchange, self.groups, len(members), uid, members.index(self.rank))

    def send(self, pointer, count, kind, peer, stream):
        self._meet("a first transfer")
        stream.add(lambda: self._put(numbers(pointer, count, np.float32).copy()))

    def _put(self, array):
        self.messages.append(array)
        self.exchange.turn.notify_all()

    def recv(self, pointer, count, kind, peer, stream):
        self._meet("a first transfer")

        def work():
            self.exchange.wait(lambda: bool(self.messages), f"rank {self.rank} waits for a message")
            np.copyto(numbers(pointer, count, np.float32), self.messages.pop(0))

        stream.add(work)

    def _bring(self, pointer, count):
        self.turn += 1
        met = self.brought.setdefault(self.turn, {})
        met[self.rank] = numbers(pointer, count, np.float32).copy()
        self.exchange.turn.notify_all()
        self.exchange.wait(lambda: len(met) == self.size, f"rank {self.rank} waits in a collective")
        return [met[rank] for rank in range(self.size)]

    def allGather(self, part, whole, count, kind, stream):
        self._meet("a first gather")
        target = partial(numbers, whole, count * self.size, np.float32)
        stream.add(lambda: np.copyto(target(), np.concatenate(self._bring(part, count))))

    def reduceScatter(self, whole, part, count, kind, how, stream):
        self._meet("a first scatter")

        def work():
            total = np.sum(self._bring(whole, count * self.size), 0).reshape(self.size, -1)
            np.copyto(numbers(part, count, np.float32), total[self.rank])

        stream.add(work)

    def allReduce(self, source, target, count, kind, how, stream):
        self._meet("a first sum")
        stream.add(lambda: np.copyto(numbers(target, count, np.float32), np.sum(self._bring(source, count), 0)))

    def check_async_error(self): ...

    def destroy(self):
        self.closed = "end"

    def abort(self):
        self.closed = "abort"


class HostLinks(NCCLLinks):
    """Links over arrays of the host."""

    def send(self, array, peer, tag):
        return super().send(array.view(Array), peer, tag)

    def receive(self, array, peer, tag):
        super().receive(array.view(Array), peer, tag)

    def all_gather(self, source, target):
        super().all_gather(source.view(Array), target.view(Array))

    def reduce_scatter(self, source, target):
        super().reduce_scatter(source.view(Array), target.view(Array))

    def all_reduce(self, array):
        super().all_reduce(array.view(Array))

    def all_reduce_group(self, array):
        super().all_reduce_group(array.view(Array))


class Job:
    """Threads that train together. eager: of their devices. resident: whether they keep the data set."""

    def __init__(self, monkeypatch, ranks: int, eager: str = "", resident: bool = True):
        self.exchange, self.values, self.groups, self.ids = Exchange(), {}, {}, itertools.count()
        self.devices = [GPU(0, "float32", HostBackend(), eager=eager) for _ in range(ranks)]
        for dev in self.devices:
            dev.backend.stream.ptr = dev.backend.stream
            if not resident:
                monkeypatch.setattr(dev.backend, "free_bytes", lambda: 10)
        self._monkeypatch = monkeypatch

    def modules(self, dev):
        actual = stand_in(None, dev.backend.new_stream)
        actual["nccl"].get_unique_id = lambda: next(self.ids)
        actual["nccl"].NcclCommunicator = partial(Communicator, self.exchange, self.groups)
        return actual

    def links(self, world, model, stage, shape, dev, waiting):
        at = shape.position(world.rank)
        group = [(s, shard) for s in range(shape.stages) for shard in range(shape.shards)]
        options = world.gather, at.group, dev.drop_graphs
        return HostLinks(dev.backend.stream, (at.stage, at.shard), group, *options, **self.modules(dev))

    def sums(self, control, dev, half):
        dev.sums_stream.ptr = dev.sums_stream
        streams = dev.backend.stream, dev.sums_stream
        return HostSums(*streams, control.rank, control.size, control.gather, dev.drop_graphs, **self.modules(dev))

    def run(self, text: str, split: str, **options):
        """(why each rank ran eagerly, losses, arrays of the complete net) after training."""
        actual = [None] * len(self.devices)
        self._monkeypatch.setattr(choice, "links", self.links)

        def part(rank: int) -> None:
            control = Meeting(self.exchange, len(self.devices), rank, self.values)
            comm = ProcessGroup(control, self.sums)
            document = prototxt.parse(text, pb.SolverParameter, "solver.prototxt")
            job = {"comm": comm, "split": split, "strong_scaling": True, **options}
            run = build_trainer(document.message, document.locate, "solver.prototxt", self.devices[rank], **job)
            try:
                run.solve()
                blobs = list(parameters_of(run.net, run.learning.division).blobs(run.net.params.data))
                actual[rank] = run.learning.captured.why_eager(), run.loss_window(16), blobs
            finally:
                run.close()
                comm.close()

        self.exchange.run(*(partial(part, rank) for rank in range(len(self.devices))))
        return [why for why, _, _ in actual], actual[0][1], actual[0][2]

    @property
    def launches(self) -> list[int]:
        """How many graphs each device has launched."""
        return [sum(graph.runs for graph in dev.backend.graphs) for dev in self.devices]


@pytest.fixture(autouse=True)
def small_layers_defer(monkeypatch, folder):
    monkeypatch.setattr(deferred, "LEAST_WEIGHTS", 1)
    (folder / "parts.prototxt").write_text(NET)


@pytest.fixture
def job(monkeypatch):
    return partial(Job, monkeypatch)


def same(one, other) -> None:
    assert one[1] == other[1], "losses"
    np.testing.assert_equal(one[2], other[2])


SPLITS = [
    (2, "shards=2", ""),
    (2, "stages=2,micro_batches=4", "clip_gradients: 0.5 ema_decay: 0.9"),
    (4, "stages=2,shards=2,micro_batches=2", "iter_size: 2 clip_gradients: 0.5"),
    (4, "stages=4,micro_batches=2", ""),
]


@pytest.mark.parametrize("ranks, split, more", SPLITS)
def test_captured_parts_equal_eager_ones(job, ranks, split, more):
    eager, captured = job(ranks, "as requested"), job(ranks)
    expected = eager.run(SOLVER + more, split)
    actual = captured.run(SOLVER + more, split)
    assert set(eager.launches) == {0} and actual[0] == [""] * ranks
    assert min(captured.launches) >= 8 and len(set(captured.launches)) == 1
    assert {comm.closed for comm in captured.groups["all"]} == {"end"}
    same(actual, expected)


@pytest.mark.parametrize("firsts", [("conv", "ip1", "class"), ("conv", "ip1", "drop1", "class")], ids=["3", "4"])
def test_a_stage_that_sends_past_another_one_starts(job, folder, firsts):
    """Stage 0 sends the label to the last stage before its convolution; that one first waits for those between, and
    they for stage 0."""
    text, ranks = NET, len(firsts)
    for stage, name in enumerate(firsts):
        text = text.replace(f'name: "{name}" type', f'name: "{name}" placement {{ stage: {stage} }} type')
    (folder / "parts.prototxt").write_text(text)
    eager, captured = job(ranks, "as requested"), job(ranks)
    expected = eager.run(SOLVER, f"stages={ranks}")
    same(captured.run(SOLVER, f"stages={ranks}"), expected)
    assert min(captured.launches) >= 8


def test_a_resumed_run_has_the_same_bits(job, folder):
    split = "stages=2,micro_batches=2"
    expected = job(2).run(SOLVER, split)
    resumed = job(2)
    actual = resumed.run(SOLVER, split, resume=str(next(folder.glob("s_iter_7.*state*"))))
    assert min(resumed.launches) > 2
    np.testing.assert_equal(actual[2], expected[2])


def test_batches_of_the_host_are_captured_without_micro_batches(job):
    expected, captured = job(2, "as requested").run(SOLVER, "shards=2"), job(2, resident=False)
    same(captured.run(SOLVER, "shards=2"), expected)
    assert min(captured.launches) >= 8


def test_micro_batches_of_the_host_run_eagerly(job, caplog):
    caplog.set_level(logging.INFO, "caffelite")
    split = "stages=2,micro_batches=2"
    expected, other = job(2, "as requested").run(SOLVER, split), job(2, resident=False)
    actual = other.run(SOLVER, split)
    same(actual, expected)
    why = "rank 0: data that are not resident are fed one micro-batch at a time"
    assert other.launches == [0, 0] and set(actual[0]) == {why}
    lines = [line for line in caplog.messages if line.startswith("Running eagerly") and line.endswith(why)]
    assert len(lines) == 2, "a line of each rank"


def test_a_layer_of_the_host_makes_all_parts_eager(job, folder):
    text = NET + 'layer { name: "file" type: "HDF5Output" bottom: "class" bottom: "label" '
    text += 'hdf5_output_param { file_name: "out.h5" } }'
    (folder / "parts.prototxt").write_text(text)
    both = job(2)
    why, _, _ = both.run(SOLVER, "stages=2")
    assert both.launches == [0, 0] and all('"file"' in text for text in why)
