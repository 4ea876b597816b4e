"""The stand-in as installed packages: whole commands, and the ranks that they start, run on GPUs without a GPU.

`environment()` has the variables of such a process. STAND_IN_GPUS: how many GPUs it has; STAND_IN_NCCL: its version of
NCCL, as 22803; STAND_IN_FAULT: see communicator.py; STAND_IN_SMALL=1: self-tests and reports have few iterations.
STAND_IN_PREFERS: by GPU, joined by commas, what its clock finds the fastest for convolutions, see plans.Engine.
"""

import os
import sys
import time
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

from . import plans, streams
from .communicator import Communicator, unique_id
from .cupy import Array, CUDAError, fake_cudnn, fake_cupy, fake_nccl, host_product

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PATH = os.pathsep.join(map(str, (HERE / "packages", ROOT / "tests", ROOT)))


def environment(gpus: int = 1, nccl: int = 23203, shared: bool = True, **more: str) -> dict[str, str]:
    """Variables of a process whose GPUs the host stands in for. shared: several ranks may use one."""
    chosen = {"PYTHONPATH": PATH, "STAND_IN_GPUS": str(gpus), "STAND_IN_NCCL": str(nccl)}
    threads = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    permission = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"} if shared else {}
    return {**os.environ, **threads, **chosen, **permission, **more}


class Event(streams.Event):
    """An event that knows when it was recorded; the host's streams do their work at once."""

    def record(self, stream) -> None:
        super().record(stream)
        self.time = time.perf_counter()


def install(name: str) -> None:
    """Makes the module of this name, and those below it, CuPy with NCCL; cuBLAS and cuDNN become the host's."""
    from caffelite.devices.cuda import backend, cudnn

    stand_in = fake_cupy(int(os.environ.get("STAND_IN_GPUS", "1")), event=Event)
    stand_in.cuda.get_elapsed_time = lambda begin, end: 1e3 * (end.time - begin.time)
    runtime = stand_in.cuda.runtime
    runtime.deviceGetPCIBusId = lambda number: f"0000:0{number}:00.0"
    properties = runtime.getDeviceProperties
    runtime.getDeviceProperties = lambda number: {**properties(number), "name": b"Stand-in"}
    runtime.memGetInfo = lambda: (1 << 33, 1 << 33)
    nccl = fake_nccl(None)
    nccl.get_version = lambda: int(os.environ.get("STAND_IN_NCCL", "23203"))
    nccl.get_unique_id, nccl.NcclCommunicator = unique_id, Communicator
    stand_in.cuda.nccl = nccl
    raw = stand_in.RawModule
    stand_in.RawModule = lambda code, options=(): _faulty() if "illegal_access" in code else raw(code, options)
    _publish(name, stand_in)
    Array.queue = staticmethod(lambda work: stand_in.cuda.get_current_stream().add(work))
    backend.Blas = lambda cupy, stream, strict: lambda *operands: stream.add(partial(host_product, *operands))
    backend.CuPyBackend.queue = lambda self, work: self.stream.add(work)
    preferred = os.environ.get("STAND_IN_PREFERS", "").split(",")
    backend.CuPyBackend.convolutions = lambda self, strict, deterministic: plans.Engine(
        self, prefers=preferred[self._device.id] if preferred != [""] else None
    )
    cudnn.frontend = fake_cudnn
    if os.environ.get("STAND_IN_SMALL"):
        _shrink()


def _shrink() -> None:
    """Makes self-tests short: what the host computes takes a thousand times as long as on a GPU."""
    from caffelite.inspection import timing
    from caffelite.selftest import kernels, layers, several, speed, training
    from caffelite.selftest.report import exchange

    for name, shape in SMALL_CONVOLUTIONS.items():
        layers.CONVOLUTIONS[name] = layers.CONVOLUTIONS[name]._replace(inputs={"x": shape})
    copied = {"cpu": 1 << 16, "gpu": 1 << 16}
    sizes = {kernels: {"SIDE": 16}, speed: {"SIDE": SMALL, "COPIED": copied, "TRIES": 2}}
    sizes |= {timing: {"SIDE": SMALL, "COPIED": copied, "TRIES": 2}}
    sizes |= {training: {"ITERATIONS": 6, "BATCH": 8, "TIMED": 4, "FALLS": 1.1}}
    sizes |= {several: {"BATCH": 8, "ITERATIONS": 4, "TIMED": 6}, exchange: {"SIZES": {"one number": 1, "a few": 1000}}}
    for module, values in sizes.items():
        for name, value in values.items():
            setattr(module, name, value)


SMALL = {"cpu": 64, "gpu": 64}
SMALL_CONVOLUTIONS = {"alexnet_conv2": (1, 96, 9, 9), "resnet_conv1": (1, 3, 32, 32), "resnet_3x3": (1, 64, 7, 7)}


def _faulty() -> SimpleNamespace:
    """A module whose kernel fails as one that writes outside all memory."""

    def launch(grid, block, args):
        raise CUDAError("cudaErrorIllegalAddress: an illegal memory access was encountered")

    return SimpleNamespace(get_function=lambda name: launch)


def _publish(path: str, namespace: SimpleNamespace) -> None:
    module = sys.modules.setdefault(path, ModuleType(path))
    module.__path__ = []
    for name, value in vars(namespace).items():
        if isinstance(value, SimpleNamespace):
            _publish(f"{path}.{name}", value)
            value = sys.modules[f"{path}.{name}"]
        setattr(module, name, value)
