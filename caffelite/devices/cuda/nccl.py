"""All-reduce by NCCL over processes with one GPU each, on a stream that runs concurrently with the main stream."""

import ctypes
import functools
import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import CaffeliteError
from .installation import cupy_module, first_line

log = logging.getLogger("caffelite")
LIBRARY = "CAFFELITE_NCCL"  # the variable that names a libnccl.so.2 to load instead of the installed one
SHARED = "NCCL_MULTI_RANK_GPU_ENABLE"  # NCCL's variable: 1 permits several ranks on one GPU
SHARED_SINCE = 23000


def nccl_module():
    """CuPy's NCCL, which is no attribute of cupy.cuda until it is imported, on the library that $CAFFELITE_NCCL names.
    Errors: that one cannot be loaded, or another one was loaded before."""
    path = os.environ.get(LIBRARY)
    library = _load(path) if path else None
    cupy_module()
    from cupy.cuda import nccl

    if library and (loaded := nccl.get_version()) != (named := _version_of(library)):
        what, remedy = f"{LIBRARY}={path} is not the NCCL of this process", "import caffelite before other packages"
        raise CaffeliteError(what, expected=f"NCCL {spelled(named)}", found=spelled(loaded), remedy=remedy)
    return nccl


def _load(path: str) -> ctypes.CDLL:
    """Loads a library before CuPy looks for libnccl.so.2: the linker then takes it for every request of that name."""
    remedy = f"name a libnccl.so.2, as {LIBRARY}=/opt/nccl/libnccl.so.2"
    try:
        library = ctypes.CDLL(os.path.abspath(path))
        _version_of(library)
    except OSError as mistake:
        what, found = f"{LIBRARY}: no library can be loaded from {path}", first_line(mistake)
        raise CaffeliteError(what, found=found, remedy=remedy) from mistake
    except AttributeError:
        raise CaffeliteError(f"{LIBRARY}: {path} is another library than NCCL", remedy=remedy) from None
    return library


def _version_of(library: ctypes.CDLL) -> int:
    version = ctypes.c_int(0)
    library.ncclGetVersion(ctypes.byref(version))
    return version.value


