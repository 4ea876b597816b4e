"""What a GPU device asks of CUDA: memory, kernels, matrix products. The tests put a host in its place, so keep it
small."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator

import numpy as np

from ...errors import CaffeliteError, missing_extra
from .streams import Graph

HEAD = (
    "typedef {real} real;\ntypedef {idx} idx;\ntypedef {blob} blob;\n"  # what a kernel's text is compiled with in front
)


def driver_version() -> int | None:
    """The newest CUDA that the NVIDIA driver speaks, as 13000 for 13.0; None without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int(0)
    return version.value if driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def cupy_module(use: str = "-gpu"):
    """CuPy, imported; where it is missing, an error that names the extra that fits the driver."""
    try:
        import cupy
    except ImportError as mistake:
        if isinstance(mistake, ModuleNotFoundError) and mistake.name == "cupy":
            version = driver_version()
            raise missing_extra("cupy", "cuda12" if version and version < 13000 else "cuda13", use) from None
        raise CaffeliteError(
            f"{use}: CuPy is installed but cannot be loaded", found=str(mistake).strip().splitlines()[0]
        ) from mistake
    return cupy


def device_count(cupy) -> int:
    """How many GPUs CUDA shows; an error that says what is missing where it shows none."""
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as mistake:
        version = driver_version()
        if version is None:
            what, remedy = (
                "no NVIDIA driver (libcuda.so.1 is missing)",
                "install the driver, or leave -gpu out to run on the CPU",
            )
        else:
            what = f"a driver for CUDA {version // 1000}.{version % 1000 // 10}: {mistake}"
            remedy = "match the extra (cuda12, cuda13) with the driver, or leave -gpu out to run on the CPU"
        raise CaffeliteError("no usable GPU", expected="an NVIDIA GPU", found=what, remedy=remedy) from None
    if count == 0:
        raise CaffeliteError(
            "no usable GPU",
            expected="an NVIDIA GPU",
            found="a driver that shows none",
            remedy="is CUDA_VISIBLE_DEVICES set to nothing?",
        )
    return count


def checked_number(number: int, count: int) -> int:
    if not 0 <= number < count:
        found = "1 GPU" if count == 1 else f"{count} GPUs"
        raise CaffeliteError(f"no GPU {number}", expected="0" if count == 1 else f"0 to {count - 1}", found=found)
    return number


def _runtime(cupy) -> str:
    """The CUDA that CuPy was built for, as 12.9."""
    version = cupy.cuda.runtime.runtimeGetVersion()
    return f"{version // 1000}.{version % 1000 // 10}"


def _first_line(mistake: Exception) -> str:
    return (str(mistake).strip() or type(mistake).__name__).splitlines()[0]


def _bring_libraries(cupy) -> str:
    extra = f"cuda{cupy.cuda.runtime.runtimeGetVersion() // 1000}"
    return (
        f'install CUDA\'s headers and libraries: pip install "caffelite[{extra}]", or set CUDA_PATH to a CUDA toolkit'
    )


@contextlib.contextmanager
def set_up(cupy, number: int) -> Iterator[None]:
    """Turns what CuPy raises while GPU ``number`` is set up, a kernel compiled and loaded included, into one line with
    the remedy."""
    try:
        yield
    except CaffeliteError:
        raise
    except MemoryError as mistake:
        remedy = "end what holds it (nvidia-smi tells), or use another GPU"
        raise CaffeliteError(f"GPU {number} has no memory left", found=_first_line(mistake), remedy=remedy) from mistake
    except OSError as mistake:
        remedy = "set CUPY_CACHE_DIR to a folder that can be written"
        raise CaffeliteError(
            "compiled CUDA kernels cannot be kept", found=_first_line(mistake), remedy=remedy
        ) from mistake
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as mistake:
        remedy = "see by nvidia-smi whether it is free and healthy, and whether its driver fits CUDA " + _runtime(cupy)
        raise CaffeliteError(f"GPU {number} cannot be set up", found=_first_line(mistake), remedy=remedy) from mistake
    except (
        Exception
    ) as mistake:  # which class CuPy raises for a library or header that is missing differs from version to version
        raise CaffeliteError(
            "CUDA kernels cannot be compiled", found=_first_line(mistake), remedy=_bring_libraries(cupy)
        ) from mistake


