"""Errors where CuPy, the driver, a library or a precision is missing."""

import configparser
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from devices.host.backend import HostBackend
from devices.host.cupy import CUDAError, fake_cudnn, fake_cupy, fake_nccl, host_product

from caffelite import devices
from caffelite.devices import cuda, open_device
from caffelite.devices.cuda import GPU, backend, cudnn, installation, nccl, presence
from caffelite.errors import CaffeliteError


@pytest.fixture(autouse=True)
def nothing_open(monkeypatch):
    """Devices of the last test are not given again; the machine seems to have a GPU."""
    devices._opened.__dict__.clear()
    monkeypatch.setattr(presence, "present", lambda: True)


@pytest.fixture
def no_driver(monkeypatch):
    monkeypatch.setattr(installation, "driver_version", lambda: None)


@pytest.mark.parametrize("driver, extra", [(None, "cuda13"), (12080, "cuda12"), (13000, "cuda13")])
def test_no_cupy(monkeypatch, driver, extra):
    monkeypatch.setattr(installation, "driver_version", lambda: driver)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(CaffeliteError, match=rf"-gpu needs cupy, which is not installed; .*caffelite\[{extra}\]"):
        open_device(0)
    assert cuda.count() == 0 and "cupy" in cuda.why_none()


@pytest.mark.parametrize("cupy", [None, fake_cupy(CUDAError("cudaErrorInsufficientDriver"))])
def test_no_gpu(monkeypatch, cupy):
    monkeypatch.setattr(presence, "present", lambda: False)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(CaffeliteError) as mistake:
        open_device(0)
    assert str(mistake.value) == "-gpu: this machine has no NVIDIA GPU; leave -gpu out to run on the CPU"


def test_no_driver(monkeypatch, no_driver):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(CUDAError("cudaErrorInsufficientDriver")))
    with pytest.raises(CaffeliteError, match="no usable GPU; expected an NVIDIA GPU, found no NVIDIA driver .*libcuda"):
        open_device(0)
    assert cuda.count() == 0 and "driver" in cuda.why_none()


@pytest.mark.parametrize(
    ("cupy", "reported"),
    [
        (
            fake_cupy(CUDAError("cudaErrorInsufficientDriver: too old")),
            r"a driver for CUDA 12\.2: .*too old; match the extra",
        ),
        (fake_cupy(0), "CUDA_VISIBLE_DEVICES"),
        (fake_cupy(runtime_version=99000), r"libcublas\.so\.99 cannot be loaded"),
        (
            fake_cupy(capability=(7, 0)),
            "too old for CUDA 13; expected compute capability 7.5 or more, found 7.0; .*cuda12",
        ),
    ],
    ids=["an old driver", "hidden GPUs", "no cuBLAS", "a GPU that CUDA 13 gave up"],
)
def test_what_is_missing_is_reported(monkeypatch, cupy, reported):
    monkeypatch.setattr(installation, "driver_version", lambda: 12020)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(CaffeliteError, match=reported):
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


NO_HEADERS = (
    "Failed to find CUDA headers. Please install CUDA toolkit headers (e.g., pip install cupy-cuda12x[ctk]) "
    "or specify CUDA_PATH"
)


