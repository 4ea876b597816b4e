"""The processes of one training job, from their meeting to their parting."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ..errors import CaffeliteError
from . import star
from .comm import ProcessGroup, SingleProcess
from .half import Halved
from .host import HostAllReduce, StagedAllReduce
from .mpi import Sums, World, launched, launched_rank
from .watch import Watched

T = TypeVar("T")


def expected() -> int:
    """How many processes train together, as the environment says; nothing is loaded for it."""
    return star.inherited() or launched()


def expected_rank() -> int:
    """Which of them this one is."""
    return star.inherited_rank() if star.inherited() else launched_rank()


class Refused(CaffeliteError):
    """What keeps a job from starting or going on, agreed on by all ranks; rank 0 tells it."""

    @classmethod
    def of(cls, text: str) -> Refused:
        error = cls("")
        error.args = (text,)
        return error


@contextmanager
def session(limit: float) -> Iterator[SingleProcess]:
    """The communicator of this process: of those that mpirun, srun or -gpu started together, or SingleProcess.

    limit: seconds without progress after which a rank counts as hanging; 0: never. What a rank raises within ends the
    whole job.
    """
    if star.inherited():
        control, kind = star.Star(), "started by caffelite"
    elif launched() > 1:
        control, kind = World(), "MPI"
    else:
        yield SingleProcess()
        return
    watched = Watched(control.rank, control.size, limit)
    name, cores = socket.gethostname(), sorted(os.sched_getaffinity(0))
    met = control.gather((name, cores, watched.address()))
    hosts = [host for host, _, _ in met]
    watched.join("127.0.0.1" if set(hosts) == {name} else hosts[0], *met[0][2])
    # Processes that may use the same cores share them; those that mpirun or SLURM pinned have their own.
    threads = max(1, len(cores) // [(host, theirs) for host, theirs, _ in met].count((name, cores)))
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, str(threads))
    try:
        local_rank = hosts[: control.rank].count(name)
        comm = ProcessGroup(control, lambda dev, half: _transport(control, dev, half), watched, kind, local_rank)
        with _ended(comm):
            yield comm
            comm.gather(None)
    except Refused:
        watched.done()
        if control.rank:
            raise SystemExit(2) from None
        raise
    except BaseException as error:
        watched.last_words(f"{type(error).__name__}: {error}" if not isinstance(error, CaffeliteError) else str(error))
        raise
    watched.done()
    control.close()


@contextmanager
def _ended(comm: ProcessGroup) -> Iterator[None]:
    """Ends what sums gradients on every way out, while the guard still watches: what waits here for other processes is
    ended by it."""
    try:
        yield
    except BaseException:
        comm.close(failed=True)
        raise
    comm.close()


def agreed(comm: SingleProcess, make: Callable[[], T]) -> T:
    """make() on every rank; where a rank refuses, all end, with what each that refused has to say, said once."""
    if comm.size == 1:
        return make()
    value, refusal = None, None
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


def _transport(control, dev, half: bool):
    """What sums arrays of ``dev`` over the ranks."""
    if not isinstance(control, World):
        host = HostAllReduce(control)
    else:
        host = Halved(Sums(control), control.comm, control.mpi) if half else Sums(control)
    if dev.name == "cpu":
        return host
    from ..devices import cuda

    places, libraries = zip(
        *control.gather((cuda.place(dev.number), "cuDNN" if dev.engine else "no cuDNN")), strict=True
    )
    if len(set(libraries)) > 1:
        found = ", ".join(f"{library} on rank {rank}" for rank, library in enumerate(libraries))
        raise Refused(
            "processes must compute by the same libraries", found=found, remedy="install the same extra for all of them"
        )
    if len(set(places)) < len(places):  # NCCL takes one process a GPU
        return StagedAllReduce(dev, host)
    dev.backend.here()  # NCCL's communicator is of the current device
    return cuda.Sums(dev.backend.stream, control.rank, control.size, control.gather, half, dev.drop_graphs)
