"""The process group of a training job: ranks, start and end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..devices.links import Links
from ..devices.protocol import Device
from ..errors import CaffeliteError
from ..system import usable_cores
from .control import Control
from .mesh import MeshPosition, MeshShape
from .reducer import Bucket, GradientReducer, Transport
from .refusal import Refused
from .transports import star
from .transports.mpi import World, launched, launched_rank
from .watchdog import Watchdog

T = TypeVar("T")
# Read when CUDA and NCCL start. Several communicators of a process need queues of their own on the GPU, and an order of
# their launches that NCCL keeps (since 2.26), or they may wait for each other.
CUDA_DEFAULTS = {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "NCCL_LAUNCH_ORDER_IMPLICIT": "1"}
# Where ranks may share a GPU, the kernels of all of them have to be resident together: each gets few blocks.
SHARED_DEFAULTS = {"NCCL_MAX_CTAS": "4"}


class SingleProcess:
    """A process that trains alone. seed: of random numbers, the same in all processes of a job."""

    rank, size = 0, 1
    local_rank = 0  # among the processes of this machine
    mark: Callable[..., None] | None = None  # reports the step that runs to the watchdog: see Watchdog.mark
    kind = ""  # "MPI", or how the processes were started

    def __init__(self) -> None:
        self.seed = int.from_bytes(os.urandom(4), "little")

    def gather(self, value: Any, what: str = "") -> list[Any]:
        """The values of all ranks, in the order of ranks, on every rank. what: for a report of a rank that hangs."""
        return [value]

    def total(self, values: np.ndarray, what: str = "") -> np.ndarray:
        """The sum over ranks of a host array of float64: the same bits on every rank."""
        return values

    def reducer(
        self, dev: Device, flat: Any, buckets: list[Bucket], half: bool = False, over: Mesh | None = None
    ) -> GradientReducer | None:
        """Sums the gradients of training; None for a single process. half: they are sent as 16-bit numbers. over: the
        mesh of processes that hold parts of the net; None: each holds all of it. The loss is summed over all."""
        return None

    def name_layers(self, names: dict[Hashable, str]) -> None:
        """Gives the watchdog the names of the keys that ``mark`` receives."""

    def record_failure_in(self, path: Path) -> None:
        """Makes the watchdog write there, as JSON, why it ends the job."""

    def mesh(self, shape: MeshShape | None, dev: Device) -> Mesh:
        """The arrangement of all processes in groups, stages and shards; None: each holds the complete net. All
        processes call it together. Errors: another number of processes than the shape has."""
        shape = shape or MeshShape(groups=self.size)
        if shape.size != self.size:
            raise Refused("a job has another number of processes", expected=shape.size, found=self.size)
        return Mesh(shape, shape.position(self.rank), self, self, SingleProcess(), self)


@dataclass(frozen=True)
class Mesh:
    """The processes of a job as this one, at ``position``, sees them.

    world: all. data: those that hold the same part of the net, one of each group; they share the samples. model: those
    of its group, which hold one copy of the net together. stage: those of all groups with the same layers. links:
    between the devices of the group; None where each process holds the complete net.
    """

    shape: MeshShape
    position: MeshPosition
    world: SingleProcess
    data: SingleProcess
    model: SingleProcess
    stage: SingleProcess
    links: Links | None = None


def alone() -> Mesh:
    """The mesh of a process that trains alone."""
    comm = SingleProcess()
    return Mesh(MeshShape(), MeshPosition(), comm, comm, comm, comm)


class SubGroup(SingleProcess):
    """Some of the processes of a job. All processes gather together, each within its own subgroup."""

    def __init__(self, control: Control, waiting: Callable[[str], AbstractContextManager[None]]):
        super().__init__()
        self.control, self._waiting = control, waiting
        self.rank, self.size = control.rank, control.size

    def gather(self, value: Any, what: str = "an agreement") -> list[Any]:
        if self.size == 1:
            return [value]
        with self._waiting(what):
            return self.control.gather(value)

    def total(self, values: np.ndarray, what: str = "scores") -> np.ndarray:
        """Summed in the order of ranks, so that every rank gets the same bits."""
        if self.size == 1:
            return values
        total = np.zeros_like(values)
        for part in self.gather(values, what):
            total += part
        return total


class ProcessGroup(SubGroup):
    """Several processes. control: exchanges Python values. make_transport(control, dev, half): sums arrays of a device
    over the processes of a control. watchdog: ends the job if a rank dies or hangs."""

    def __init__(
        self,
        control: Control,
        make_transport: Callable[[Control, Device, bool], Transport],
        watchdog: Watchdog | None = None,
        kind: str = "",
        local_rank: int = 0,
    ):
        super().__init__(control, self._watched)
        self._make_transport, self.watchdog, self.kind = make_transport, watchdog, kind
        self.local_rank = local_rank
        self.seed = control.gather(self.seed)[0]
        self.mark = watchdog.mark if watchdog else None
        self._open: list[GradientReducer | Links] = []

    def reducer(
        self, dev: Device, flat: Any, buckets: list[Bucket], half: bool = False, over: Mesh | None = None
    ) -> GradientReducer:
        transport, post_over_stage = self._make_transport(self.control, dev, half), None
        if over is not None:
            from .transports.divided import DividedAllReduce

            transports: list[Transport | None] = []
            for group in (over.data, over.stage):
                assert isinstance(group, SubGroup)
                transports.append(self._make_transport(group.control, dev, half) if group.size > 1 else None)
            transport = divided = DividedAllReduce(transport, *transports)
            post_over_stage = divided.post_over_stage
        reducer = GradientReducer(transport, flat, buckets, self.size, self._waiting, post_over_stage)
        self._open.append(reducer)
        return reducer

    def mesh(self, shape: MeshShape | None, dev: Device) -> Mesh:
        if shape is None or shape.stages * shape.shards == 1:
            return super().mesh(shape, dev)
        from .transports import choice

        position, world = shape.position(self.rank), super().mesh(shape, dev)
        groups = (shape.replicas, shape.model, shape.same_stage, shape.stage)
        data, model, stage, shards = (SubGroup(self.control.subset(of(self.rank)), self._waiting) for of in groups)
        data.mark = model.mark = self.mark
        links = choice.links(self.control, model.control, shards.control, shape, dev, self._transfer)
        self._open.append(links)
        if self.watchdog:
            self.watchdog.name_position(f"stage {position.stage}" + f", shard {position.shard}" * (shape.shards > 1))
        return replace(world, data=data, model=model, stage=stage, links=links)

    def close(self, failed: bool = False) -> None:
        """Closes all reducers and links. failed: this process ends in an error, so nothing is waited for."""
        while self._open:
            self._open.pop().close(failed)

    def name_layers(self, names: dict[Hashable, str]) -> None:
        if self.watchdog:
            self.watchdog.name_layers(names)

    def record_failure_in(self, path: Path) -> None:
        if self.watchdog:
            self.watchdog.record_failure_in(path)

    def _watched(self, what: str) -> AbstractContextManager[None]:
        return self.watchdog.waiting(what) if self.watchdog else nullcontext()

    def _transfer(self, rank: int) -> AbstractContextManager[None]:
        return self.watchdog.transfer(rank) if self.watchdog else nullcontext()


def expected() -> int:
    """How many processes train together, from the environment alone; imports nothing."""
    return star.inherited() or launched()


def expected_rank() -> int:
    """The rank of this process, from the environment alone."""
    return star.inherited_rank() if star.inherited() else launched_rank()


@contextmanager
def session(limit: float) -> Iterator[SingleProcess]:
    """The group of this process: of those that mpirun, srun or -gpu started together, or SingleProcess.

    limit: seconds without progress after which a rank counts as hanging; 0: never. An error inside the context ends the
    job on all ranks.
    """
    control: Control
    if star.inherited():
        control, kind = star.Star(), "started by caffelite"
    elif launched() > 1:
        control, kind = World(), "MPI"
    else:
        yield SingleProcess()
        return
    from .transports import choice

    shared = SHARED_DEFAULTS if os.environ.get("NCCL_MULTI_RANK_GPU_ENABLE") == "1" else {}
    for variable, value in (CUDA_DEFAULTS | shared).items():
        os.environ.setdefault(variable, value)
    watchdog = Watchdog(control.rank, control.size, limit)
    name, cores = socket.gethostname(), usable_cores()
    met = control.gather((name, cores, watchdog.address()))
    hosts = [host for host, _, _ in met]
    watchdog.join("127.0.0.1" if set(hosts) == {name} else hosts[0], *met[0][2])
    # Processes that may use the same cores share them; those that mpirun or SLURM pinned have their own.
    threads = max(1, len(cores) // [(host, theirs) for host, theirs, _ in met].count((name, cores)))
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, str(threads))
    try:
        local_rank = hosts[: control.rank].count(name)
        comm = ProcessGroup(control, choice.all_reduce, watchdog, kind, local_rank)
        with _closing(comm):
            yield comm
            comm.gather(None)
    except Refused:
        control.close()  # else mpirun may kill the ranks that have not ended yet, and report that
        watchdog.done()
        if control.rank:
            raise SystemExit(2) from None
        raise
    except BaseException as error:
        watchdog.report_error(
            f"{type(error).__name__}: {error}" if not isinstance(error, CaffeliteError) else str(error)
        )
        raise
    watchdog.done()
    control.close()


@contextmanager
def _closing(comm: ProcessGroup) -> Iterator[None]:
    """Closes reducers and links while the watchdog still runs: it ends a process that waits here for others."""
    try:
        yield
    except BaseException:
        comm.close(failed=True)
        raise
    comm.close()


def agreed(comm: SingleProcess, make: Callable[[], T]) -> T:
    """Calls make() on every rank. Errors: where it raises CaffeliteError on any rank, all raise Refused with the
    messages of all ranks, each message once."""
    if comm.size == 1:
        return make()
    value: Any = None
    refusal = None
    try:
        value = make()
    except Refused:  # all have agreed within make()
        raise
    except CaffeliteError as error:
        refusal = str(error)
    refusals = comm.gather(refusal, "what to start with")
    if any(refusals):
        texts: dict[str, list[int]] = {}
        for rank, text in enumerate(refusals):
            if text:
                texts.setdefault(text, []).append(rank)
        everywhere = len(texts) == 1 and None not in refusals
        lines = [text if everywhere else f"rank {', '.join(map(str, ranks))}: {text}" for text, ranks in texts.items()]
        raise Refused.of("\n".join(lines))
    return value
