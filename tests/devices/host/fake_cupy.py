"""As much of CuPy as the backend uses, on the host."""

import ctypes
import itertools
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
from devices.host.backend import HostBackend


class Pointer:
    """A place in memory, as CuPy's arrays have one in ``data``."""

    def __init__(self, array, offset=0):
        self.array, self.offset, self.ptr = array, offset, array.ctypes.data + offset

    def __add__(self, offset):
        return Pointer(self.array, self.offset + offset)


class Array(np.ndarray):
    """An array with an address, as CuPy's have."""

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
    return SimpleNamespace(
        CUDARuntimeError=CUDAError,
        getDeviceCount=device_count,
        memcpyAsync=copy,
        memGetInfo=lambda: (3, 5),
        getDeviceProperties=lambda number: properties,
        runtimeGetVersion=lambda: runtime_version,
        cudaDevAttrPageableMemoryAccess=88,
        deviceGetAttribute=lambda attribute, number: int(reads_any_memory and attribute == 88),
    )


def fake_cupy(count=1, capability=(9, 0), runtime_version=13020, reads_any_memory=False):
    """As much of CuPy as the backend uses, on the host. ``__launches__``: (device, stream) of each kernel;
    ``__here__``: see Here."""
    here, pointers, launches = Here(), itertools.count(7), []
    null = FakeStream(here, 0)
    runtime = _runtime(count, capability, runtime_version, reads_any_memory)

    class Device(nullcontext):
        def __init__(self, number):
            super().__init__()
            self.id = number

        def use(self):
            here.device = self.id

    host, pinned = HostBackend(), PinnedMemory()

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
        alloc_pinned_memory=pinned.allocate,
        pinned_memory=SimpleNamespace(is_memory_pinned=lambda address: address in pinned.addresses),
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


def fake_cudnn():
    """As much of cuDNN's frontend as opening a device uses."""
    return SimpleNamespace(
        backend_version=lambda: 91900, create_handle=lambda: 1, set_stream=lambda handle, stream: None
    )


def host_product(a, b, c, m, n, k, *flags):
    HostBackend().matmul(*(v.view(np.ndarray) for v in (a, b, c)), m, n, k, *flags)
