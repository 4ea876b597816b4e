"""The backend between the GPU device and CUDA, with a stand-in for CuPy."""

import sys
import threading
import weakref

import numpy as np
import pytest
from devices.host.backend import HostBackend
from devices.host.cupy import CUDAError, fake_cudnn, fake_cupy, host_product

from caffelite import devices
from caffelite.devices import open_device, ops
from caffelite.devices.cuda import GPU, backend, cudnn
from caffelite.devices.cuda.streams import CopyStream
from caffelite.devices.formula import Formula


@pytest.fixture(autouse=True)
def nothing_open(monkeypatch):
    """Devices of the last test are not given again; cuDNN is a stand-in, too."""
    devices._opened.__dict__.clear()
    monkeypatch.setattr(cudnn, "frontend", fake_cudnn)


@pytest.mark.host
def test_backend_by_cupy(monkeypatch, seed):
    """The device runs on what it asks of CuPy: copies on its stream, kernels, products."""
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: host_product)
    rng, dev = np.random.default_rng(seed), GPU(0)
    x, w, y = dev.empty((3, 4)), dev.empty((2, 4)), dev.zeros((3, 2))
    host = rng.normal(size=(3, 4)).astype(np.float32)
    dev.upload(x, host)
    dev.upload(w, np.float64(2))
    dev.build(ops.InnerProduct(3, 4, 2)).forward(x, w, None, y, 0.0)
    np.testing.assert_allclose(dev.download(y), np.maximum(0, host @ np.full((4, 2), 2)), rtol=1e-5)
    dev.copy(x, w2 := dev.empty((3, 4)))
    dev.assign(x.T[1:3], w2[:2].reshape(4, 2).T[:, :3])
    dev.add(x[:, :2], w2[:, 1:3])
    moved = host.copy()
    moved[:2].reshape(4, 2)[:3] = host[:, 1:3]
    moved[:, 1:3] += host[:, :2]
    np.testing.assert_array_equal(dev.download(w2), moved)
    dev.copy(x, w2)
    dev.map(Formula("a * 2", ("a",)))(w2, w2)
    np.testing.assert_array_equal(dev.download(w2), 2 * host)
    raw = dev.empty((64,), np.uint8)
    part = dev.view(dev.view(raw, 16, (40,), np.uint8), 8, (2, 3))
    dev.fill(raw, 0)
    dev.upload(part, 1)
    assert (
        np.flatnonzero(dev.download(raw)).min() == 26 and np.count_nonzero(dev.download(raw)) == 2 * 6
    )  # 1.0 is 00 00 80 3F
    dev.synchronize()


def test_bits_of_bfloat16_are_not_added(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: host_product)
    dev = GPU(0, precision="bf16")
    whole, half = dev.zeros((3, 4)), dev.zeros((3, 4), np.uint16)
    with pytest.raises(AssertionError):
        dev.add(whole[:, :2], half[:, :2])
    with pytest.raises(AssertionError):
        dev.add(half[:, :2], whole[:, :2])


def test_captures_by_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: host_product)
    dev, calls = GPU(0), []
    program = dev.capture(lambda: calls.append(dev.capturing), dev.make_context())
    for _ in range(4):
        program()
    assert calls == [False, True] and [graph.runs for graph in dev.backend.stream.graphs] == [3] and not dev.why_eager()

    def refused():
        if dev.capturing:
            raise CUDAError("cudaErrorStreamCaptureUnsupported: no\nmore")
        calls.append("eager")

    program = dev.capture(refused, dev.make_context())
    for _ in range(3):
        program()
    assert (
        calls[2:] == ["eager"] * 3
        and dev.why_eager() == "CUDA graphs cannot be captured (cudaErrorStreamCaptureUnsupported: no)"
    )


def test_the_clock(monkeypatch):
    """A lap keeps the GPU waiting while runs are queued, and is the mean of one."""
    fake, reported = fake_cupy(), []

    class Event:
        def record(self, stream):
            reported.append("event")

        def synchronize(self):
            reported.append("wait")

    fake.cuda.Event, fake.cuda.get_elapsed_time = Event, lambda begin, end: 6.0
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: host_product)
    here = backend.CuPyBackend(0)
    monkeypatch.setattr(
        here, "kernel", lambda source, name: lambda grid, block, args: reported.append((name, int(args[0])))
    )
    assert here.lap(lambda: reported.append("run"), 3) == 2.0
    assert (
        reported == [("spin", 3 * here.LAUNCH), "event", "run", "run", "run", "event", "wait"]
        and here.model() == "Fake"
    )


