"""What stands between the device and CUDA, with a stand-in for CuPy; and what a user is told where something is
missing."""

import configparser
import ctypes
import itertools
import sys
import threading
import weakref
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from devices.host.backend import HostBackend, decoded, encoded

from caffelite import devices
from caffelite.devices import Window, cuda, open_device
from caffelite.devices.cuda import GPU, backend, cudnn, operations
from caffelite.devices.cuda.streams import CopyStream
from caffelite.devices.formula import Formula
from caffelite.errors import CaffeliteError


class Pointer:
    """A place in memory, as CuPy's arrays have one in ``data``."""

    def __init__(self, array, offset=0):
        self.array, self.offset, self.ptr = array, offset, array.ctypes.data + offset

    def __add__(self, offset):
        return Pointer(self.array, self.offset + offset)


class Array(np.ndarray):
    """An array that tells its address as CuPy's do."""

    @property
    def data(self):
        return Pointer(self)

    def get(self, stream):
        return np.array(self)


def array(values, dtype="float32"):
    return np.ascontiguousarray(values, dtype).view(Array)


class CUDAError(RuntimeError):
    pass


class Here(threading.local):
    """A thread's device, and the stream in use on each; CuPy's streams are current by device and by thread."""

    def __init__(self):
        self.device, self.streams = 0, {}


class FakeStream:
    def __init__(self, here, ptr):
        self.here, self.ptr, self.device_id, self.captures, self.waits = here, ptr, here.device, [], 0

    def use(self):
        if self.device_id != self.here.device:
            found = f"({self.device_id}) does not match with the current device ({self.here.device})"
            raise RuntimeError(f"The device that the stream is created on {found}")
        self.here.streams[self.device_id] = self

    def __enter__(self):
        self.use()

    def __exit__(self, *_):
        """As CuPy's: what ``use`` chose before is forgotten, and the null stream is current."""
        del self.here.streams[self.device_id]

    def begin_capture(self):
        self.captures.append(None)

    def end_capture(self):
        return SimpleNamespace(upload=lambda stream: None, launch=self.captures.append)

    def synchronize(self):
        self.waits += 1

    def wait_event(self, event): ...


def fake_cupy(count=1, capability=(9, 0), runtime_version=13020, reads_any_memory=False):
    """As much of CuPy as the backend uses, on the host. ``__launches__``: (device, stream) of each kernel;
    ``__here__``: see Here."""
    here, pointers, launches = Here(), itertools.count(7), []
    null = FakeStream(here, 0)

    def copy(target, source, size, kind, stream):
        assert stream >= 7 and kind in (1, 3)
        ctypes.memmove(target, source, size)

    def device_count():
        if isinstance(count, Exception):
            raise count
        return count

    properties = {
        "name": b"Fake",
        "major": capability[0],
        "minor": capability[1],
        "maxGridSize": (3, 2, 1),
        "totalGlobalMem": 5,
    }
    runtime = SimpleNamespace(
        CUDARuntimeError=CUDAError,
        getDeviceCount=device_count,
        memcpyAsync=copy,
        memGetInfo=lambda: (3, 5),
        getDeviceProperties=lambda number: properties,
        runtimeGetVersion=lambda: runtime_version,
        cudaDevAttrPageableMemoryAccess=88,
        deviceGetAttribute=lambda attribute, number: int(reads_any_memory and attribute == 88),
    )

    class Device(nullcontext):
        def __init__(self, number):
            super().__init__()
            self.id = number

        def use(self):
            here.device = self.id

    host, pinned = HostBackend(), set()

    def pinned_memory(count):
        memory = bytearray(count)
        pinned.add(np.frombuffer(memory, np.uint8).ctypes.data)
        return memory

    def current():
        return here.streams.get(here.device, null)

    def module(code, options):
        def function(name):
            run = host.kernel(code, name) if name != "probe" else None

            def launch(grid, block, args):
                launches.append((here.device, current()))
                run(grid, block, args)

            return launch

        return SimpleNamespace(get_function=function)

    event = SimpleNamespace(record=lambda stream: None, synchronize=lambda: None)
    cuda = SimpleNamespace(
        runtime=runtime,
        Device=Device,
        Stream=lambda non_blocking: FakeStream(here, next(pointers)),
        get_current_stream=current,
        Event=lambda disable_timing: event,
        driver=SimpleNamespace(CUDADriverError=CUDAError),
        alloc_pinned_memory=pinned_memory,
        pinned_memory=SimpleNamespace(is_memory_pinned=lambda address: address in pinned),
    )
    return SimpleNamespace(
        __version__="14.0",
        empty=lambda shape, dtype: np.zeros(shape, dtype).view(Array),
        RawModule=module,
        copyto=np.copyto,
        add=np.add,
        ndarray=lambda shape, dtype, memptr: np.ndarray(
            shape, dtype, memptr.array.view(np.ndarray), memptr.offset
        ).view(Array),
        cuda=cuda,
        __launches__=launches,
        __here__=here,
    )


