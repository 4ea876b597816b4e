"""What stands between the device and CUDA, with a stand-in for CuPy; and what a user is told where something is missing."""

import ctypes
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from devices.host.backend import HostBackend, decoded, encoded

from caffelite.devices import Window, gpu, open_device
from caffelite.devices.formula import Formula
from caffelite.devices.gpu import GPU, backend, cudnn, operations
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


def fake_cupy(count=1):
    """As much of CuPy as the backend uses, on the host."""

    def copy(target, source, size, kind, stream):
        assert stream == 7 and kind in (1, 3)
        ctypes.memmove(target, source, size)

    def device_count():
        if isinstance(count, Exception):
            raise count
        return count

    properties = {"name": b"Fake", "major": 9, "minor": 0, "maxGridSize": (3, 2, 1), "totalGlobalMem": 5}
    runtime = SimpleNamespace(
        CUDARuntimeError=CUDAError, getDeviceCount=device_count, memcpyAsync=copy, memGetInfo=lambda: (3, 5),
        getDeviceProperties=lambda number: properties, runtimeGetVersion=lambda: 13020,
    )  # fmt: skip

    class Device(nullcontext):
        def __init__(self, number):
            super().__init__()
            self.id = number

        def use(self):
            pass

    host = HostBackend()

    def module(code, options):
        return SimpleNamespace(get_function=lambda name: host.kernel(code, name))

    nvrtc = SimpleNamespace(getVersion=lambda: (13, 2))
    captures = []
    stream = SimpleNamespace(
        ptr=7, use=lambda: None, synchronize=lambda: None, wait_event=lambda event: None, begin_capture=lambda: captures.append(None),
        end_capture=lambda: SimpleNamespace(upload=lambda stream: None, launch=lambda stream: captures.append(stream)), captures=captures,
    )  # fmt: skip
    event = SimpleNamespace(record=lambda stream: None, synchronize=lambda: None)
    return SimpleNamespace(
        __version__="14.0", empty=lambda shape, dtype: np.zeros(shape, dtype).view(Array), RawModule=module, copyto=np.copyto, add=np.add,
        ndarray=lambda shape, dtype, memptr: np.ndarray(shape, dtype, memptr.array.view(np.ndarray), memptr.offset).view(Array),
        cuda=SimpleNamespace(
            runtime=runtime, Device=Device, Stream=lambda non_blocking: stream, nvrtc=nvrtc, Event=lambda disable_timing: event,
            driver=SimpleNamespace(CUDADriverError=CUDAError), alloc_pinned_memory=bytearray,
        ),
    )  # fmt: skip


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
    assert np.flatnonzero(dev.download(raw)).min() == 26 and np.count_nonzero(dev.download(raw)) == 2 * 6  # 1.0 is 00 00 80 3F
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
    assert calls == [False, True] and captures == [None, *[dev.backend.stream] * 3] and not dev.eager

    def refused():
        if dev.capturing:
            raise CUDAError("cudaErrorStreamCaptureUnsupported: no\nmore")
        calls.append("eager")

    program = dev.program(refused)
    for _ in range(3):
        program()
    assert calls[2:] == ["eager"] * 3 and dev.eager == "CUDA refuses to capture it (cudaErrorStreamCaptureUnsupported: no)"


def _by_host(a, b, c, m, n, k, *flags):
    HostBackend().matmul(*(v.view(np.ndarray) for v in (a, b, c)), m, n, k, *flags)


def fake_gemm(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc, compute, algorithm):
    """cuBLAS's own words: everything by columns."""
    strides = m * k, k * n, m * n
    return fake_gemm_batched(
        handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, strides[0], b, type_b, ldb, strides[1], beta, c, type_c, ldc, strides[2], 1,
        compute, algorithm,
    )  # fmt: skip


def fake_gemm_batched(
    handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb, stride_b, beta, c, type_c, ldc, stride_c, batch, compute,
    algorithm,
):  # fmt: skip
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
@pytest.mark.parametrize("kind, out", [("float32", "float32"), ("float64", "float64"), ("float16", "float32"), ("uint16", "float32")])
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
    monkeypatch.setattr(here, "kernel", lambda source, name: lambda grid, block, args: told.append((name, int(args[0]))))
    assert here.lap(lambda: told.append("run"), 3) == 2.0
    assert told == [("spin", 3 * here.LAUNCH), "event", "run", "run", "run", "event", "wait"] and here.model() == "Fake"


# what is missing


@pytest.mark.parametrize("driver, extra", [(None, "cuda13"), (12080, "cuda12"), (13000, "cuda13")])
def test_no_cupy(monkeypatch, driver, extra):
    monkeypatch.setattr(backend, "driver_version", lambda: driver)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(CaffeliteError, match=rf"-gpu needs cupy, which is not installed; .*caffelite\[{extra}\]"):
        open_device(0)
    assert gpu.count() == 0 and "cupy" in gpu.why_none()


def test_no_driver(monkeypatch, no_driver):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(CUDAError("cudaErrorInsufficientDriver")))
    with pytest.raises(CaffeliteError, match="no usable GPU; expected an NVIDIA GPU, found no NVIDIA driver .*libcuda"):
        open_device(0)
    assert gpu.count() == 0 and "driver" in gpu.why_none()


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
    "count, number, text", [(1, 1, "no GPU 1; expected 0, found 1 GPU"), (4, -1, "no GPU -1; expected 0 to 3, found 4 GPUs")]
)
def test_number_out_of_range(monkeypatch, count, number, text):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(count))
    for use in (open_device, gpu.describe):
        with pytest.raises(CaffeliteError, match=text):
            use(number)
    assert gpu.count() == count and gpu.why_none() == ""


def test_no_cublas(monkeypatch):
    fake = fake_cupy()
    fake.cuda.runtime.runtimeGetVersion = lambda: 99000
    monkeypatch.setitem(sys.modules, "cupy", fake)
    with pytest.raises(CaffeliteError, match=r"libcublas\.so\.99 cannot be loaded"):
        open_device(0)


def test_no_compiler(monkeypatch):
    fake = fake_cupy()
    fake.cuda.nvrtc.getVersion = None
    monkeypatch.setitem(sys.modules, "cupy", fake)
    with pytest.raises(CaffeliteError, match=r"NVRTC cannot be loaded; .*cupy-cuda13x\[ctk\]"):
        open_device(0)


def test_describe(monkeypatch, no_driver):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(2))
    told = gpu.describe(1)
    assert told["Device id"] == 1 and told["Name"] == "Fake" and told["Maximum dimension of grid"] == "3 x 2 x 1"
    assert told["Free global memory (bytes)"] == 3 and told["CUDA runtime"] == "13.2" and "CUDA driver" not in told and told["cuDNN"]
