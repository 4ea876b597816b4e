"""Layers that convert a value between its whole and its shards on the devices of a stage. `partition` inserts them."""

from __future__ import annotations

import math
from typing import Any

from ...layers import Shape
from ...layers.image_layout import ImageLayout
from ..nodes import Value
from .transfers import PartLayer


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
        before, size, behind = (
            math.prod(self.whole[: self.divided]),
            self.whole[self.divided],
            math.prod(self.whole[self.divided + 1 :]),
        )
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