@pytest.mark.parametrize(
    "mistake, reported",
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
            "GPU 0 has no memory left; found Out of memory .*; end the process that uses it",
        ),
        (PermissionError(13, "Permission denied", "/.cupy"), "compiled CUDA kernels cannot be kept; .*CUPY_CACHE_DIR"),
    ],
)
def test_a_set_up_that_fails(monkeypatch, mistake, reported):
    """The first kernel is compiled when a device is opened, so what is missing for that is reported in one line."""
    fake = fake_cupy()

    def module(code, options):
        def get_function(name):
            raise mistake

        return SimpleNamespace(get_function=get_function)

    fake.RawModule = module
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: host_product)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    with pytest.raises(CaffeliteError, match=reported) as caught:
        open_device(0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("major", [12, 13])
def test_extras_bring_what_compiles_kernels(major):
    """CuPy needs the headers of cudart for every kernel; without a bound cuDNN's wheel brings a cuBLAS of any CUDA."""
    actual = configparser.ConfigParser()
    actual.read(Path(__file__).parents[2] / "setup.cfg")
    assert f"cuda-toolkit[cudart,cublas,nvrtc]=={major}.*" in actual["options.extras_require"][f"cuda{major}"].split()


@pytest.mark.parametrize(
    "capability, precision, reported",
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
def test_a_precision_that_a_gpu_lacks(monkeypatch, capability, precision, reported):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(capability=capability, runtime_version=12090))
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: host_product)
    monkeypatch.setattr(cudnn, "frontend", fake_cudnn)
    with pytest.raises(CaffeliteError, match=reported) if reported else nullcontext():
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
        ((8, 6), "auto", True, "bf16"),
        ((7, 5), "auto", False, "fp32"),
    ],
)
def test_layout_by_what_tensor_cores_multiply(caplog, capability, precision, last, computes_in):
    """Channels last is for tensor cores; a GPU without TF32 computes in fp32, and says so."""
    here, strict = HostBackend(), []
    here.capability = capability
    here.convolutions = lambda flag, deterministic: strict.append(flag) or SimpleNamespace(choices=None)
    with caplog.at_level("INFO", "caffelite"):
        dev = GPU(0, "float32", here, precision)
    assert dev.traits.channels_last == last and dev.precision == computes_in and strict == [computes_in == "fp32"]
    assert ("has no TF32" in caplog.text) == (capability < (8, 0) and computes_in == "fp32")
    assert ("without tensor cores only inner products" in caplog.text) == (capability == (6, 1))


def test_a_gpu_that_cannot_be_asked(monkeypatch):
    fake = fake_cupy()

    def busy():
        raise CUDAError("cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable")

    fake.cuda.runtime.memGetInfo = busy
    monkeypatch.setitem(sys.modules, "cupy", fake)
    with pytest.raises(CaffeliteError, match="GPU 0 cannot be set up; found cudaErrorDevicesUnavailable"):
        cuda.describe(0)


@pytest.mark.parametrize("runtime, extra", [(12090, "cuda12"), (13020, "cuda13")])
def test_no_cudnn(monkeypatch, runtime, extra):
    """One line that names the extra, wherever a GPU is asked for."""
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(runtime_version=runtime))
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: host_product)
    monkeypatch.setitem(sys.modules, "cudnn", None)
    cudnn._loaded.cache_clear()
    for use in (open_device, cuda.describe):
        with pytest.raises(
            CaffeliteError, match="-gpu needs cuDNN, which cannot be loaded; found .*cudnn.*; "
        ) as caught:
            use(0)
        assert str(caught.value).endswith(f'pip install "caffelite[{extra}]"') and "\n" not in str(caught.value)
    cudnn._loaded.cache_clear()


def test_a_cudnn_that_cannot_start(monkeypatch):
    broken = fake_cudnn()

    def create_handle():
        raise RuntimeError("CUDNN_STATUS_NOT_INITIALIZED\nmore")

    broken.create_handle = create_handle
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: host_product)
    monkeypatch.setattr(cudnn, "frontend", lambda: broken)
    with pytest.raises(CaffeliteError, match="cuDNN cannot be used; found CUDNN_STATUS_NOT_INITIALIZED; see by"):
        open_device(0)


def test_describe(monkeypatch, no_driver):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(2))
    monkeypatch.setattr(nccl, "nccl_module", lambda: fake_nccl(None))
    monkeypatch.setattr(cudnn, "frontend", fake_cudnn)
    reported = cuda.describe(1)
    assert (
        reported["Device id"] == 1
        and reported["Name"] == "Fake"
        and reported["Maximum dimension of grid"] == "3 x 2 x 1"
    )
    assert (
        reported["Free global memory (bytes)"] == 3
        and reported["CUDA runtime"] == "13.2"
        and "CUDA driver" not in reported
        and reported["cuDNN"] == "9.19.0"
        and reported["NCCL"] == "2.32.3"
    )