def check_capability(cupy, number: int, capability: tuple[int, int]) -> None:
    """Refuses a GPU that the CUDA of this CuPy no longer compiles for."""
    if cupy.cuda.runtime.runtimeGetVersion() >= 13000 and capability < (7, 5):
        found, remedy = (
            ".".join(map(str, capability)),
            'use CUDA 12: pip install "caffelite[cuda12]" in an environment without cupy-cuda13x',
        )
        raise CaffeliteError(
            f"GPU {number} is too old for CUDA 13",
            expected="compute capability 7.5 or more",
            found=found,
            remedy=remedy,
        )


PROBE = HEAD.format(real="float", idx="int", blob="float") + 'extern "C" __global__ void probe(real* at) { at[0] = 1; }'
SPIN = """extern "C" __global__ void spin(long long cycles) {
  for (long long start = clock64(); clock64() - start < cycles;);
}"""


class CuPyBackend:
    """One GPU by way of CuPy; everything runs on one stream, but for what forks from it, so that an iteration can be
    captured.

    number: which GPU. strict: matrix products in full float32. Errors: no CuPy, no driver, no such GPU, a CUDA library
    that cannot be loaded.
    """

    name = "gpu"
    LAUNCH = 200_000  # cycles of a GPU, some 0.1 ms, in which Python queues a plan

    def __init__(self, number: int, strict: bool = False):
        self._cupy = cupy = cupy_module()
        number = checked_number(number, device_count(cupy))
        self._device, self._modules = cupy.cuda.Device(number), {}
        self._products: dict[int, Blas] = {}
        with set_up(cupy, number):
            self._device.use()
            self.stream = cupy.cuda.Stream(non_blocking=True)
            properties = cupy.cuda.runtime.getDeviceProperties(number)
            self.capability: tuple[int, int] = properties["major"], properties["minor"]
            check_capability(cupy, number, self.capability)
            attribute = cupy.cuda.runtime.cudaDevAttrPageableMemoryAccess
            # Then CUDA need not stage what is not pinned, and may read it after the call.
            self._reads_any_memory = bool(cupy.cuda.runtime.deviceGetAttribute(attribute, number))
            self._strict = strict or self.capability < (8, 0)  # no TF32
            self.use(self.stream)
            self.kernel(PROBE, "probe")

    def here(self) -> None:
        """Makes the GPU and the stream in use the calling thread's, whoever used CuPy in that thread last."""
        if self._cupy.cuda.get_current_stream() is not self.stream:
            self._device.use()
            self.stream.use()

    def empty(self, shape, dtype):
        self.here()
        return self._cupy.empty(shape, dtype)

    def view(self, raw, offset: int, shape, dtype):
        return self._cupy.ndarray(shape, dtype, memptr=raw.data + offset)

    def upload(self, array, host: np.ndarray, stream=None) -> None:
        """Pinned memory must stay as it is until the stream has passed; other memory is free at once."""
        self.here()
        stream, pinned = stream or self.stream, self._cupy.cuda.pinned_memory.is_memory_pinned
        self._cupy.cuda.runtime.memcpyAsync(array.data.ptr, host.ctypes.data, host.nbytes, 1, stream.ptr)
        if self._reads_any_memory and not pinned(host.ctypes.data):
            stream.synchronize()

    def pinned(self, shape, dtype) -> np.ndarray:
        """Memory of the host that a GPU reads by itself."""
        self.here()
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self._cupy.cuda.alloc_pinned_memory(max(1, count * dtype.itemsize)), dtype, count).reshape(
            shape
        )

    def use(self, stream) -> None:
        """What follows is queued on that stream."""
        self.stream = stream
        self.here()
        if stream.ptr not in self._products:
            self._products[stream.ptr] = Blas(self._cupy, stream, self._strict)
        self._blas = self._products[stream.ptr]

    def new_stream(self):
        """A stream beside ``stream``."""
        self.here()
        return self._cupy.cuda.Stream(non_blocking=True)

    def new_event(self):
        self.here()
        return self._cupy.cuda.Event(disable_timing=True)

    def free_bytes(self) -> int:
        self.here()
        return self._cupy.cuda.runtime.memGetInfo()[0]

    def download(self, array) -> np.ndarray:
        self.here()
        return array.get(stream=self.stream)

    def copy(self, source, target) -> None:
        self.here()
        self._cupy.cuda.runtime.memcpyAsync(target.data.ptr, source.data.ptr, source.nbytes, 3, self.stream.ptr)

    def assign(self, source, target) -> None:
        """target = source, broadcast; views of any strides."""
        self.here()
        self._cupy.copyto(target, source)

    def add(self, source, target) -> None:
        """target += source, broadcast; views of any strides."""
        self.here()
        self._cupy.add(target, source, out=target)

    def fill(self, array, value: float) -> None:
        self.here()
        array.fill(value)

    def record_event(self):
        self.here()
        event = self._cupy.cuda.Event()
        event.record(self.stream)
        return event

    def elapsed_ms(self, begin, end) -> float:
        end.synchronize()
        return self._cupy.cuda.get_elapsed_time(begin, end)

    def synchronize(self) -> None:
        self.stream.synchronize()

    def model(self) -> str:
        """The GPU's name, as NVIDIA H100 80GB HBM3."""
        return self._cupy.cuda.runtime.getDeviceProperties(self._device.id)["name"].decode()

    def lap(self, run: Callable[[], None], times: int = 1) -> float:
        """The milliseconds that the GPU takes for one of so many runs in a row. It is kept waiting while they are
        queued, so that short runs are not timed by how fast they are launched."""
        spin, (begin, end) = self.kernel(SPIN, "spin"), (self._cupy.cuda.Event() for _ in range(2))
        spin((1, 1, 1), (1, 1, 1), (np.int64(times * self.LAUNCH),))
        begin.record(self.stream)
        for _ in range(times):
            run()
        end.record(self.stream)
        end.synchronize()
        return self._cupy.cuda.get_elapsed_time(begin, end) / times

    def kernel(self, source: str, name: str):
        """``launch(grid, block, args)``: args are arrays and NumPy scalars of the parameters' very types."""
        if source not in self._modules:
            self.here()
            self._modules[source] = self._cupy.RawModule(code=source, options=("-std=c++17",))
        function = self._modules[source].get_function(name)

        def launch(grid, block, args):
            self.here()
            function(grid, block, args)

        return launch

    def capture(self, body):
        """What body queues, as a graph whose ``launch()`` queues it all again; nothing runs yet. It may not allocate,
        copy to or from memory of the host that is not pinned, or wait."""
        self.here()
        main = self.stream
        main.begin_capture()
        try:
            body()
        except BaseException:
            with contextlib.suppress(Exception):  # CUDA's own, of a capture that it has given up
                main.end_capture()
            self.use(main)
            raise
        return Graph(main.end_capture(), main)

    def matmul(self, a, b, c, m: int, n: int, k: int, trans_a=False, trans_b=False, add=False, batch: int = 1) -> None:
        """c (batch, m, n) = op(a) op(b) [+ c], row by row, no gaps; a (batch, m, k) or, transposed, (batch, k, m), b
        likewise.

        a and b are of one type, perhaps of 16 bits; c is of theirs, or float32.
        """
        self.here()
        self._blas(a, b, c, m, n, k, trans_a, trans_b, add, batch)