@pytest.fixture(autouse=True)
def nothing_open():
    """Devices of the last test are not given again."""
    devices._opened.__dict__.clear()


@pytest.fixture
def no_driver(monkeypatch):
    monkeypatch.setattr(backend, "driver_version", lambda: None)


def test_backend_by_cupy(monkeypatch, seed):
    """The device runs on what it asks of CuPy: copies on its stream, kernels, products."""
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: _by_host)
    monkeypatch.setattr(cudnn, "frontend", lambda: None)
    rng, dev = np.random.default_rng(seed), GPU(0)
    x, w, y = dev.empty((3, 4)), dev.empty((2, 4)), dev.zeros((3, 2))
    host = rng.normal(size=(3, 4)).astype(np.float32)
    dev.upload(x, host)
    dev.upload(w, np.float64(2))
    dev.inner_product(3, 4, 2).forward(x, w, None, y, 0.0)
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
    assert isinstance(dev.convolution((1, 1, 3, 3), (1, 1, 3, 3), Window((1, 1))), operations.Convolution)
    dev.synchronize()


def test_captures_by_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: _by_host)
    monkeypatch.setattr(cudnn, "frontend", lambda: None)
    dev, calls = GPU(0), []
    program, captures = dev.program(lambda: calls.append(dev.capturing)), dev.backend.stream.captures
    for _ in range(4):
        program()
    assert calls == [False, True] and captures == [None, *[dev.backend.stream] * 3] and not dev.why_eager()

    def refused():
        if dev.capturing:
            raise CUDAError("cudaErrorStreamCaptureUnsupported: no\nmore")
        calls.append("eager")

    program = dev.program(refused)
    for _ in range(3):
        program()
    assert (
        calls[2:] == ["eager"] * 3
        and dev.why_eager() == "CUDA graphs cannot be captured (cudaErrorStreamCaptureUnsupported: no)"
    )


def _by_host(a, b, c, m, n, k, *flags):
    HostBackend().matmul(*(v.view(np.ndarray) for v in (a, b, c)), m, n, k, *flags)


def fake_gemm(
    handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc, compute, algorithm
):
    """cuBLAS's own words: everything by columns."""
    strides = m * k, k * n, m * n
    return fake_gemm_batched(
        handle,
        op_a,
        op_b,
        m,
        n,
        k,
        alpha,
        a,
        type_a,
        lda,
        strides[0],
        b,
        type_b,
        ldb,
        strides[1],
        beta,
        c,
        type_c,
        ldc,
        strides[2],
        1,
        compute,
        algorithm,
    )


