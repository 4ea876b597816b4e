"""Transfer layers: send and receive a value between two stages. `partition` inserts them."""

from __future__ import annotations

from typing import Any

from ... import caffelite_pb2 as pb
from ...devices.links import Links, Peer, Pending
from ...devices.protocol import Device
from ...errors import NOWHERE
from ...layers import Layer, Shape
from ...layers.config import SENT
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
