"""The process group of a training job: ranks, start and end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..devices.protocol import Device
from ..errors import CaffeliteError
from .control import Control
from .reducer import Bucket, GradientReducer, Transport
from .transports import star
from .transports.half import HalfPrecisionAllReduce
from .transports.host import HostAllReduce, StagedAllReduce
from .transports.mpi import MPIAllReduce, World, launched, launched_rank
from .watchdog import Watchdog

T = TypeVar("T")


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

    def reducer(self, dev: Device, flat: Any, buckets: list[Bucket], half: bool = False) -> GradientReducer | None:
        """Sums the gradients of training; None for a single process. half: they are sent as 16-bit numbers."""
        return None

    def name_layers(self, names: dict[Hashable, str]) -> None:
        """Gives the watchdog the names of the keys that ``mark`` receives."""

    def record_failure_in(self, path: Path) -> None:
        """Makes the watchdog write there, as JSON, why it ends the job."""


class ProcessGroup(SingleProcess):
    """Several processes. control: exchanges Python values. make_transport(dev, half): sums device arrays over ranks.
    watchdog: ends the job if a rank dies or hangs."""

    def __init__(
        self,
        control: Control,
        make_transport: Callable[[Device, bool], Transport],
        watchdog: Watchdog | None = None,
        kind: str = "",
        local_rank: int = 0,
    ):
        super().__init__()
        self._control, self._make_transport, self.watchdog, self.kind = control, make_transport, watchdog, kind
        self.rank, self.size, self.local_rank = control.rank, control.size, local_rank
        self.seed = control.gather(self.seed)[0]
        self.mark = watchdog.mark if watchdog else None
        self._reducers: list[GradientReducer] = []

    def gather(self, value: Any, what: str = "an agreement") -> list[Any]:
        with self._waiting(what):
            return self._control.gather(value)

    def total(self, values: np.ndarray, what: str = "scores") -> np.ndarray:
        """Summed in the order of ranks, so that every rank gets the same bits."""
        total = np.zeros_like(values)
        for part in self.gather(values, what):
            total += part
        return total

    def reducer(self, dev: Device, flat: Any, buckets: list[Bucket], half: bool = False) -> GradientReducer:
        self._reducers.append(GradientReducer(self._make_transport(dev, half), flat, buckets, self.size, self._waiting))
        return self._reducers[-1]

    def close(self, failed: bool = False) -> None:
        """Closes all reducers. failed: this process ends in an error, so nothing is waited for."""
        while self._reducers:
            self._reducers.pop().close(failed)

    def name_layers(self, names: dict[Hashable, str]) -> None:
        if self.watchdog:
            self.watchdog.name_layers(names)

    def record_failure_in(self, path: Path) -> None:
        if self.watchdog:
            self.watchdog.record_failure_in(path)

    def _waiting(self, what: str) -> AbstractContextManager[None]:
        return self.watchdog.waiting(what) if self.watchdog else nullcontext()


def expected() -> int:
    """How many processes train together, from the environment alone; imports nothing."""
    return star.inherited() or launched()


def expected_rank() -> int:
    """The rank of this process, from the environment alone."""
    return star.inherited_rank() if star.inherited() else launched_rank()


class Refused(CaffeliteError):
    """An error that all ranks agree on, so that the job does not start or go on; rank 0 prints it."""

    @classmethod
    def of(cls, text: str) -> Refused:
        error = cls("")
        error.args = (text,)
        return error


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
    watchdog = Watchdog(control.rank, control.size, limit)
    name, cores = socket.gethostname(), sorted(os.sched_getaffinity(0))
    met = control.gather((name, cores, watchdog.address()))
    hosts = [host for host, _, _ in met]
    watchdog.join("127.0.0.1" if set(hosts) == {name} else hosts[0], *met[0][2])
    # Processes that may use the same cores share them; those that mpirun or SLURM pinned have their own.
    threads = max(1, len(cores) // [(host, theirs) for host, theirs, _ in met].count((name, cores)))
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, str(threads))
    try:
        local_rank = hosts[: control.rank].count(name)
        comm = ProcessGroup(control, lambda dev, half: _transport(control, dev, half), watchdog, kind, local_rank)
        with _closing(comm):
            yield comm
            comm.gather(None)
    except Refused:
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
    """Closes the reducers at the end, while the watchdog still runs: it ends a process that waits here for others."""
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


def _transport(control: Control, dev: Device, half: bool) -> Transport:
    """The transport that sums arrays of ``dev`` over the ranks."""
    host: Transport
    if not isinstance(control, World):
        host = HostAllReduce(control)
    elif half:
        host = HalfPrecisionAllReduce(MPIAllReduce(control), control.comm, control.mpi)
    else:
        host = MPIAllReduce(control)
    if dev.traits.host_memory:
        return host
    from ..devices import cuda

    assert isinstance(dev, cuda.GPU)
    places, libraries = zip(*control.gather((cuda.place(dev), cuda.libraries(dev))), strict=True)
    if len(set(libraries)) > 1:
        found = ", ".join(f"{library} on rank {rank}" for rank, library in enumerate(libraries))
        raise Refused(
            "processes must compute by the same libraries", found=found, remedy="install the same extra for all of them"
        )
    if len(set(places)) < len(places):  # NCCL allows one process for each GPU
        return StagedAllReduce(dev, host)
    return cuda.all_reduce(dev, control.rank, control.size, control.gather, half)
