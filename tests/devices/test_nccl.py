"""Sums over GPUs, on stand-ins for CuPy and NCCL: NumPy arrays, streams of the host, threads for processes."""

import sys
import threading
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from devices.host import backend
from devices.host.cupy import Array, numbers, stand_in
from devices.host.ranks import run_ranks

from caffelite.devices.cuda import nccl
from caffelite.devices.cuda.nccl import NCCLAllReduce
from caffelite.errors import CaffeliteError
from caffelite.parallel import Bucket, GradientReducer


class Stream(backend.Stream):
    def __init__(self, log, name, when):
        super().__init__(when)
        self.log, self.name = log, name

    def wait_event(self, event):
        self.log.append((self.name, "waits for", event.stream.name))
        super().wait_event(event)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Event(backend.Event):
    def synchronize(self):
        assert self.stream, "waits for what was never recorded"
        super().synchronize()


class Communicator:
    """Threads that meet at a barrier and add up what they bring."""

    def __init__(self, shared, rank, log):
        self.shared, self.rank, self.log = shared, rank, log

    def allReduce(self, send, received, count, kind, how, stream):
        assert send == received and stream.name == "beside"
        assert (kind, how) == (7, 0), "a sum of float32"
        self.log.append(("allReduce", count))
        stream.add(lambda: self.reduce(send, count))

    def reduce(self, send, count):
        mine = numbers(send, count, np.float32)
        self.shared.brought[self.rank] = mine.copy()
        self.shared.barrier.wait()
        mine[...] = np.sum(self.shared.brought, 0, np.float32)
        self.shared.barrier.wait()

    def check_async_error(self):
        pass


def run(size, rounds=3, when=("at once", "at once")):
    """Every rank's (gradients after each round, losses, flags, log). when: the two streams do their work."""
    shared = SimpleNamespace(barrier=threading.Barrier(size, timeout=30), brought=[None] * size)

    def rank_of(rank, gather):
        log, actual = [], []
        compute = Stream(log, "compute", when[0])
        beside = Stream(log, "beside", when[1])
        beside.ptr = beside
        modules = stand_in(Communicator(shared, rank, log), None, Event)
        sums = NCCLAllReduce(compute, beside, rank, size, gather, **modules)
        flat = np.zeros(100, np.float32).view(Array)
        loss = np.zeros(1, np.float32).view(Array)
        reducer = GradientReducer(sums, flat, [Bucket(60, 100, 1), Bucket(0, 60, 3)], size, lambda what: nullcontext())
        for turn in range(rounds):
            log.append("round")
            compute.add(partial(np.copyto, flat, np.float32(np.arange(100) * (rank + 1) * 1e-3 * 10.0**turn)))
            compute.add(partial(np.copyto, loss, np.float32(rank + turn)))
            reducer.set_flags(np.array([rank == 1 and turn == 1, 0.0]))
            reducer.begin(loss)
            for step in range(5):
                log.append(f"step {step}")
                reducer.after_step(step)
            reducer.finish()
            flags = reducer.read_loss(loss).tolist()
            compute.add(lambda flags=flags: actual.append((flat.copy(), float(loss[0]), flags)))
        compute.synchronize()
        return actual, log

    return run_ranks(size, rank_of)


@pytest.mark.parametrize("compute, beside", [("at once", "at once"), ("late", "early"), ("late", "late")])
@pytest.mark.parametrize("size", [2, 3])
def test_every_rank_gets_the_sums(size, compute, beside):
    """Whenever the two streams do their work."""
    for actual, _ in run(size, when=(compute, beside)):
        for turn, (flat, loss, flags) in enumerate(actual):
            expected = np.arange(100) * sum(range(1, size + 1)) * 1e-3 * 10.0**turn
            np.testing.assert_allclose(flat, expected, rtol=1e-6, atol=1e-4 * expected.max())
            assert loss == sum(range(size)) + size * turn
            assert flags == [turn == 2, False], "what was asked in one iteration is known in the next"


def test_a_bucket_travels_as_soon_as_it_is_complete():
    log = run(2, rounds=1)[0][1]
    after = {m: log.index(f"step {m}") for m in range(5)}
    sums = {entry[1]: i for i, entry in enumerate(log) if entry[0] == "allReduce"}
    assert after[1] < sums[40] < after[2] and after[3] < sums[60] < after[4]
    waits = [entry for entry in log if entry[1:2] == ("waits for",)]
    assert waits[0] == ("beside", "waits for", "compute") and waits[-1] == ("compute", "waits for", "beside")


def test_without_nccl_the_error_says_what_to_install():
    with pytest.raises(CaffeliteError, match="several GPUs need NCCL.*nvidia-nccl-cu12"):
        NCCLAllReduce(None, None, 0, 2, None, cupy=SimpleNamespace(), nccl=SimpleNamespace(available=False))


def test_gpus_that_nccl_cannot_join():
    modules = stand_in(None, lambda: backend.Stream("at once"))

    def refuses(*_):
        raise RuntimeError(
            "NCCL_ERROR_UNHANDLED_CUDA_ERROR: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
        )

    modules["nccl"].NcclCommunicator = refuses
    message = "NCCL cannot join the GPUs; found NCCL_ERROR_UNHANDLED_CUDA_ERROR.*NCCL_DEBUG=WARN"
    with pytest.raises(CaffeliteError, match=message):
        NCCLAllReduce(None, None, 0, 2, lambda uid: [uid], **modules)