class Blas:
    """cuBLAS on a handle of our own: CuPy's refuses to be captured.

    Numbers of 16 bits are multiplied exactly and added up in float32; float32 ones as TF32, or in full where strict.
    """

    WORKSPACE = 32 << 20  # bytes; one that is ours keeps results the same from run to run, in a graph too
    TYPES = {"float32": 0, "float64": 1, "float16": 2, "uint16": 14}  # cudaDataType_t; bfloat16 lies in uint16
    FLOAT, TF32, DOUBLE = 68, 77, 70  # cublasComputeType_t
    DEFAULT = -1  # cublasGemmAlgo_t

    def __init__(self, cupy, stream, strict: bool = False):
        name = f"libcublas.so.{cupy.cuda.runtime.runtimeGetVersion() // 1000}"
        try:
            from cupy_backends.cuda.libs import cublas  # noqa: F401  finds and loads the library, wherever it was installed

            self._library = ctypes.CDLL(name)
        except (ImportError, OSError) as mistake:
            raise CaffeliteError(
                f"{name} cannot be loaded", found=_first_line(mistake), remedy=_bring_libraries(cupy)
            ) from mistake
        self._handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream.ptr))
        self._space = cupy.empty(self.WORKSPACE, np.uint8)
        self._call(
            "cublasSetWorkspace_v2",
            self._handle,
            ctypes.c_void_p(self._space.data.ptr),
            ctypes.c_size_t(self.WORKSPACE),
        )
        self._bind(self._library["cublasGemmEx"], self._library["cublasGemmStridedBatchedEx"], strict)

    def _bind(self, one, many, strict: bool) -> None:
        """one, many: cuBLAS's functions for a product and for a batch of them."""
        i, long, pointer = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
        sizes = [pointer, i, i, i, i, i, pointer]
        one.argtypes = [*sizes, *[pointer, i, i] * 2, pointer, pointer, i, i, i, i]
        many.argtypes = [*sizes, *[pointer, i, i, long] * 2, pointer, pointer, i, i, long, i, i, i]
        self._one, self._many, self._float = one, many, self.FLOAT if strict else self.TF32
        self._scalars = {real: [ctypes.byref(real(v)) for v in (0, 1)] for real in (ctypes.c_float, ctypes.c_double)}

    def _call(self, function: str, *arguments) -> None:
        self._check(function, self._library[function](*arguments))

    @staticmethod
    def _check(function: str, status: int) -> None:
        if status:
            raise CaffeliteError(f"{function} failed", found=f"cuBLAS status {status}")

    def __call__(self, a, b, c, m, n, k, trans_a, trans_b, add, batch) -> None:
        types = [self.TYPES[v.dtype.name] for v in (b, a, c)]
        double = c.dtype == np.float64
        compute = self.DOUBLE if double else self._float if types[0] == 0 else self.FLOAT
        zero, one = self._scalars[ctypes.c_double if double else ctypes.c_float]
        beta = one if add else zero
        # cuBLAS counts by columns: the transposed product of the operands in the other order.
        head = self._handle, int(trans_b), int(trans_a), n, m, k, one
        left, right = (b.data.ptr, types[0], k if trans_b else n), (a.data.ptr, types[1], m if trans_a else k)
        out, tail = (c.data.ptr, types[2], n), (compute, self.DEFAULT)
        if batch == 1:
            self._check("cublasGemmEx", self._one(*head, *left, *right, beta, *out, *tail))
        else:
            strided = *head, *left, k * n, *right, m * k, beta, *out, m * n, batch, *tail
            self._check("cublasGemmStridedBatchedEx", self._many(*strided))