def fake_gemm_batched(
    handle,
    op_a,
    op_b,
    m,
    n,
    k,
    alpha,
    a,
    type_a,
    lda,
    stride_a,
    b,
    type_b,
    ldb,
    stride_b,
    beta,
    c,
    type_c,
    ldc,
    stride_c,
    batch,
    compute,
    algorithm,
):
    assert type_a == type_b and algorithm == -1
    assert compute == {0: 77, 1: 70, 2: 68, 14: 68}[type_a]
    alpha, beta = (v._obj.value for v in (alpha, beta))
    kinds = {0: np.float32, 1: np.float64, 2: np.float16, 14: np.uint16}

    def matrix(address, kind, offset, rows, columns, ld):
        kind = np.dtype(kinds[kind])
        raw = (ctypes.c_char * (columns * ld * kind.itemsize)).from_address(address + kind.itemsize * offset)
        return np.frombuffer(raw, kind).reshape(columns, ld)[:, :rows].T

    for i in range(batch):
        left = decoded(matrix(a, type_a, i * stride_a, *((k, m) if op_a else (m, k)), lda))
        right = decoded(matrix(b, type_b, i * stride_b, *((n, k) if op_b else (k, n)), ldb))
        out = matrix(c, type_c, i * stride_c, m, n, ldc)
        found = alpha * (left.T if op_a else left) @ (right.T if op_b else right) + (beta * decoded(out) if beta else 0)
        out[...] = encoded(found, out.dtype)
    return 0


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    "kind, out", [("float32", "float32"), ("float64", "float64"), ("float16", "float32"), ("uint16", "float32")]
)
def test_products_by_rows(trans_a, trans_b, add, batch, kind, out, seed):
    rng = np.random.default_rng(seed)
    m, n, k = 3, 5, 4
    shapes = (batch, k, m) if trans_a else (batch, m, k), (batch, n, k) if trans_b else (batch, k, n)
    a, b = (array(encoded(rng.normal(size=s), np.dtype(kind)), kind) for s in shapes)
    c = array(rng.normal(size=(batch, m, n)), out)
    expected = np.array(c)
    HostBackend().matmul(*(v.view(np.ndarray) for v in (a, b)), expected, m, n, k, trans_a, trans_b, add, batch)
    blas = backend.Blas.__new__(backend.Blas)
    blas._handle = None
    blas._bind(fake_gemm, fake_gemm_batched, strict=False)
    blas(a, b, c, m, n, k, trans_a, trans_b, add, batch)
    np.testing.assert_allclose(c, expected, rtol=1e-5)


@pytest.mark.parametrize("strict, compute", [(False, 77), (True, 68)])
def test_tf32_and_strict_float32(strict, compute):
    """cuBLAS multiplies TF32 numbers, or all of float32 where that was asked for."""
    asked, blas = [], backend.Blas.__new__(backend.Blas)
    blas._handle = None
    blas._bind(lambda *arguments: asked.append(arguments[-2]) or 0, fake_gemm_batched, strict)
    one = array(np.ones((1, 1)))
    blas(one, one, one, 1, 1, 1, False, False, False, 1)
    assert asked == [compute]


def test_a_product_that_fails():
    blas = backend.Blas.__new__(backend.Blas)
    blas._handle = None
    one = array(np.ones((2, 1)))
    blas._bind(lambda *arguments: 13, lambda *arguments: 7, strict=False)
    with pytest.raises(CaffeliteError, match="cublasGemmEx failed; found cuBLAS status 13"):
        blas(one, one, one, 1, 1, 1, False, False, False, 1)
    with pytest.raises(CaffeliteError, match="cublasGemmStridedBatchedEx failed; found cuBLAS status 7"):
        blas(one, one, one, 1, 1, 1, False, False, False, 2)


def test_strictness_reaches_cublas(monkeypatch):
    strict = []
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, flag: strict.append(flag))
    monkeypatch.setattr(cudnn, "frontend", lambda: None)
    for precision in ("tf32", "fp32", "fp16", "bf16", None):
        assert open_device(0, precision=precision).precision == (precision or "tf32")
        devices._opened.__dict__.clear()
    assert strict == [False, True, False, False, False]


def test_precision_of_a_device_without_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: _by_host)
    monkeypatch.setattr(cudnn, "frontend", lambda: None)
    assert open_device(0).precision == "tf32" and not open_device(0).deterministic
    assert not open_device(precision="tf32").half  # a CPU takes it for fp32
    with pytest.raises(CaffeliteError, match="fp16 is for GPUs; found the CPU; use -precision bf16"):
        open_device(precision="fp16")


def test_the_clock(monkeypatch):
    """A lap keeps the GPU waiting while runs are queued, and is the mean of one."""
    fake, told = fake_cupy(), []

    class Event:
        def record(self, stream):
            told.append("event")

        def synchronize(self):
            told.append("wait")

    fake.cuda.Event, fake.cuda.get_elapsed_time = Event, lambda begin, end: 6.0
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: _by_host)
    here = backend.CuPyBackend(0)
    monkeypatch.setattr(
        here, "kernel", lambda source, name: lambda grid, block, args: told.append((name, int(args[0])))
    )
    assert here.lap(lambda: told.append("run"), 3) == 2.0
    assert told == [("spin", 3 * here.LAUNCH), "event", "run", "run", "run", "event", "wait"] and here.model() == "Fake"


# what is missing


@pytest.mark.parametrize("driver, extra", [(None, "cuda13"), (12080, "cuda12"), (13000, "cuda13")])
def test_no_cupy(monkeypatch, driver, extra):
    monkeypatch.setattr(backend, "driver_version", lambda: driver)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(CaffeliteError, match=rf"-gpu needs cupy, which is not installed; .*caffelite\[{extra}\]"):
        open_device(0)
    assert cuda.count() == 0 and "cupy" in cuda.why_none()


