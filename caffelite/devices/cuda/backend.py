"""CUDA by CuPy: memory, kernels, streams, matrix products."""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import CaffeliteError
from ...system import private_folder
from ..dtypes import BFLOAT16
from . import cudnn, installation, prepared
from .blas import Blas
from .installation import check_capability, checked_number, first_line, set_up
from .streams import Graph

HEAD = "typedef {real} real;\ntypedef {idx} idx;\ntypedef {blob} blob;\n"  # precedes each kernel's text


PROBE = HEAD.format(real="float", idx="int", blob="float") + 'extern "C" __global__ void probe(real* at) { at[0] = 1; }'
SPIN = """extern "C" __global__ void spin(long long cycles) {
  for (long long start = clock64(); clock64() - start < cycles;);
}"""


class CuPyBackend:
    """See interface.Backend.

    number: the GPU's index. strict: matrix products in full float32. Errors: no CuPy, no driver, no such GPU, a CUDA
    library that cannot be loaded.
    """

    name = "gpu"
    LAUNCH = 200_000  # cycles of a GPU, some 0.1 ms, in which Python queues a plan

    def __init__(self, number: int, strict: bool = False):
        self._cupy = cupy = installation.cupy_module()
        number = checked_number(number, installation.device_count(cupy))
        self._device = cupy.cuda.Device(number)
        self._modules: dict[str, Any] = {}
        self._products: dict[int, Blas] = {}
        with set_up(cupy, number):
            if kernels := installation.kernel_cache():
                private_folder(kernels, "CUPY_CACHE_DIR")
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
        cudnn.require(cupy)

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
        self.here()
        stream, pinned = stream or self.stream, self._cupy.cuda.pinned_memory.is_memory_pinned
        self._cupy.cuda.runtime.memcpyAsync(array.data.ptr, host.ctypes.data, host.nbytes, 1, stream.ptr)
        if self._reads_any_memory and not pinned(host.ctypes.data):
            stream.synchronize()

    def pinned(self, shape, dtype) -> np.ndarray:
        self.here()
        count = math.prod(shape)
        memory = self._cupy.cuda.alloc_pinned_memory(max(1, count * dtype.itemsize))
        return np.frombuffer(memory, dtype, count).reshape(shape)

    def use(self, stream) -> None:
        self.stream = stream
        self.here()
        if stream.ptr not in self._products:
            self._products[stream.ptr] = Blas(self._cupy, stream, self._strict)
        self._blas = self._products[stream.ptr]

    def new_stream(self):
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
        self.here()
        self._cupy.copyto(target, source)

    def add(self, source, target) -> None:
        assert BFLOAT16 not in (source.dtype, target.dtype)
        self.here()
        self._cupy.add(target, source, out=target)

    def address(self, array) -> int:
        return array.data.ptr

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

    def driver(self) -> str:
        """The version of CUDA that the driver has, as 13000."""
        return str(self._cupy.cuda.runtime.driverGetVersion())

    def lap(self, run: Callable[[], None], times: int = 1) -> float:
        """The mean GPU time of consecutive runs, in milliseconds. The GPU waits until all are queued, so that the
        launch rate does not limit short runs."""
        self.kernel(SPIN, "spin")((1, 1, 1), (1, 1, 1), (np.int64(times * self.LAUNCH),))
        begin = self.record_event()
        for _ in range(times):
            run()
        return self.elapsed_ms(begin, self.record_event()) / times

    def kernel(self, source: str, name: str):
        if source not in self._modules:
            self.here()
            module = prepared.module(self._cupy, source, name, self.capability)
            self._modules[source] = module or self._cupy.RawModule(code=source, options=("-std=c++17",))
        function = self._modules[source].get_function(name)

        def launch(grid, block, args):
            self.here()
            function(grid, block, args)

        return launch

    def capture(self, body):
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

    def convolutions(self, strict: bool, deterministic: bool) -> cudnn.Engine:
        engine = cudnn.Engine(self, strict, deterministic)
        try:
            engine.handle()
        except RuntimeError as mistake:
            remedy = "see by nvidia-smi whether the driver fits, and whether memory is free"
            raise CaffeliteError("cuDNN cannot be used", found=first_line(mistake), remedy=remedy) from mistake
        return engine

    def matmul(self, a, b, c, m: int, n: int, k: int, trans_a=False, trans_b=False, add=False) -> None:
        self.here()
        self._blas(a, b, c, m, n, k, trans_a, trans_b, add)
