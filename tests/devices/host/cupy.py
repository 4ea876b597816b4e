"""As much of CuPy as sums by NCCL take, on streams of the host."""

from __future__ import annotations

import ctypes
import functools
from types import SimpleNamespace

import numpy as np

from .backend import Event


class Array(np.ndarray):
    """A NumPy array with a pointer where CuPy's has it; ``data`` of NumPy's own is not asked for here."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


def numbers(address: int, count: int, dtype) -> np.ndarray:
    """The numbers at an address."""
    raw = np.ctypeslib.as_array(
        ctypes.cast(address, ctypes.POINTER(ctypes.c_char)), (count * np.dtype(dtype).itemsize,)
    )
    return raw.view(dtype)


def stand_in(communicator, new_stream, event=Event) -> dict[str, SimpleNamespace]:
    """``cupy``, and its module ``nccl``. communicator: what stands for NCCL's; new_stream: makes the stream beside the
    main one."""

    def stream(non_blocking):
        found = new_stream()
        found.ptr = found
        return found

    def copy(target, source, count, kind, stream):
        stream.add(functools.partial(ctypes.memmove, target, source, count))

    def zeros(shape, dtype):
        return np.zeros(shape, dtype).view(Array)

    nccl = SimpleNamespace(
        available=True,
        NCCL_FLOAT32=7,
        NCCL_SUM=0,
        get_unique_id=lambda: b"id",
        NcclCommunicator=lambda size, uid, rank: communicator,
    )
    cuda = SimpleNamespace(
        Stream=stream,
        Event=lambda disable_timing: event(),
        alloc_pinned_memory=bytearray,
        runtime=SimpleNamespace(memcpyAsync=copy),
    )
    names = ("amin", "amax", "negative", "maximum", "divide", "multiply")
    return {
        "cupy": SimpleNamespace(cuda=cuda, zeros=zeros, empty=zeros, **{name: getattr(np, name) for name in names}),
        "nccl": nccl,
    }