def test_no_driver(monkeypatch, no_driver):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(CUDAError("cudaErrorInsufficientDriver")))
    with pytest.raises(CaffeliteError, match="no usable GPU; expected an NVIDIA GPU, found no NVIDIA driver .*libcuda"):
        open_device(0)
    assert cuda.count() == 0 and "driver" in cuda.why_none()


def test_old_driver(monkeypatch):
    monkeypatch.setattr(backend, "driver_version", lambda: 12020)
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(CUDAError("cudaErrorInsufficientDriver: too old")))
    with pytest.raises(CaffeliteError, match=r"a driver for CUDA 12\.2: .*too old; match the extra"):
        open_device(0)


def test_hidden_gpus(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(0))
    with pytest.raises(CaffeliteError, match="CUDA_VISIBLE_DEVICES"):
        open_device(0)


@pytest.mark.parametrize(
    "count, number, text",
    [(1, 1, "no GPU 1; expected 0, found 1 GPU"), (4, -1, "no GPU -1; expected 0 to 3, found 4 GPUs")],
)
def test_number_out_of_range(monkeypatch, count, number, text):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(count))
    for use in (open_device, cuda.describe):
        with pytest.raises(CaffeliteError, match=text):
            use(number)
    assert cuda.count() == count and cuda.why_none() == ""


def test_no_cublas(monkeypatch):
    fake = fake_cupy()
    fake.cuda.runtime.runtimeGetVersion = lambda: 99000
    monkeypatch.setitem(sys.modules, "cupy", fake)
    with pytest.raises(CaffeliteError, match=r"libcublas\.so\.99 cannot be loaded"):
        open_device(0)


NO_HEADERS = (
    "Failed to find CUDA headers. Please install CUDA toolkit headers (e.g., pip install cupy-cuda12x[ctk]) "
    "or specify CUDA_PATH"
)


@pytest.mark.parametrize(
    "mistake, told",
    [
        (
            RuntimeError(NO_HEADERS),
            r"CUDA kernels cannot be compiled; found Failed to find CUDA headers.*caffelite\[cuda13\]",
        ),
        (
            ImportError("libnvrtc.so.13: cannot open shared object file\nmore"),
            r"cannot be compiled; found libnvrtc.so.13: .*caffelite\[cuda13\]",
        ),
        (
            CUDAError("cudaErrorDevicesUnavailable: busy"),
            "GPU 0 cannot be set up; found cudaErrorDevicesUnavailable: busy; .*nvidia-smi",
        ),
        (
            MemoryError("Out of memory allocating 33,554,432 bytes"),
            "GPU 0 has no memory left; found Out of memory .*; end what holds it",
        ),
        (PermissionError(13, "Permission denied", "/.cupy"), "compiled CUDA kernels cannot be kept; .*CUPY_CACHE_DIR"),
    ],
)
def test_a_set_up_that_fails(monkeypatch, mistake, told):
    """The first kernel is compiled when a device is opened, so what is missing for that is told in one line."""
    fake = fake_cupy()

    def module(code, options):
        def get_function(name):
            raise mistake

        return SimpleNamespace(get_function=get_function)

    fake.RawModule = module
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: _by_host)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    with pytest.raises(CaffeliteError, match=told) as caught:
        open_device(0)
    assert "\n" not in str(caught.value)


def test_a_gpu_that_cuda_13_gave_up(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(capability=(7, 0)))
    with pytest.raises(
        CaffeliteError, match=r"too old for CUDA 13; expected compute capability 7.5 or more, found 7.0; .*cuda12"
    ):
        open_device(0)


@pytest.mark.parametrize("major", [12, 13])
def test_extras_bring_what_compiles_kernels(major):
    """CuPy needs the headers of cudart for every kernel; without a bound cuDNN's wheel brings a cuBLAS of any CUDA."""
    found = configparser.ConfigParser()
    found.read(Path(__file__).parents[2] / "setup.cfg")
    assert f"cuda-toolkit[cudart,cublas,nvrtc]=={major}.*" in found["options.extras_require"][f"cuda{major}"].split()