def test_nccl_is_imported_from_cupy(monkeypatch):
    """CuPy's cuda package has no attribute nccl before somebody imports the module."""
    modules = stand_in(None, lambda: backend.Stream("at once"))
    cupy = modules["cupy"]
    cupy.cuda.__name__ = "cupy.cuda"
    for name, module in (("cupy", cupy), ("cupy.cuda", cupy.cuda), ("cupy.cuda.nccl", modules["nccl"])):
        monkeypatch.setitem(sys.modules, name, module)
    assert NCCLAllReduce(backend.Stream("at once"), backend.Stream("at once"), 0, 2, lambda uid: [uid]).captures


def test_real_nccl_is_found():
    pytest.importorskip("cupy")
    assert nccl.nccl_module().NcclCommunicator


# Which NCCL, and several ranks on one GPU


class Library:
    """A libnccl of some version, and other libraries."""

    def __init__(self, path: str):
        if path.endswith("missing.so"):
            raise OSError(f"{path}: cannot open shared object file")
        if path.endswith("nccl.so"):
            self.ncclGetVersion = lambda target: setattr(target._obj, "value", 23003)


def loaded(monkeypatch, version: int, available: bool = True, **variables: str) -> None:
    """CuPy has loaded an NCCL of this version."""
    modules = stand_in(None, None)
    module = SimpleNamespace(get_version=lambda: version, available=available)
    modules["cupy"].cuda.__name__ = "cupy.cuda"
    for name, each in (("cupy", modules["cupy"]), ("cupy.cuda", modules["cupy"].cuda), ("cupy.cuda.nccl", module)):
        monkeypatch.setitem(sys.modules, name, each)
    modules["cupy"].cuda.nccl = module
    monkeypatch.setattr(nccl.ctypes, "CDLL", Library)
    for name in (nccl.LIBRARY, nccl.SHARED):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_the_library_that_a_variable_names(monkeypatch):
    loaded(monkeypatch, 23003, CAFFELITE_NCCL="/opt/nccl.so")
    assert nccl.described() == "2.30.3 (/opt/nccl.so)"
    loaded(monkeypatch, 22809)
    assert nccl.described() == "2.28.9"
    loaded(monkeypatch, 0, available=False)
    assert nccl.described() == ""


@pytest.mark.parametrize(
    "path, message",
    [
        ("/opt/missing.so", "CAFFELITE_NCCL: no library can be loaded from /opt/missing.so; found .*cannot open"),
        ("/opt/other.so", "CAFFELITE_NCCL: /opt/other.so is another library than NCCL; name a libnccl.so.2"),
        (
            "/opt/nccl.so",
            "CAFFELITE_NCCL=/opt/nccl.so is not the NCCL of this process; expected NCCL 2.30.3, found 2.28.9",
        ),
    ],
)
def test_a_library_that_is_not_used_is_an_error(monkeypatch, path, message):
    loaded(monkeypatch, 22809, CAFFELITE_NCCL=path)
    with pytest.raises(CaffeliteError, match=message):
        nccl.nccl_module()


@pytest.mark.parametrize(
    "shared, version, available, permitted",
    [("1", 23000, True, True), ("1", 22999, True, False), ("0", 23203, True, False), ("1", 23203, False, False)],
)
def test_ranks_share_a_gpu_where_nccl_permits_it(monkeypatch, shared, version, available, permitted):
    loaded(monkeypatch, version, available, NCCL_MULTI_RANK_GPU_ENABLE=shared)
    assert nccl.sharing_permitted() == permitted
    nccl.check_shared([0, 1, 2])
    if permitted:
        nccl.check_shared([0, 1, 0])
    else:
        with pytest.raises(
            CaffeliteError, match="-gpu names GPU 0 more than once; expected each GPU once, found 0,1,0"
        ):
            nccl.check_shared([0, 1, 0])


class Ending:
    """A communicator and what else is ended, in the order in which it happens."""

    def __init__(self):
        self.log = []
        compute = SimpleNamespace(synchronize=lambda: self.log.append("synchronize"))
        beside = SimpleNamespace(synchronize=lambda: self.log.append("synchronize beside"))
        modules = stand_in(self, None)
        self.sums = NCCLAllReduce(
            compute, beside, 0, 2, lambda uid: [uid], drop_graphs=lambda: self.log.append("drop graphs"), **modules
        )

    def destroy(self):
        self.log.append("destroy")

    def abort(self):
        self.log.append("abort")


def test_graphs_go_before_the_communicator():
    """NCCL's commDestroy waits for graphs that hold its sums."""
    ending = Ending()
    ending.sums.close()
    ending.sums.close()
    assert ending.log == ["synchronize", "synchronize beside", "drop graphs", "destroy"]


def test_nothing_is_waited_for_after_an_error():
    ending = Ending()
    ending.sums.close(failed=True)
    assert ending.log == ["drop graphs", "abort"]


def test_an_error_of_the_last_work_aborts():
    ending = Ending()

    def fails():
        raise RuntimeError("cudaErrorIllegalAddress")

    ending.sums._compute.synchronize = fails
    with pytest.raises(RuntimeError, match="IllegalAddress"):
        ending.sums.close()
    assert ending.log == ["drop graphs", "abort"]
