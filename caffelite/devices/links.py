"""The interface of the links between the devices that hold the pieces of one net."""

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from .types import Array

Peer: TypeAlias = tuple[int, int]  # stage and shard of a device that holds a piece of a net


class Pending(Protocol):
    """An array that is being sent."""

    def wait(self) -> None:
        """Returns when the array may be overwritten; on a GPU, queues the wait."""


class Links(Protocol):
    """Moves arrays between the devices that hold the parts of one net.

    All arrays are contiguous and of the device's dtype. A peer is a stage and a shard. Calls are queued in the order
    of the net's steps on every device; on a CPU they have finished when they return, unless the docstring says
    otherwise.
    ``captures``: a captured graph may contain its calls, if ``finish`` precedes and ends them. Otherwise arrays pass
    through the host.
    Errors: a device that ends or hangs ends the job, see parallel/watchdog.py.
    """

    captures: bool

    def connect(self, pairs: Iterable[tuple[Peer, Peer]]) -> None:
        """Makes the links between pairs of sender and receiver that are not there yet. The devices of the group call it
        together, before their first transfer."""

    def send(self, array: Array, peer: Peer, tag: int) -> Pending:
        """Starts to send an array and returns without waiting for the peer. The array must not change before
        ``wait`` of the result has returned. Arrays that are sent to one peer with one tag arrive in the order of the
        calls."""

    def receive(self, array: Array, peer: Peer, tag: int) -> None:
        """Receives what ``peer`` sends with the tag. Waits for it."""

    def all_gather(self, source: Array, target: Array) -> None:
        """target (K, ...): the source (...) of each of the K devices of the stage, in the order of shards."""

    def reduce_scatter(self, source: Array, target: Array) -> None:
        """target (...): the sum of source (K, ...) at this shard over the K devices of the stage, in the order of
        shards."""

    def all_reduce(self, array: Array) -> None:
        """Sums an array over the devices of the stage, in place and in the order of shards: the same bits on each."""

    def all_reduce_group(self, array: Array) -> None:
        """Sums an array over all devices of the group, in place: the same bits on each. Where it ``captures``."""

    def finish(self) -> None:
        """Waits for the arrays that are being sent; on a GPU, queues the wait. Their ``Pending`` need no ``wait``."""

    def progress(self) -> None:
        """Lets arrays that were sent move; called while this device computes."""

    def close(self, failed: bool = False) -> None:
        """No more calls follow. failed: this process ends in an error, so that nothing is waited for."""