_PROPERTIES = {
    "Name": "name",
    "Major revision number": "major",
    "Minor revision number": "minor",
    "Total global memory (bytes)": "totalGlobalMem",
    "Total shared memory per block (bytes)": "sharedMemPerBlock",
    "Total registers per block": "regsPerBlock",
    "Warp size": "warpSize",
    "Maximum threads per block": "maxThreadsPerBlock",
    "Maximum dimension of block": "maxThreadsDim",
    "Maximum dimension of grid": "maxGridSize",
    "Clock rate (kHz)": "clockRate",
    "Number of multiprocessors": "multiProcessorCount",
    "Memory bus width (bits)": "memoryBusWidth",
    "Second-level cache (bytes)": "l2CacheSize",
}


def describe(number: int, cupy=None) -> dict[str, str | int]:
    """What GPU ``number`` is; properties that its CUDA does not tell are left out."""
    from .cudnn import version

    cupy = cupy or cupy_module("device_query")
    number = checked_number(number, device_count(cupy))
    told = cupy.cuda.runtime.getDeviceProperties(number)
    found: dict[str, str | int] = {"Device id": number}
    for words, key in _PROPERTIES.items():
        if key in told:
            value = told[key]
            found[words] = (
                value.decode()
                if isinstance(value, bytes)
                else value
                if isinstance(value, int)
                else " x ".join(map(str, value))
            )
    with set_up(cupy, number), cupy.cuda.Device(number):
        found["Free global memory (bytes)"] = int(cupy.cuda.runtime.memGetInfo()[0])
    for words, number in (("CUDA driver", driver_version()), ("CUDA runtime", cupy.cuda.runtime.runtimeGetVersion())):
        if number:
            found[words] = f"{number // 1000}.{number % 1000 // 10}"
    found["CuPy"] = cupy.__version__
    found["cuDNN"] = version() or "not installed: convolutions run by cuBLAS"
    return found
