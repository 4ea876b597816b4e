"""Links by NCCL between the GPUs that hold the parts of one net."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..interfaces import Array, Pending
from .installation import cupy_module
from .nccl import nccl_module

Peer = tuple[int, int]  # stage and shard


@dataclass(frozen=True)
class _Sent:
    """An array that is being sent."""

    wait: Callable[[], None]


class NCCLLinks:
    """Links between CuPy arrays of float32.

    NCCL runs the calls of one communicator in their order, and a call blocks its stream until the other side makes
    its own. So each direction between two devices has a communicator and a stream: no array waits behind another that
    its receiver reads later. In a captured graph these streams are branches.

    compute: the stream that arrays are computed on. me: this device. stage: the devices of this stage, in order; group:
    those of all stages. pairs: (sender, receiver) of all links in the group, in the same order on all of its devices.
    gather: the values of all processes. key: of the group, the same on its devices only. cupy, nccl: replacements for
    tests.
    """

    captures = True

    def __init__(
        self,
        compute: Any,
        me: Peer,
        stage: Sequence[Peer],
        group: Sequence[Peer],
        pairs: Iterable[tuple[Peer, Peer]],
        gather: Callable[[Any], list[Any]],
        key: Hashable,
        cupy: Any = None,
        nccl: Any = None,
    ):
        pairs = list(pairs)
        self._cupy, self._nccl = cupy or cupy_module(), nccl or nccl_module()
        self._compute, self._me = compute, me
        made: dict[tuple[Hashable, Hashable], Any] = {
            (key, pair): self._nccl.get_unique_id() for pair in pairs if pair[0] == me
        }
        if me == stage[0]:
            made[key, stage[0]] = self._nccl.get_unique_id()
        if me == group[0]:
            made[key, "group"] = self._nccl.get_unique_id()
        ids = {name: uid for found in gather(made) for name, uid in found.items()}
        self._links = {
            pair: (self._join(2, ids[key, pair], pair.index(me)), self._cupy.cuda.Stream(non_blocking=True))
            for pair in pairs
            if me in pair
        }
        self._stage: Any = self._join(len(stage), ids[key, stage[0]], stage.index(me)) if len(stage) > 1 else None
        self._group: Any = self._join(len(group), ids[key, "group"], group.index(me))
        self._used: dict[Any, Any] = {}  # the streams of links with work that ``finish`` has to wait for
        self._finished = 0  # how often ``finish`` was called

    def _join(self, size: int, uid: Any, rank: int) -> Any:
        return self._nccl.NcclCommunicator(size, uid, rank)

    def send(self, array: Array, peer: Peer, tag: int) -> Pending:
        comm, stream = self._links[self._me, peer]
        self._follow(stream)
        comm.send(array.data.ptr, array.size, self._nccl.NCCL_FLOAT32, 1, stream.ptr)
        done, turn = self._event(stream), self._finished

        def wait() -> None:
            if turn == self._finished:
                self._compute.wait_event(done)

        return _Sent(wait)

    def receive(self, array: Array, peer: Peer, tag: int) -> None:
        comm, stream = self._links[peer, self._me]
        self._follow(stream)  # the memory may still be read
        comm.recv(array.data.ptr, array.size, self._nccl.NCCL_FLOAT32, 0, stream.ptr)
        self._compute.wait_event(self._event(stream))

    def all_gather(self, part: Array, whole: Array) -> None:
        pointers = part.data.ptr, whole.data.ptr
        self._stage.allGather(*pointers, part.size, self._nccl.NCCL_FLOAT32, self._compute.ptr)

    def reduce_scatter(self, whole: Array, part: Array) -> None:
        pointers, kind = (whole.data.ptr, part.data.ptr), (self._nccl.NCCL_FLOAT32, self._nccl.NCCL_SUM)
        self._stage.reduceScatter(*pointers, part.size, *kind, self._compute.ptr)

    def all_reduce(self, array: Array) -> None:
        pointer, kind = array.data.ptr, (self._nccl.NCCL_FLOAT32, self._nccl.NCCL_SUM)
        self._stage.allReduce(pointer, pointer, array.size, *kind, self._compute.ptr)

    def all_reduce_group(self, array: Array) -> None:
        pointer, kind = array.data.ptr, (self._nccl.NCCL_FLOAT32, self._nccl.NCCL_SUM)
        self._group.allReduce(pointer, pointer, array.size, *kind, self._compute.ptr)

    def finish(self) -> None:
        """All link streams join the stream of computation. So a capture can end, and the events of one graph are not
        waited for in another."""
        for stream in self._used.values():
            self._compute.wait_event(self._event(stream))
        self._used.clear()
        self._finished += 1

    def progress(self) -> None:
        """Does nothing: the GPU moves arrays."""

    def _follow(self, stream: Any) -> None:
        """What is queued on a link's stream from now on waits for what was computed so far."""
        stream.wait_event(self._event(self._compute))
        self._used[id(stream)] = stream

    def _event(self, stream: Any) -> Any:
        """An event that is recorded on a stream now."""
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event
