"""Graphs of processes that train together: sums over processes are captured, and processes capture alike."""

import contextlib

import numpy as np
import pytest
from devices.host.backend import HostBackend
from devices.host.cupy import stand_in
from devices.host.ranks import HostSums, TwinCommunicator, run_ranks
from training.capturing import SOLVER, LibraryError, assert_same, compare, trained

from caffelite.devices.cuda import GPU, NCCLAllReduce, count
from caffelite.devices.formula import Formula
from caffelite.parallel import GradientReducer, SingleProcess


@pytest.fixture
def device():
    return GPU(0, "float32", HostBackend())


def calls_of(device, program):
    """How each call of a program ran so far: "eager", "captured" or "launched"."""
    calls, (graphs, runs) = [], (0, 0)
    while True:
        program()
        made, ran = len(device.backend.graphs), sum(graph.runs for graph in device.backend.graphs)
        calls.append("captured" if made > graphs else "launched" if ran > runs else "eager")
        graphs, runs = made, ran
        yield calls


def test_all_ranks_capture_again_when_one_must():
    """One rank's memory grows, or its pixels change their shape: NCCL wants all to capture, or none."""

    def run(rank, gather):
        device, shape = GPU(0, "float32", HostBackend()), [1]
        calls = calls_of(device, device.capture(lambda: None, device.make_context(), lambda: (shape[0],), gather))
        for call in range(12):
            if rank and call == 4:
                device.workspace(1 << 20)
            if not rank and call == 8:
                shape[0] = 2
            actual = next(calls)
        return actual

    one, other = run_ranks(2, run)
    assert one == other == ["eager", "captured", "launched", "launched"] * 3


def test_one_rank_alone_falls_back_to_eager():
    """Its own programs become eager, such as a test net's; what all ranks run together is still captured by all."""

    def run(rank, gather):
        device = GPU(0, "float32", HostBackend())

        def body():
            if rank and device.capturing:
                raise LibraryError("no memory")

        alone = device.capture(body, device.make_context())
        shared = calls_of(device, device.capture(lambda: None, device.make_context(), tuple, gather))
        for _ in range(4):
            alone()
            actual = next(shared)
        return actual, device.why_eager()

    (one, _), (other, why) = run_ranks(2, run)
    assert one[1:2] == ["captured"] and other == ["eager", "captured", "launched", "launched"] and "no memory" in why


def test_a_failed_capture_fails_on_all_ranks(caplog):
    def run(rank, gather):
        device, failures = GPU(0, "float32", HostBackend()), [2 * rank]

        def body():
            if device.capturing and failures[0]:
                failures[0] -= 1
                raise LibraryError("no memory")

        calls = calls_of(device, device.capture(body, device.make_context(), tuple, gather))
        for _ in range(6):
            actual = next(calls)
        return actual[3:], device.why_eager(), all(graph.closed for graph in device.backend.graphs)

    one, other = run_ranks(2, run)
    assert one == other == (["eager"] * 3, "CUDA graphs cannot be captured (no memory)", True)


class DoublingTransport:
    """Sums over two processes that compute the same, queued on the device as NCCL's are."""

    captures, slot = True, 0

    def __init__(self, dev):
        self._double = dev.map(Formula("x + x", ("x",)))

    def set_flags(self, flags) -> None:
        self.slot, self._flags = 1 - self.slot, flags

    def begin(self, loss) -> None:
        self._double(loss, loss)

    def post(self, array) -> None:
        self._double(array, array)

    def progress(self) -> None: ...

    finish = progress

    def read_loss(self, loss):
        return self._flags


class TwoEqualProcesses(SingleProcess):
    """Two processes of which this is one, and the other does what it does."""

    size, kind = 2, "twins"

    def gather(self, value, what=""):
        return [value, value]

    def total(self, values, what=""):
        return 2 * values

    def reducer(self, dev, flat, buckets, half=False, over=None):
        return GradientReducer(DoublingTransport(dev), flat, buckets, 2, lambda what: contextlib.nullcontext())


@pytest.mark.host
def test_sums_over_processes_are_captured(folder, train, device):
    graphs, runs = compare(train, device, SOLVER + "clip_gradients: 0.5", comm=TwoEqualProcesses())
    assert runs > 25


def nccl_sums(backend):
    beside = backend.new_stream()
    beside.ptr = beside
    return HostSums(backend.stream, beside, 0, 2, lambda uid: [uid], **stand_in(TwinCommunicator(), None))


class Summing(TwoEqualProcesses):
    def reducer(self, dev, flat, buckets, half=False, over=None):
        return GradientReducer(nccl_sums(dev.backend), flat, buckets, 2, lambda what: contextlib.nullcontext())


@pytest.mark.host
def test_sums_by_nccl_are_captured(folder, train, device, late):
    """On a side stream, forked and joined within the graph; whenever that does its work the numbers are those of
    plain sums."""
    text = SOLVER + "clip_gradients: 0.5"
    expected = trained(train, device, text, comm=TwoEqualProcesses())
    assert_same(trained(train, late, text, comm=Summing()), expected)
    assert not late.why_eager() and late.backend.graphs


class OneRankNCCL(TwoEqualProcesses):
    """NCCL with a communicator of one process; averages halve its gradients."""

    def reducer(self, dev, flat, buckets, half=False, over=None):
        self.sums = NCCLAllReduce(dev.backend.stream, dev.sums_stream, 0, 1, lambda uid: [uid], dev.drop_graphs)
        return GradientReducer(self.sums, flat, buckets, 2, lambda what: contextlib.nullcontext())


@pytest.mark.gpu
def test_nccl_in_a_graph_on_a_gpu(folder, train):
    if not count():
        pytest.skip("no usable GPU")
    actual = []
    for eager in ("the test asks for it", ""):
        dev, lone = GPU(0, "float32", precision="fp32", deterministic=True, eager=eager), OneRankNCCL()
        actual.append(trained(train, dev, SOLVER + "clip_gradients: 0.5", comm=lone)[1:])
        assert dev.why_eager() == eager, "NCCL's sums are captured"
        lone.sums.close()
    assert actual[0][0] == actual[1][0]
    np.testing.assert_equal(actual[0][1], actual[1][1])


@pytest.mark.host
def test_sums_by_the_host_are_not_captured(folder, train, device, monkeypatch):
    monkeypatch.setattr(DoublingTransport, "captures", False)
    log, *_ = trained(train, device, SOLVER, comm=TwoEqualProcesses())
    assert "Running eagerly, not as CUDA graphs: gradients that travel by the host, or in 16 bits" in log
