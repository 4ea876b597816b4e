"""Assigns storages to blobs and to what layers save: which blobs share one, and until when each is in use."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

from ..layers import GRADIENT
from ..layers.config import SENT
from ..layers.state import saved_blobs
from .nodes import Node, Value
from .packing import Storage, aligned
from .slices import Slice, Slices
from .steps import Lifetimes, Step


class Storages:
    """All storages of the arena. itemsize: bytes of a number by its dtype."""

    def __init__(self, itemsize: Callable[[str | None], int]):
        self.itemsize = itemsize
        self.all: list[Storage] = []

    def size(self, value: Value) -> int:
        """Bytes of a value."""
        return math.prod(value.shape) * self.itemsize(value.dtype)

    def new(self, count: int, time: int) -> Storage:
        """A storage of ``count`` bytes or a few more, first used at ``time``."""
        storage = Storage(aligned(count), time, time)
        self.all.append(storage)
        return storage


class DataMemory:
    """The storages of blobs (``data``, with ``slices`` of those stored in a wider one) and of what layers save
    (``saved``). constant_gradients: losses with gradients that never change."""

    def __init__(
        self,
        storages: Storages,
        lifetimes: Lifetimes,
        in_tops: Slices,
        filled_once: set[Value],
        constant_gradients: set[Value],
    ):
        self.storages, self.lifetimes, self.in_tops = storages, lifetimes, in_tops
        self.filled_once, self.constant_gradients = filled_once, constant_gradients
        self.data: dict[Value, Storage] = {}
        self.slices: dict[Value, Slice] = {}
        self.saved: dict[Node, dict[str, Storage]] = {}
        self.refused_in_place: list[str] = []
        self._stored: dict[Storage, list[Value]] = defaultdict(list)  # values in it that may still be read
        self._joint: dict[Value, Storage] = {}  # of concatenations that store one of their bottoms already

    def store_tops(self, step: Step) -> None:
        """Gives the tops of a forward step, and what its layers compute in between, their storages."""
        node, lifetimes = step.node, self.lifetimes
        for i, top in enumerate(step.tops):
            whole, region = self.in_tops.get(top, (top, None))
            storage = self._joint.get(whole)
            if storage is None and region is None and (node.layer.in_place or not step.fused):
                storage = self._of_bottom(node, i, top)
            if storage is None:
                storage = self.storages.new(self.storages.size(whole), node.index)
            within = [member.tops[0] for member in (node, *step.fused[:-1])] if step.fused else []
            if region:
                self._joint[whole] = storage
                self.slices |= dict.fromkeys((top, *within), region)
            self._store(top, storage.use(0 if lifetimes.keep or top in self.filled_once else node.index))
            storage.use(min(lifetimes.last_read(top), lifetimes.span))
            for value in within:
                self._store(value, storage)

    def store_saved(self, node: Node, fuse: bool) -> None:
        """Assigns storages to the blobs that a layer saves. Among them is a gradient that forward can compute already
        only where that never changes."""
        self.saved[node] = {}
        for name, (shape, dtype) in saved_blobs(node.layer).items():
            if name == GRADIENT and not (fuse and self._gradient_is_constant(node)):
                continue
            size = math.prod(shape) * self.storages.itemsize(dtype)
            storage = self.saved[node][name] = self.storages.new(size, node.index)
            if name == SENT or (self.lifetimes.keep and node.backward):
                storage.use(0).use(self.lifetimes.span)
            elif node.backward:
                storage.use(self.lifetimes.backward_time(node))

    def _gradient_is_constant(self, node: Node) -> bool:
        return node.backward and node.gradient_to[0] and node.tops[0] in self.constant_gradients

    def _store(self, value: Value, storage: Storage) -> None:
        self.data[value] = storage
        self._stored[storage].append(value)

    def _of_bottom(self, node: Node, i: int, top: Value) -> Storage | None:
        """The bottom's storage, where the top can be stored there. In-place is a request that may be refused, and
        of the first top alone: another one is not computed from the bottom of its number."""
        if i >= len(node.bottoms):
            return None
        bottom = node.bottoms[i]
        storage = self.data[bottom]
        if node.layer.view:
            return storage
        if i or not node.layer.in_place or self.lifetimes.keep or self.storages.size(bottom) != self.storages.size(top):
            return None
        # Views share a storage, so no value in it may still be read, not only the bottom. Values once done stay done.
        last_read = self.lifetimes.last_read
        self._stored[storage] = [v for v in self._stored[storage] if last_read(v) >= node.index]
        if all(self._unread_after(v, node) for v in self._stored[storage]):
            return storage
        if bottom.name == top.name:
            self.refused_in_place.append(node.name)
        return None

    def _unread_after(self, value: Value, node: Node) -> bool:
        """Whether no step reads a value's data after ``node`` has run forward."""
        last = self.lifetimes.last_read(value)
        return last < node.index or (last == node.index and self.lifetimes.read_until(value, node) < node.index)
