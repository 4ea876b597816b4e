"""As much of CuPy, its NCCL and cuDNN's frontend as the GPU's code asks for, on the streams, graphs and kernels of the
host backend."""

import ctypes
import functools
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np

from . import streams
from .backend import HostBackend


class Pointer:
    """A place in memory, as CuPy's arrays have one in ``data``."""

    def __init__(self, array, offset=0):
        self.array, self.offset, self.ptr = array, offset, array.ctypes.data + offset

    def __add__(self, offset):
        return Pointer(self.array, self.offset + offset)


class Array(np.ndarray):
    """A NumPy array with a pointer where CuPy's has it; ``data`` of NumPy's own is not asked for here."""

    @property
    def data(self):
        return Pointer(self)

    queue = staticmethod(lambda work: work())  # on the stream in use, where there is one

    def get(self, stream):
        stream.synchronize()
        return np.array(self)

    def fill(self, value):
        self.queue(functools.partial(self.view(np.ndarray).fill, value))


def array(values, dtype="float32"):
    return np.ascontiguousarray(values, dtype).view(Array)


def numbers(address: int, count: int, dtype) -> np.ndarray:
    """The numbers at an address."""
    raw = np.ctypeslib.as_array(
        ctypes.cast(address, ctypes.POINTER(ctypes.c_char)), (count * np.dtype(dtype).itemsize,)
    )
    return raw.view(dtype)


class CUDAError(RuntimeError):
    pass


class Here(threading.local):
    """A thread's device, and the stream in use on each; CuPy's streams are current by device and by thread."""

    def __init__(self):
        self.device, self.streams = 0, {}


class Stream(streams.Stream):
    """CuPy's, which does its work at once. waits: how often the host waited; graphs: what was captured here."""

    def __init__(self, here: Here):
        super().__init__("early")
        self.here, self.ptr, self.device_id, self.waits, self.graphs = here, self, here.device, 0, []

    def use(self):
        if self.device_id != self.here.device:
            actual = f"({self.device_id}) does not match with the current device ({self.here.device})"
            raise RuntimeError(f"The device that the stream is created on {actual}")
        self.here.streams[self.device_id] = self

    def __enter__(self):
        self.use()

    def __exit__(self, *_):
        """As CuPy's: what ``use`` chose before is forgotten, and the null stream is current."""
        del self.here.streams[self.device_id]

    def synchronize(self):
        self.waits += 1
        super().synchronize()

    def begin_capture(self):
        streams.Capture(self)

    def end_capture(self):
        capture = self.capture
        capture.end()
        self.graphs.append(graph := streams.Graph(capture.calls))
        return SimpleNamespace(upload=lambda stream: None, launch=lambda stream: graph.launch())


class PinnedMemory:
    def __init__(self):
        self.addresses = set()

    def allocate(self, count):
        memory = bytearray(count)
        self.addresses.add(np.frombuffer(memory, np.uint8).ctypes.data)
        return memory


def _runtime(count, capability, runtime_version, reads_any_memory):
    """CUDA's runtime. count: of GPUs, or the error of asking for it."""

    def copy(target, source, size, kind, stream):
        assert kind in (1, 2, 3)
        stream.add(functools.partial(ctypes.memmove, target, source, size))

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
    return SimpleNamespace(
        CUDARuntimeError=CUDAError,
        getDeviceCount=device_count,
        memcpyAsync=copy,
        memGetInfo=lambda: (3, 5),
        getDeviceProperties=lambda number: properties,
        runtimeGetVersion=lambda: runtime_version,
        driverGetVersion=lambda: 13000,
        cudaDevAttrPageableMemoryAccess=88,
        deviceGetAttribute=lambda attribute, number: int(reads_any_memory and attribute == 88),
    )


def _zeros(shape, dtype):
    return np.zeros(shape, dtype).view(Array)


def _ndarray(shape, dtype, memptr):
    return np.ndarray(shape, dtype, memptr.array.view(np.ndarray), memptr.offset).view(Array)


def fake_cupy(
    count=1, capability=(9, 0), runtime_version=13020, reads_any_memory=False, new_stream=None, event=streams.Event
):
    """CuPy with so many GPUs. new_stream: makes streams other than ``Stream``. ``__launches__``: (device, stream) of
    each kernel; ``__here__``: see Here."""
    here, launches, host, pinned = Here(), [], HostBackend(), PinnedMemory()
    null = Stream(here)
    null.ptr = 0

    class Device(nullcontext):
        def __init__(self, number):
            super().__init__()
            self.id = number

        def use(self):
            here.device = self.id

    def current():
        return here.streams.get(here.device, null)

    def module(code, options):
        def function(name):
            run = host.kernel(code, name) if name not in ("probe", "spin") else None

            def launch(grid, block, args):
                launches.append((here.device, current()))
                if run:
                    current().add(functools.partial(run, grid, block, args))

            return launch

        return SimpleNamespace(get_function=function)

    def stream(non_blocking):
        made = new_stream() if new_stream else Stream(here)
        made.ptr = made
        return made

    cuda = SimpleNamespace(
        get_elapsed_time=lambda begin, end: 1.0,
        runtime=_runtime(count, capability, runtime_version, reads_any_memory),
        Device=Device,
        Stream=stream,
        get_current_stream=current,
        Event=lambda disable_timing=False: event(),
        driver=SimpleNamespace(CUDADriverError=CUDAError),
        alloc_pinned_memory=pinned.allocate,
        pinned_memory=SimpleNamespace(is_memory_pinned=lambda address: address in pinned.addresses),
    )
    return SimpleNamespace(
        __version__="14.0",
        empty=_zeros,
        zeros=_zeros,
        RawModule=module,
        copyto=lambda target, source: current().add(functools.partial(np.copyto, target, source)),
        add=lambda a, b, out: current().add(functools.partial(np.add, a, b, out=out)),
        ndarray=_ndarray,
        cuda=cuda,
        __launches__=launches,
        __here__=here,
    )


def fake_nccl(communicator):
    """communicator: what stands for NCCL's."""
    return SimpleNamespace(
        available=True,
        get_version=lambda: 23203,
        NCCL_FLOAT32=7,
        NCCL_SUM=0,
        get_unique_id=lambda: b"id",
        NcclCommunicator=lambda size, uid, rank: communicator,
    )


def stand_in(communicator, new_stream, event=streams.Event) -> dict[str, SimpleNamespace]:
    """``cupy``, and its module ``nccl``. new_stream: makes the stream beside the main one."""
    return {"cupy": fake_cupy(new_stream=new_stream, event=event), "nccl": fake_nccl(communicator)}


def fake_cudnn():
    """As much of cuDNN's frontend as opening a device uses."""
    return SimpleNamespace(
        backend_version=lambda: 91900, create_handle=lambda: 1, set_stream=lambda handle, stream: None
    )


def host_product(a, b, c, m, n, k, *flags):
    HostBackend().matmul(*(v.view(np.ndarray) for v in (a, b, c)), m, n, k, *flags)
