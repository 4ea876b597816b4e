"""What devices exchange: transfers of blobs, and sums and parts of divided ones."""

import math
from typing import Any

from ... import caffelite_pb2 as pb
from ...devices.links import Links, Peer, Pending
from ...devices.protocol import Device
from ...errors import NOWHERE
from ...layers import Layer, Shape
from ...layers.base.config import SENT
from ...layers.base.image_layout import ImageLayout
from ..nodes import Value


class PartLayer(Layer):
    """A layer that ``partition`` inserts. value: of the complete net, which it moves."""

    verb = ""
    backward_reads_bottoms = backward_reads_tops = False

    def __init__(self, value: Value, phase: int):
        super().__init__(pb.LayerParameter(name=f"{value.name} {self.verb}", type=self.type), phase, NOWHERE)

    @property
    def links(self) -> Links:
        """The links of the net to the devices with its other parts."""
        assert self.context.links is not None, "a part of a net runs with links"
        return self.context.links


class Send(PartLayer):
    """Sends its bottom to a later stage; backward receives its gradient from there.

    The bottom is sent from its own memory, which the compiler keeps until the backward step; without one, from a copy
    that stays until the next pass. tag: of the forward message; the backward message has the next one. gradient: a
    reader at the peer computes one.
    """

    type = "Send"
    verb = "sent"
    tops = (0, 0)

    def __init__(self, value: Value, phase: int, peer: Peer, tag: int, gradient: bool, shape: Shape):
        super().__init__(value, phase)
        self.peer, self.tag, self.gradient = peer, tag, gradient
        self.backward_reads_bottoms = gradient
        if not gradient:
            self.saved_shapes[SENT] = (shape, None)

    def build(self, dev: Device) -> None:
        self._pending: Pending | None = None

    def forward(self, x: list[Any], y: list[Any]) -> None:
        array = x[0]
        if not self.gradient:
            if self._pending:
                self._pending.wait()
            array = self.saved[SENT]
            self.dev.copy(x[0], array)
        self._pending = self.links.send(array, self.peer, self.tag)

    def backward(self, x: list[Any], y: list[Any], dy: list[Any], dx: list[Any]) -> None:
        self.links.receive(dx[0], self.peer, self.tag + 1)
        if self._pending:
            self._pending.wait()
            self._pending = None


class Receive(PartLayer):
    """Receives a value from an earlier stage; backward sends its gradient there, from a copy that stays until the next
    pass. tag, gradient: as of the ``Send``."""

    type = "Receive"
    verb = "received"
    bottoms = (0, 0)

    def __init__(self, value: Value, phase: int, peer: Peer, tag: int, gradient: bool, shape: Shape):
        super().__init__(value, phase)
        self.peer, self.tag = peer, tag
        if gradient:
            self.saved_shapes[SENT] = (shape, None)

    def build(self, dev: Device) -> None:
        self._pending: Pending | None = None

    def forward(self, x: list[Any], y: list[Any]) -> None:
        self.links.receive(y[0], self.peer, self.tag)

    def backward(self, x: list[Any], y: list[Any], dy: list[Any], dx: list[Any]) -> None:
        if self._pending:
            self._pending.wait()
        self.dev.copy(dy[0], self.saved[SENT])
        self._pending = self.links.send(self.saved[SENT], self.peer, self.tag + 1)


class Along(ImageLayout, PartLayer):
    """A layer between a value of shape ``whole`` and the shard of it that this device, ``shard`` of ``shards``, has
    along ``axis``."""

    def __init__(self, value: Value, phase: int, whole: Shape, axis: int, shard: int, shards: int):
        super().__init__(value, phase)
        self.whole, self.divided, self.shard, self.shards = whole, axis, shard, shards
        self.follows_layout = len(whole) == 4 and axis < 2

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows of the whole value as it is stored, and how many numbers of each row are in a shard."""
        before = math.prod(self.whole[: self.divided])
        size = self.whole[self.divided]
        behind = math.prod(self.whole[self.divided + 1 :])
        if self.channels_last and self.divided:
            return before * behind, size // self.shards
        return before, size * behind // self.shards

    def gather(self, shard: Any, whole: Any) -> None:
        """whole = the shards of all devices."""
        rows, width = self.sizes
        if rows == 1:
            self.links.all_gather(shard, whole.reshape(self.shards, width))
            return
        shards = self.dev.workspace(whole.size).reshape(self.shards, rows, width)
        self.links.all_gather(shard, shards)
        for i in range(self.shards):
            self.dev.copy_into(shards[i], whole.reshape(rows, -1), i * width)

    def cut(self, whole: Any, shard: Any) -> None:
        """shard = this device's shard of whole."""
        rows, width = self.sizes
        if rows == 1:
            self.dev.copy(whole.reshape(self.shards, width)[self.shard], shard.reshape(width))
        else:
            self.dev.copy_out(whole.reshape(rows, -1), self.shard * width, shard.reshape(rows, width))

    def sum_shards(self, whole: Any, shard: Any) -> None:
        """shard = this device's shard of the sum of all devices' wholes."""
        rows, width = self.sizes
        if rows == 1:
            self.links.reduce_scatter(whole.reshape(self.shards, width), shard)
            return
        shards = self.dev.workspace(whole.size).reshape(self.shards, rows, width)
        for i in range(self.shards):
            self.dev.copy_out(whole.reshape(rows, -1), i * width, shards[i])
        self.links.reduce_scatter(shards, shard)


class AllGather(Along):
    """The whole value from its shards. partial: the devices have different gradients of it, which sum to the
    value's."""

    type = "AllGather"
    verb = "gathered"

    def __init__(self, value: Value, phase: int, whole: Shape, axis: int, shard: int, shards: int, partial: bool):
        super().__init__(value, phase, whole, axis, shard, shards)
        self.partial = partial

    def forward(self, x: list[Any], y: list[Any]) -> None:
        self.gather(x[0], y[0])

    def backward(self, x: list[Any], y: list[Any], dy: list[Any], dx: list[Any]) -> None:
        if self.partial:
            self.sum_shards(dy[0], dx[0])
        else:
            self.cut(dy[0], dx[0])


class ShardSlice(Along):
    """This device's shard of a value that all devices have; backward gathers the gradients of the shards."""

    type = "ShardSlice"
    verb = "part"

    def forward(self, x: list[Any], y: list[Any]) -> None:
        self.cut(x[0], y[0])

    def backward(self, x: list[Any], y: list[Any], dy: list[Any], dx: list[Any]) -> None:
        self.gather(dy[0], dx[0])


class SumGradients(ImageLayout, PartLayer):
    """A value before layers that divide their outputs: each device has a shard of its gradient, which backward sums."""

    type = "SumGradients"
    verb = "summed"
    view = follows_layout = True

    def forward(self, x: list[Any], y: list[Any]) -> None:
        pass

    def backward(self, x: list[Any], y: list[Any], dy: list[Any], dx: list[Any]) -> None:
        if dx[0] is not dy[0]:
            self.dev.copy(dy[0], dx[0])
        self.links.all_reduce(dx[0])
