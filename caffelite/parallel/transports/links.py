"""Links over MPI: arrays between the processes that hold the parts of one net, also for devices that send through the
host's memory."""

import functools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...devices.links import Peer, Pending
from ...devices.protocol import Device
from ...devices.types import Array
from ...system import yield_core
from ..mesh import MeshPosition, MeshShape
from .mpi import Communicator

Waiting = Callable[[int], AbstractContextManager[None]]  # takes the rank that this process waits for


@dataclass(frozen=True)
class _Sent:
    """An array that is being sent."""

    wait: Callable[[], None]


class MPILinks:
    """Links between NumPy arrays.

    model, stage: the processes of the group and of the stage. ranks: those of the group, by their rank in the
    job. waiting(rank): a context in which this process waits for another.

    A message leaves while this process computes only if ``progress`` is called now and then.
    """

    captures = False

    def __init__(
        self,
        model: Communicator,
        stage: Communicator,
        shape: MeshShape,
        position: MeshPosition,
        ranks: list[int],
        waiting: Waiting,
    ):
        self._mpi, self._comm, self._stage = model.mpi, model.comm, stage.comm
        self._shape, self._ranks, self._waiting = shape, ranks, waiting
        self._next = ranks[self._index((position.stage, (position.shard + 1) % shape.shards))]
        self._sent: list[Any] = []  # requests, some of them done
        self._scratch = np.empty(0, np.uint8)

    def connect(self, pairs: Iterable[tuple[Peer, Peer]]) -> None:
        """Does nothing: MPI connects processes when they first exchange something."""

    def close(self, failed: bool = False) -> None:
        """Does nothing: MPI ends with the process."""

    def _index(self, peer: Peer) -> int:
        """The rank of a peer within the group."""
        return self._shape.rank(MeshPosition(0, *peer))

    def send(self, array: np.ndarray, peer: Peer, tag: int) -> Pending:
        index = self._index(peer)
        self._sent = [request for request in self._sent if not request.Test()]
        request = self._comm.Isend(array, index, tag)
        self._sent.append(request)
        return _Sent(functools.partial(self._wait, request, index))

    def receive(self, array: np.ndarray, peer: Peer, tag: int) -> None:
        index = self._index(peer)
        self._wait(self._comm.Irecv(array, index, tag), index)

    def all_gather(self, source: np.ndarray, target: np.ndarray) -> None:
        self._wait_stage(self._stage.Iallgather(source, target))

    def reduce_scatter(self, source: np.ndarray, target: np.ndarray) -> None:
        received = self._buffer(source.size, source.dtype).reshape(len(source), -1)
        self._wait_stage(self._stage.Ialltoall(source, received))
        _sum_rows(received, target.reshape(-1))

    def all_reduce(self, array: np.ndarray) -> None:
        """Each device sums one section of the array, and all gather the sums."""
        size, flat = self._stage.size, array.reshape(-1)
        ends = [flat.size * i // size for i in range(size + 1)]
        counts, starts = np.diff(ends).tolist(), ends[:-1]
        at = self._stage.rank
        mine = flat[starts[at] : ends[at + 1]]
        received = self._buffer(mine.size * size, array.dtype)
        offsets = [mine.size * i for i in range(size)]
        self._wait_stage(self._stage.Ialltoallv([flat, (counts, starts)], [received, ([mine.size] * size, offsets)]))
        _sum_rows(received.reshape(size, -1), mine)
        self._wait_stage(self._stage.Iallgatherv(self._mpi.IN_PLACE, [flat, (counts, starts)]))

    def all_reduce_group(self, array: np.ndarray) -> None:
        raise NotImplementedError("sums over a group pass through the host")

    def finish(self) -> None:
        """Does nothing: each array that was sent is waited for."""

    def progress(self) -> None:
        """Lets MPI move the messages that were sent."""
        self._mpi.Request.Testall(self._sent)

    def _buffer(self, count: int, dtype: np.dtype) -> np.ndarray:
        """Scratch memory, valid until the next call."""
        if self._scratch.nbytes < count * dtype.itemsize:
            self._scratch = np.empty(count * dtype.itemsize, np.uint8)
        return self._scratch[: count * dtype.itemsize].view(dtype)

    def _wait_stage(self, request: Any) -> None:
        self._finish(request, self._next)

    def _wait(self, request: Any, index: int) -> None:
        self._finish(request, self._ranks[index])

    def _finish(self, request: Any, rank: int) -> None:
        if request.Test():
            return
        with self._waiting(rank):
            while not request.Test():
                self.progress()
                yield_core()  # the other rank may need this core


class StagedLinks:
    """Links of a device through the host's memory. inner: between NumPy arrays."""

    captures = False

    def __init__(self, dev: Device, inner: MPILinks):
        self._dev, self._inner = dev, inner

    def connect(self, pairs: Iterable[tuple[Peer, Peer]]) -> None:
        self._inner.connect(pairs)

    def close(self, failed: bool = False) -> None:
        self._inner.close(failed)

    def send(self, array: Array, peer: Peer, tag: int) -> Pending:
        return self._inner.send(self._dev.download(array), peer, tag)

    def receive(self, array: Array, peer: Peer, tag: int) -> None:
        host = self._host(array)
        self._inner.receive(host, peer, tag)
        self._dev.upload(array, host)

    def all_gather(self, source: Array, target: Array) -> None:
        host = self._host(target)
        self._inner.all_gather(self._dev.download(source), host)
        self._dev.upload(target, host)

    def reduce_scatter(self, source: Array, target: Array) -> None:
        host = self._host(target)
        self._inner.reduce_scatter(self._dev.download(source), host)
        self._dev.upload(target, host)

    def all_reduce(self, array: Array) -> None:
        host = self._dev.download(array)
        self._inner.all_reduce(host)
        self._dev.upload(array, host)

    def all_reduce_group(self, array: Array) -> None:
        self._inner.all_reduce_group(array)

    def finish(self) -> None:
        self._inner.finish()

    def progress(self) -> None:
        self._inner.progress()

    def _host(self, array: Array) -> np.ndarray:
        return np.empty(array.shape, array.dtype)


def _sum_rows(rows: np.ndarray, out: np.ndarray) -> None:
    """out = the sum of the rows, in order."""
    np.copyto(out, rows[0])
    for row in rows[1:]:
        out += row
