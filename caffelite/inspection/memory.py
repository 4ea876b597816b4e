"""Memory that is available and memory that a run needs, by use, and the batch size that fits."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from .. import caffelite_pb2 as pb
from ..devices.traits import DeviceTraits
from ..errors import CaffeliteError
from ..net.compile import CompiledNet, compile
from ..net.graph import Node
from ..net.packing import Storage
from ..training import Trainer
from .target import traits as traits_of

if TYPE_CHECKING:
    from .nets import InspectedNet

PARTS = 4  # number of the largest layers that are named
SHARE = 0.9  # share of the available memory that a run should request


def available(gpu: int | None) -> int:
    """Bytes of a GPU's memory, or bytes that are free on this machine."""
    if gpu is not None:
        from ..devices import cuda

        return int(cuda.describe(gpu)["Total global memory (bytes)"])
    try:
        (line,) = (line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:"))
        free = int(line.split()[1]) << 10
    except (OSError, ValueError):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no limit
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
        free = min(free, limit - used)
    return free


def _limit(gpu: int | None) -> int:
    """Bytes that are available to a process without memory of its own, also under a limit on its address space."""
    available_bytes = available(gpu)
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    return available_bytes if gpu is not None or most == resource.RLIM_INFINITY else min(available_bytes, most)


def text(count: float) -> str:
    """A number of bytes in MiB or GiB."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


@contextmanager
def explained(
    of: Callable[[], InspectedNet], gpu: int | None, divided: bool = False, processes: int = 1
) -> Iterator[None]:
    """Turns a MemoryError into an error with the plan's numbers and the batch size that fits. divided: this process
    has a part of the net. processes: that train together."""
    try:
        yield
    except MemoryError:
        if divided:
            raise _part_too_large() from None
        raise explanation(of, _limit(gpu), traits_of(gpu), processes) from None


def _part_too_large() -> CaffeliteError:
    remedy = "divide the net over more devices (-split), or lower the batch or micro-batch"
    return CaffeliteError("out of memory: this device's part of the net does not fit", remedy=remedy)


def explanation(of: Callable[[], InspectedNet], limit: int, traits: DeviceTraits, processes: int = 1) -> CaffeliteError:
    """The error of a run that needs more than ``limit`` bytes."""
    from . import summary  # only when memory runs out: a run starts without it

    subject = of()
    threads = os.cpu_count() or 1
    forecast = summary.memory(subject, None, threads, traits=traits, processes=processes)
    shares = {
        "blobs and their gradients": forecast.arena,
        "weights": forecast.weights,
        "their gradients": forecast.gradients,
        "the solver's history": forecast.history,
        "prefetched batches": forecast.prefetch,
        "workspace": forecast.workspace,
    }
    largest = sorted(((size, name) for name, size in shares.items() if size), reverse=True)
    named = ", ".join(f"{name} {text(size)}" for size, name in largest)
    fits = summary.largest_batch(subject, int(SHARE * limit), threads, traits=traits, processes=processes)
    most, when, layers = peak(compile(subject.graph(pb.TRAIN)[0], traits))
    named += f"; of blobs and gradients at most {text(most)} at once, in {when}: "
    named += ", ".join(f'"{node.name}" {text(size)}' for node, size in layers[:PARTS])
    remedy = (
        f"a batch of {fits[0]} fits; iter_size makes up for a smaller one; or divide the net over devices (-split)"
        if fits
        else "not even a batch of 1 fits: divide the net over devices (-split), or use a smaller one"
    )
    return CaffeliteError(
        f"out of memory: {text(forecast.total)} are needed ({named})", found=f"{text(limit)} at hand", remedy=remedy
    )


def check(run: Trainer, of: Callable[[], InspectedNet]) -> None:
    """Errors: the run needs more memory than a CPU has. Linux would allocate it and kill the run later."""
    nets = [*run.learning.iteration.pipeline.nets, *(net for net, _ in run.tests)]
    arenas = sum(net.compiled.arena + net.compiled.constant_bytes for net in nets)
    params = run.net.params
    flat = params.size * (1 + len(run.updater.history)) + (0 if params.diff is None else params.diff.size)
    limit = available(None)
    if run.dev.traits.host_memory and arenas + flat * run.dev.dtype.itemsize > limit:
        if run.learning.division.divided:
            raise _part_too_large()
        raise explanation(of, limit, run.dev.traits, run.comm.size)


def peak(compiled: CompiledNet) -> tuple[int, str, list[tuple[Node, int]]]:
    """(bytes, step, layers): the peak of blobs and gradients, the step at which it occurs, and the bytes of each
    layer at that step, largest first."""
    owners: dict[Storage, Node] = {}
    for table in (compiled.data, compiled.diff):
        for value, storage in table.items():
            owners.setdefault(storage, value.node)
    for node, saved in compiled.saved.items():
        owners |= dict.fromkeys(saved.values(), node)
    for step in compiled.backward:
        owners |= dict.fromkeys((s for s in step.partial.values() if s not in owners), step.node)
    held = {storage: node for storage, node in owners.items() if not storage.constant}
    nodes = compiled.graph.nodes
    span = 2 * len(nodes)
    changes = [0] * (span + 1)  # of the bytes in use, by time
    for storage in held:
        changes[min(storage.first, span)] += storage.bytes
        changes[min(storage.last + 1, span)] -= storage.bytes
    used = list(accumulate(changes))
    most = max(range(span), key=used.__getitem__, default=0)
    sizes: dict[Node, int] = {}
    for storage, node in held.items():
        if storage.first <= most <= storage.last:
            sizes[node] = sizes.get(node, 0) + storage.bytes
    forward = most < len(nodes)
    where = nodes[most if forward else 2 * len(nodes) - 1 - most] if nodes else None
    label = f'"{where.name}" {"forward" if forward else "backward"}' if where else "no layer"
    return used[most], label, sorted(sizes.items(), key=lambda pair: -pair[1])
