"""MPI: the processes that it started, and all-reduce between CPUs (or, through the host's memory, GPUs)."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import CaffeliteError, missing_extra
from ...system import yield_core

CHUNK = 1 << 20  # elements of one all-reduce: several at a time are faster than one of all
MOST_PENDING = 4  # all-reduces at a time
SPIN = 0.002  # seconds of waiting before the core is offered to others: a sum of a few MiB takes less
# (size, rank) in the environment: of Hydra and SLURM's PMI, of Open MPI
_MANAGERS = (("PMI_SIZE", "PMI_RANK"), ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"))


def launched() -> int:
    """How many processes mpirun or srun started; 1 where none did."""
    for size, _ in _MANAGERS:
        if os.environ.get(size, "").isdecimal():
            return int(os.environ[size])
    if "SLURM_PROCID" in os.environ and "SLURM_STEP_ID" in os.environ:
        return int(os.environ.get("SLURM_STEP_NUM_TASKS") or os.environ.get("SLURM_NTASKS") or 1)
    return 1


def launched_rank() -> int:
    """The rank of this process, known before MPI is initialized."""
    ranks = (os.environ.get(name, "") for name in (*(rank for _, rank in _MANAGERS), "SLURM_PROCID"))
    return next((int(rank) for rank in ranks if rank.isdecimal()), 0)


def wait(progress: Callable[[], bool]) -> None:
    """Calls ``progress`` until all is done. After a moment it offers the core in between, to another rank that needs
    it; another program may keep it for milliseconds."""
    spin = time.perf_counter() + SPIN
    while not progress():
        if time.perf_counter() > spin:
            yield_core()


class Communicator:
    """Processes of MPI: the module ``mpi`` and the communicator ``comm``."""

    def __init__(self, mpi: Any, comm: Any):
        self.mpi, self.comm = mpi, comm
        self.rank, self.size = comm.rank, comm.size

    def gather(self, value: Any) -> list[Any]:
        return self.comm.allgather(value)

    def subset(self, ranks: list[int]) -> Communicator:
        return Communicator(self.mpi, self.comm.Split(ranks[0], ranks.index(self.rank)))

    def close(self) -> None:
        """Does nothing: World ends MPI."""


class World(Communicator):
    """All processes that mpirun or srun started. Errors: no mpi4py, or an MPI that is not the one of mpirun."""

    def __init__(self) -> None:
        try:
            import mpi4py

            # A rank that fails must not wait for the others in MPI_Finalize: ``close`` calls it where all went well.
            mpi4py.rc.thread_level, mpi4py.rc.finalize = "funneled", False
            from mpi4py import MPI
        except ModuleNotFoundError:
            raise missing_extra("mpi4py", "mpi", "training under mpirun or srun") from None
        except (ImportError, RuntimeError) as error:
            remedy = 'install an MPI, or one from a wheel: pip install "caffelite[mpi]"'
            what = "mpi4py finds no MPI library"
            raise CaffeliteError(what, found=str(error).strip().split("\n")[0], remedy=remedy) from None
        super().__init__(MPI, MPI.COMM_WORLD)
        if self.size != launched():
            remedy = "start it with the mpirun of the MPI that mpi4py was built for; under SLURM try srun --mpi=pmi2"
            version = f"{self.size}: {MPI.Get_library_version().split(chr(10))[0].strip()}"
            raise CaffeliteError(
                "the MPI of mpi4py sees other processes than were started",
                expected=launched(),
                found=version,
                remedy=remedy,
            )

    def close(self) -> None:
        self.mpi.Finalize()


class MPIAllReduce:
    """Sums NumPy arrays in place, in chunks, while the caller computes; MPI moves them whenever ``progress`` is
    called."""

    def __init__(self, world: Communicator):
        self._mpi, self._comm = world.mpi, world.comm
        self._posted: deque[np.ndarray] = deque()
        self._pending: list[Any] = []
        self._head = np.zeros(3)  # the loss and the flags

    def set_flags(self, flags: np.ndarray) -> None:
        self._head[1:] = flags

    def begin(self, loss: np.ndarray) -> None:
        self._head[0] = loss[0]
        self._posted.append(self._head)
        self.progress()

    def read_loss(self, loss: np.ndarray) -> np.ndarray:
        loss[0] = self._head[0]
        return self._head[1:]

    def post(self, array: np.ndarray) -> None:
        self._posted.extend(array[at : at + CHUNK] for at in range(0, len(array), CHUNK))
        self.progress()

    def progress(self) -> bool:
        """Whether all are done. Few are pending at a time, since MPI examines each of them at every call."""
        if self._pending and (done := self._mpi.Request.Testsome(self._pending)):
            for at in sorted(done, reverse=True):
                del self._pending[at]
        while self._posted and len(self._pending) < MOST_PENDING:
            self._pending.append(self._comm.Iallreduce(self._mpi.IN_PLACE, self._posted.popleft()))
        return not self._pending

    def finish(self) -> None:
        wait(self.progress)