@pytest.mark.parametrize("reads_any_memory", [False, True])
def test_memory_that_is_not_pinned_is_free_at_once(monkeypatch, reads_any_memory):
    """A GPU that reads any memory of the host may do so after the call; another one's driver makes a copy first."""
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(reads_any_memory=reads_any_memory))
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: host_product)
    here = backend.CuPyBackend(0)
    array, pinned = here.empty((3,), np.dtype(np.float32)), here.pinned((3,), np.dtype(np.float32))
    here.upload(array, pinned)
    assert here.stream.waits == 0
    here.upload(array, np.ones(3, np.float32))
    assert here.stream.waits == reads_any_memory
    here.upload(array, np.ones(3, np.float32), lane := here.new_stream())
    assert (here.stream.waits, lane.waits) == (reads_any_memory, reads_any_memory)


def test_a_lane_holds_what_it_copies():
    """Until it is copied: CuPy's pool gives pinned memory to others as soon as Python lets go of it."""

    class Forgetful(HostBackend):
        def upload(self, array, host, stream=None): ...

    lane, host = CopyStream(Forgetful(), 2), np.zeros(3)
    held = weakref.ref(host)
    lane.upload(1, None, host)
    del host
    lane.wait(0)
    assert held() is not None
    lane.wait(1)
    assert held() is None


@pytest.fixture
def several(monkeypatch):
    """A CuPy of two GPUs; cuBLAS, here by the host, is not asked."""
    fake = fake_cupy(2)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: host_product)
    return fake


def doubled(fake, dev):
    """(device, stream) of a kernel that a device launches, after it has checked what the kernel computes."""
    dev.upload(x := dev.empty(3), np.arange(3))
    dev.map(Formula("a * 2", ("a",)))(x, x)
    np.testing.assert_array_equal(dev.download(x), [0, 2, 4])
    return fake.__launches__[-1]


@pytest.mark.host
@pytest.mark.parametrize("numbers", [(0, 1), (0, 0)])
def test_two_devices_in_one_thread(several, numbers):
    """Each launches on its own GPU and stream, whichever was used last; so do forks, which change the stream."""
    one, other = (GPU(number) for number in numbers)
    for _ in range(2):
        for dev, number in zip((one, other), numbers, strict=True):
            assert doubled(several, dev) == (number, dev.backend.stream)
            for fork, _ in dev._forks:
                with fork:
                    assert doubled(several, dev) == (number, fork._stream)
    several.cuda.Device(1).use()  # somebody else's work with CuPy
    assert doubled(several, one) == (numbers[0], one.backend.stream)


@pytest.mark.host
def test_a_stream_that_cupy_makes_current(several):
    """As its ``get`` does where an array is not in one piece, and sums in 16 bits do: a ``with`` leaves the null stream
    current."""
    dev = GPU(0)
    with dev.backend.new_stream():
        pass
    assert several.cuda.get_current_stream().ptr == 0 and doubled(several, dev) == (0, dev.backend.stream)


def test_two_devices_in_many_threads(several):
    devs, wrong = [GPU(0), GPU(1)], []

    def work(first):
        for i in range(20):
            dev = devs[(first + i) % 2]
            dev.backend.here()
            if (several.__here__.device, several.cuda.get_current_stream()) != (dev.number, dev.backend.stream):
                wrong.append(first)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_device_is_opened_once(several):
    one = open_device(0)
    assert open_device(0) is one
    assert (
        len({id(dev) for dev in (one, open_device(1), open_device(0, precision="fp32"), open_device(0, eager=True))})
        == 4
    )
    elsewhere = []
    thread = threading.Thread(target=lambda: elsewhere.append(open_device(0)))
    thread.start()
    thread.join()
    assert elsewhere[0] is not one, "threads run at the same time, so they share no workspace"