def spelled(version: int) -> str:
    """A version of NCCL, as 2.30.3 for 23003."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def described() -> str:
    """The version of NCCL that this process uses, and its file where $CAFFELITE_NCCL names it; "" without NCCL."""
    nccl = nccl_module()
    if not nccl.available:
        return ""
    path = os.environ.get(LIBRARY)
    return spelled(nccl.get_version()) + (f" ({path})" if path else "")


@functools.cache
def log_version() -> None:
    """Logs once which NCCL sums and moves arrays."""
    log.info("NCCL %s", described())


def sharing_permitted() -> bool:
    """Whether NCCL accepts several ranks on one GPU."""
    if os.environ.get(SHARED) != "1":
        return False
    nccl = nccl_module()
    return nccl.available and nccl.get_version() >= SHARED_SINCE


def check_shared(gpu_ids: list[int]) -> None:
    """Errors: a GPU is named more than once, and NCCL does not accept several ranks on it."""
    twice = next((number for number in gpu_ids if gpu_ids.count(number) > 1), None)
    if twice is None or sharing_permitted():
        return
    remedy = f"name it once; for tests, NCCL from 2.30 on runs several ranks on one GPU where {SHARED}=1"
    found = ",".join(map(str, gpu_ids))
    if os.environ.get(SHARED) == "1":
        found += f", and NCCL {described() or 'is not installed'}"
        remedy = f"name it once, or let {LIBRARY} name the libnccl.so.2 of NCCL 2.30 or later"
    raise CaffeliteError(f"-gpu names GPU {twice} more than once", expected="each GPU once", found=found, remedy=remedy)


class NCCLAllReduce:
    """Sums CuPy arrays of float32 in place. ``begin``, ``post`` and ``finish`` only queue, so that a graph may capture
    them. The flags have two sets of memory, used in turn; ``slot`` is the one in use.

    compute: the stream that the arrays are computed on. stream: that sums run on; all sums of a device share one, since
    NCCL promises no progress for communicators whose calls run at the same time, in another order on another device
    (https://github.com/NVIDIA/nccl/issues/1766). gather: sends the communicator's id from rank 0 to all. ``read_loss``
    returns the flags of the iteration before, so that the host never waits for the one that was just queued.
    drop_graphs: destroys the graphs that may contain these sums. cupy, nccl: replacements for tests. Errors: no NCCL.
    """

    captures = True

    def __init__(
        self,
        compute,
        stream,
        rank: int,
        size: int,
        gather: Callable,
        drop_graphs: Callable[[], None] | None = None,
        cupy=None,
        nccl=None,
    ):
        self._cupy = cupy = cupy or cupy_module()
        nccl = nccl or nccl_module()
        if not nccl.available:  # CuPy warns why
            remedy = "install nvidia-nccl-cu12 or nvidia-nccl-cu13, whichever the driver supports"
            raise CaffeliteError("several GPUs need NCCL, which cannot be loaded", remedy=remedy)
        self._nccl = nccl
        try:
            self._comm = nccl.NcclCommunicator(size, gather(nccl.get_unique_id() if rank == 0 else None)[0], rank)
        except RuntimeError as mistake:
            remedy = "run it again with NCCL_DEBUG=WARN, so that NCCL prints the reason"
            raise CaffeliteError("NCCL cannot join the GPUs", found=first_line(mistake), remedy=remedy) from mistake
        self._drop_graphs = drop_graphs
        self._compute, self._stream = compute, stream
        self._ready, self._done = (cupy.cuda.Event(disable_timing=True) for _ in range(2))
        self._iterations = 0
        self._pending = False  # whether sums are queued that ``finish`` has to wait for
        self._flags = [_Flags(cupy) for _ in range(2)]

    @property
    def slot(self) -> int:
        return self._iterations % 2

    def set_flags(self, flags: np.ndarray) -> None:
        """Starts an iteration. The one before the last has ended by now, so that its memory is free."""
        self._iterations += 1
        self._flags[self.slot].host[...] = flags

    def begin(self, loss) -> None:
        held = self._flags[self.slot]
        self._follow()
        self._sum(loss)
        copy = self._cupy.cuda.runtime.memcpyAsync
        copy(held.device.data.ptr, held.host.ctypes.data, held.host.nbytes, 1, self._stream.ptr)
        self._sum(held.device)
        copy(held.host.ctypes.data, held.device.data.ptr, held.host.nbytes, 2, self._stream.ptr)

    def read_loss(self, loss) -> np.ndarray:
        """The flags of the iteration before, which has ended when this returns."""
        self._comm.check_async_error()
        self._flags[self.slot].back.record(self._compute)
        held = self._flags[1 - self.slot]
        if self._iterations > 1:
            held.back.synchronize()
        return held.host

    def post(self, array) -> None:
        self._follow()
        self._sum(array)

    def progress(self) -> None: ...

    def finish(self) -> None:
        if self._pending:  # else the stream is not part of a graph that is being captured
            self._done.record(self._stream)
            self._compute.wait_event(self._done)
        self._pending = False

    def close(self, failed: bool = False) -> None:
        """Ends the communicator: see the function ``close``."""
        comm, self._comm = self._comm, None
        close([comm] if comm else [], [self._compute, self._stream], self._drop_graphs, failed)

    def _follow(self) -> None:
        """Sums from now on wait for the operations queued so far."""
        self._ready.record(self._compute)
        self._stream.wait_event(self._ready)
        self._pending = True

    def _sum(self, array) -> None:
        pointer = array.data.ptr
        self._comm.allReduce(
            pointer, pointer, array.size, self._nccl.NCCL_FLOAT32, self._nccl.NCCL_SUM, self._stream.ptr
        )


def close(
    communicators: list[Any], streams: list[Any], drop_graphs: Callable[[], None] | None, failed: bool = False
) -> None:
    """Ends communicators, after the pending operations of ``streams``. failed: other processes may never start their
    side of what is pending, so that it is aborted.

    Graphs are destroyed first: NCCL does not destroy a communicator before every graph that captured its calls. Errors:
    those that CUDA reports for pending operations.
    """
    if not communicators:
        return
    try:
        if not failed:
            for stream in streams:
                stream.synchronize()
    except Exception:
        failed = True
        raise
    finally:
        if drop_graphs:
            drop_graphs()
        for communicator in communicators:
            if failed:
                communicator.abort()
            else:
                communicator.destroy()


class _Flags:
    """The flags of one iteration, on the host and on the device."""

    def __init__(self, cupy):
        self.host = np.frombuffer(cupy.cuda.alloc_pinned_memory(8), np.float32, 2)
        self.host[...] = 0
        self.device, self.back = cupy.zeros(2, np.float32), cupy.cuda.Event(disable_timing=True)
