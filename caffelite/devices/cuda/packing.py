"""The weights of a net's convolutions in the order and dtype of cuDNN's plans, and their gradients in Caffe's: all of
them are converted in one launch a pass."""

import contextlib
import operator
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..types import Array
from .kernels import BLOCK, Kernels

TILE = 2048  # weights that a block converts at once


class Member(NamedTuple):
    """Weights w (M, C, P), P = 1 where their order stays, their gradients or a bias, and where they are packed."""

    w: Array
    packed: Array
    c: int
    p: int


class Conversions:
    """The members of a net, by convolution, that a pass converts by one launch for each dtype unless some are new."""

    def __init__(self, device: Kernels, kernel: str):
        self._device, self._kernel = device, kernel
        self._members: weakref.WeakKeyDictionary[Any, list[Member]] = weakref.WeakKeyDictionary()
        self._known: list[Member] = []  # those of the tables
        self._launches: list[tuple[Any, tuple]] = []  # of each dtype: kernel, arguments
        self.complete = False  # whether the pass that runs has all members in the tables

    def has(self, convolution: Any, members: list[Member]) -> bool:
        """Whether the pass that runs converts these; if not, the convolution does it, and later passes do."""
        known = self._members.get(convolution, [])
        pairs = zip(known, members, strict=False)
        if len(known) != len(members) or any(a.w is not b.w or a.packed is not b.packed for a, b in pairs):
            self._members[convolution] = members
            return False
        return self.complete and any(known[0] is one for one in self._known)

    def forget(self, convolution: Any) -> None:
        self._members.pop(convolution, None)

    @property
    def convolutions(self) -> int:
        return len(self._members)

    def launch(self, *more: Any) -> None:
        for launch, arguments in self._launches if self.complete else ():
            launch(*arguments, *more)

    @contextlib.contextmanager
    def in_pass(self) -> Iterator[None]:
        self.complete = self._is_complete()
        try:
            yield
        finally:
            self.complete = False
        if not (self._is_complete() or self._device.capturing):
            self._make_tables()

    def _is_complete(self) -> bool:
        """Whether the tables have all members, and no others."""
        members = self._all()
        return len(members) == len(self._known) and all(map(operator.is_, members, self._known))

    def _all(self) -> list[Member]:
        return [member for of_one in self._members.values() for member in of_one]

    def _make_tables(self) -> None:
        if self._launches:
            self._device.generation += 1  # graphs read the old tables
        members, self._launches = self._all(), []
        self._known = members
        for dtype in dict.fromkeys(member.packed.dtype for member in members):
            mine = [member for member in members if member.packed.dtype == dtype]
            first, rows = max(mine, key=lambda member: member.w.size), []
            for w, packed, c, p in mine:
                away = self._apart(w, first.w), self._apart(packed, first.packed)
                rows += [(*away, c, p, at, min(at + TILE, w.size)) for at in range(0, w.size, TILE)]
            table = self._device.uploaded(np.array(rows))
            launch = self._device.kernel("weights", self._kernel, len(rows) * BLOCK, len(rows))
            self._launches.append((launch, (first.w, first.packed, table)))

    def _apart(self, array: Array, other: Array) -> int:
        """The distance of two arrays, in numbers."""
        address = self._device.backend.address
        return (address(array) - address(other)) // array.dtype.itemsize


class Packing:
    """Converts weights at the start of a net's forward passes, and their gradients at the end of its backward
    passes."""

    def __init__(self, device: Kernels):
        self.weights, self._gradients = Conversions(device, "pack_all"), Conversions(device, "unpack_all")
        self._several: weakref.WeakSet[Any] = weakref.WeakSet()  # convolutions that have several gradients in a pass
        self._had: set[Any] = set()  # convolutions that have had a gradient in the pass that runs
        self._waiting: list[tuple[Any, Member]] = []
        self._add: bool | None = None  # of the backward pass that runs

    @contextlib.contextmanager
    def forward_pass(self) -> Iterator[None]:
        with self.weights.in_pass():
            self.weights.launch()
            yield

    @contextlib.contextmanager
    def backward_pass(self, add: bool) -> Iterator[None]:
        self._add, self._had, self._waiting = add, set(), []
        try:
            with self._gradients.in_pass():
                yield
                if len(self._waiting) == self._gradients.convolutions:
                    self._gradients.launch(add)
                else:
                    for convolution, member in self._waiting:
                        convolution.unpack(member.packed, member.w, add)
        finally:
            self._add, self._had, self._waiting = None, set(), []

    def may_wait(self, convolution: Any, add: bool) -> bool:
        """Whether gradients of a convolution's weights may be packed until the end of the backward pass that runs."""
        if convolution in self._had:
            self._several.add(convolution)
            self._gradients.forget(convolution)
        self._had.add(convolution)
        return add is self._add and convolution not in self._several

    def waits(self, convolution: Any, gradients: Member) -> bool:
        """Whether the end of the pass unpacks these; else the convolution does it now."""
        if not self._gradients.has(convolution, [gradients]):
            return False
        self._waiting.append((convolution, gradients))
        return True
