"""Links by NCCL between the GPUs that hold the parts of one net."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..links import Peer, Pending
from ..types import Array
from .installation import cupy_module
from .nccl import close, nccl_module

APART = -1  # NCCL's color of devices that get no communicator


@dataclass(frozen=True)
class _Sent:
    """An array that is being sent."""

    wait: Callable[[], None]


class NCCLLinks:
    """Links between CuPy arrays of float32.

    NCCL runs the calls of one communicator in their order, and a call blocks its stream until the other side makes
    its own. So each direction between two devices has a communicator and a stream: no array waits behind another that
    its receiver reads later. In a captured graph these streams are branches.

    NCCL connects the members of a communicator when it is made, and within the first call of each: the host waits there
    for the other members (https://github.com/NVIDIA/nccl/issues/783). Sends in the order of a net's steps would then
    wait in a circle, so ``connect`` makes both happen, for one pair after the other in one order on all devices.

    compute: the stream that arrays are computed on. me: this device. group: the devices of all stages, in order.
    gather: the values of all processes. key: of the group, the same on its devices only. drop_graphs: destroys the
    graphs that may contain calls. cupy, nccl: replacements for tests.
    """

    captures = True

    def __init__(
        self,
        compute: Any,
        me: Peer,
        group: Sequence[Peer],
        gather: Callable[[Any], list[Any]],
        key: Hashable,
        drop_graphs: Callable[[], None] | None = None,
        cupy: Any = None,
        nccl: Any = None,
    ):
        self._cupy, self._nccl = cupy or cupy_module(), nccl or nccl_module()
        self._compute, self._me, self._drop_graphs = compute, me, drop_graphs
        made = {key: self._nccl.get_unique_id()} if me == group[0] else {}
        ids = {name: uid for of_rank in gather(made) for name, uid in of_rank.items()}
        self._first = self._cupy.zeros(1, "float32")  # what the first calls move
        self._group: Any = self._nccl.NcclCommunicator(len(group), ids[key], group.index(me))
        self._sum(self._group, self._first)
        self._stage: Any = None
        if any(device[1] for device in group):  # several shards
            self._stage = self._split(*me)
            self._sum(self._stage, self._first)
        self._links: dict[tuple[Peer, Peer], tuple[Any, Any]] = {}
        self._connected: set[tuple[Peer, Peer]] = set()  # pairs of the group, other devices' too
        self._used: dict[Any, Any] = {}  # the streams of links with work that ``finish`` has to wait for
        self._finished = 0  # how often ``finish`` was called

    def connect(self, pairs: Iterable[tuple[Peer, Peer]]) -> None:
        for pair in sorted(set(pairs) - self._connected):
            self._connected.add(pair)
            if self._me not in pair:
                self._split(APART)
                continue
            comm = self._split(0, pair.index(self._me))
            self._links[pair] = comm, self._cupy.cuda.Stream(non_blocking=True)
            if pair[0] == self._me:
                self.send(self._first, pair[1], 0)
            else:
                self.receive(self._first, pair[0], 0)

    def _split(self, color: int, key: int = 0) -> Any:
        """A communicator of the devices of the group with this color, in the order of keys; all call it together."""
        self._compute.synchronize()  # NCCL permits no pending call of the one that is split
        return self._group.commSplit(color, key)

    def _sum(self, comm: Any, array: Array) -> None:
        pointer = array.data.ptr
        comm.allReduce(pointer, pointer, array.size, self._nccl.NCCL_FLOAT32, self._nccl.NCCL_SUM, self._compute.ptr)

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

    def all_gather(self, source: Array, target: Array) -> None:
        pointers = source.data.ptr, target.data.ptr
        self._stage.allGather(*pointers, source.size, self._nccl.NCCL_FLOAT32, self._compute.ptr)

    def reduce_scatter(self, source: Array, target: Array) -> None:
        pointers, kind = (source.data.ptr, target.data.ptr), (self._nccl.NCCL_FLOAT32, self._nccl.NCCL_SUM)
        self._stage.reduceScatter(*pointers, target.size, *kind, self._compute.ptr)

    def all_reduce(self, array: Array) -> None:
        self._sum(self._stage, array)

    def all_reduce_group(self, array: Array) -> None:
        self._sum(self._group, array)

    def finish(self) -> None:
        """All link streams join the stream of computation. So a capture can end, and the events of one graph are not
        waited for in another."""
        for stream in self._used.values():
            self._compute.wait_event(self._event(stream))
        self._used.clear()
        self._finished += 1

    def progress(self) -> None:
        """Does nothing: the GPU moves arrays."""

    def close(self, failed: bool = False) -> None:
        comms = [comm for comm, _ in self._links.values()] + [comm for comm in (self._stage, self._group) if comm]
        streams = [self._compute, *(stream for _, stream in self._links.values())]
        self._links, self._stage, self._group = {}, None, None
        close(comms, streams, self._drop_graphs, failed)

    def _follow(self, stream: Any) -> None:
        """What is queued on a link's stream from now on waits for what was computed so far."""
        stream.wait_event(self._event(self._compute))
        self._used[id(stream)] = stream

    def _event(self, stream: Any) -> Any:
        """An event that is recorded on a stream now."""
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event