@pytest.mark.parametrize("reads_any_memory", [False, True])
def test_memory_that_is_not_pinned_is_free_at_once(monkeypatch, reads_any_memory):
    """A GPU that reads any memory of the host may do so after the call; another one's driver makes a copy first."""
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(reads_any_memory=reads_any_memory))
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: _by_host)
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


# several devices


@pytest.fixture
def several(monkeypatch):
    """A CuPy of two GPUs; cuBLAS, here by the host, is not asked."""
    fake = fake_cupy(2)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: _by_host)
    monkeypatch.setattr(cudnn, "frontend", lambda: None)
    return fake


def doubled(fake, dev):
    """(device, stream) of a kernel that a device launches, after it has checked what the kernel computes."""
    dev.upload(x := dev.empty(3), np.arange(3))
    dev.map(Formula("a * 2", ("a",)))(x, x)
    np.testing.assert_array_equal(dev.download(x), [0, 2, 4])
    return fake.__launches__[-1]


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
    one.seed = 7
    mine = one.make_input_buffer()
    again = open_device(0)
    assert again is one and mine.seed == 7 and one.make_input_buffer().seed == 0, (
        "nets keep the seed that they were built with"
    )
    assert (
        len({id(dev) for dev in (one, open_device(1), open_device(0, precision="fp32"), open_device(0, eager=True))})
        == 4
    )
    elsewhere = []
    thread = threading.Thread(target=lambda: elsewhere.append(open_device(0)))
    thread.start()
    thread.join()
    assert elsewhere[0] is not one, "threads run at the same time, so they share no workspace"


# what a GPU computes in


@pytest.mark.parametrize(
    "capability, precision, told",
    [
        (
            (7, 5),
            "bf16",
            "GPU 0 has no bf16; expected compute capability 8.0 or more, found 7.5; use -precision fp16 or fp32",
        ),
        ((5, 2), "fp16", "GPU 0 has no fp16; expected compute capability 5.3 or more, found 5.2; use -precision fp32"),
        ((8, 0), "bf16", ""),
        ((7, 0), "fp16", ""),
        ((5, 2), "fp32", ""),
    ],
)
def test_a_precision_that_a_gpu_lacks(monkeypatch, capability, precision, told):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(capability=capability, runtime_version=12090))
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: _by_host)
    monkeypatch.setattr(cudnn, "frontend", lambda: None)
    with pytest.raises(CaffeliteError, match=told) if told else nullcontext():
        assert open_device(0, precision=precision).precision == precision


@pytest.mark.parametrize(
    "capability, precision, last, computes_in",
    [
        ((7, 5), "tf32", False, "fp32"),
        ((8, 0), "tf32", True, "tf32"),
        ((9, 0), "fp32", False, "fp32"),
        ((7, 5), "fp16", True, "fp16"),
        ((6, 1), "fp16", False, "fp16"),
        ((8, 6), "bf16", True, "bf16"),
    ],
)
def test_layout_by_what_tensor_cores_multiply(monkeypatch, caplog, capability, precision, last, computes_in):
    """Channels last is for tensor cores; a GPU without TF32 computes in fp32, and says so."""
    here, strict = HostBackend(), []
    here.capability = capability
    monkeypatch.setattr(cudnn, "engine", lambda backend, flag, deterministic: strict.append(flag) or SimpleNamespace())
    with caplog.at_level("INFO", "caffelite"):
        dev = GPU(0, "float32", here, precision)
    assert dev.traits.channels_last == last and dev.precision == computes_in and strict == [computes_in == "fp32"]
    assert ("has no TF32" in caplog.text) == (precision != computes_in)
    assert ("without tensor cores only inner products" in caplog.text) == (capability == (6, 1))


def test_a_gpu_that_cannot_be_asked(monkeypatch):
    fake = fake_cupy()

    def busy():
        raise CUDAError("cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable")

    fake.cuda.runtime.memGetInfo = busy
    monkeypatch.setitem(sys.modules, "cupy", fake)
    with pytest.raises(CaffeliteError, match="GPU 0 cannot be set up; found cudaErrorDevicesUnavailable"):
        cuda.describe(0)


def test_describe(monkeypatch, no_driver):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(2))
    told = cuda.describe(1)
    assert told["Device id"] == 1 and told["Name"] == "Fake" and told["Maximum dimension of grid"] == "3 x 2 x 1"
    assert (
        told["Free global memory (bytes)"] == 3
        and told["CUDA runtime"] == "13.2"
        and "CUDA driver" not in told
        and told["cuDNN"]
    )
