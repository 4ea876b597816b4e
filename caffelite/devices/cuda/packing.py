"""The weights of a net's convolutions in the order and dtype of cuDNN's plans, converted in one launch a pass."""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..interfaces import Array
from .kernels import BLOCK, Kernels

TILE = 2048  # weights that a block converts at once


class Member(NamedTuple):
    """Weights w (M, C, P), P = 1 where their order stays, or a bias, and where they are packed."""

    w: Array
    packed: Array
    c: int
    p: int


class Packing:
    """The members of a net: weights that each forward pass packs in the same memory. Inside ``begun`` all of them are
    packed, unless some are new; nothing may write weights there."""

    def __init__(self, device: Kernels):
        self._device = device
        # By convolution.
        self._members: weakref.WeakKeyDictionary[Any, list[Member]] = weakref.WeakKeyDictionary()
        self._known: list[Member] = []  # those of the tables
        self._launches: list[tuple[Any, tuple]] = []  # of each dtype: kernel, arguments
        self._packed = False

    def has(self, convolution: Any, members: list[Member]) -> bool:
        """Whether these are packed now; if not, the convolution does it, and from the next pass on they are."""
        known = self._members.get(convolution, [])
        if len(known) != len(members) or any(
            a.w is not b.w or a.packed is not b.packed for a, b in zip(known, members, strict=True)
        ):
            self._members[convolution] = members
            return False
        return self._packed and any(known[0] is one for one in self._known)

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """A forward pass."""
        self._packed = self._complete()
        for launch, arguments in self._launches if self._packed else ():
            launch(*arguments)
        try:
            yield
        finally:
            self._packed = False
        if not (self._complete() or self._device.capturing):
            self._make_tables()

    def _complete(self) -> bool:
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
            first, rows = mine[0], []
            for w, packed, c, p in mine:
                away = self._apart(w, first.w), self._apart(packed, first.packed)
                rows += [(*away, c, p, at, min(at + TILE, w.size)) for at in range(0, w.size, TILE)]
            table, size = self._device.empty((len(rows), 6), np.int64), max(member.w.size for member in mine)
            self._device.upload(table, np.array(rows))
            launch = self._device.kernel("weights", "pack_all", len(rows) * BLOCK, len(rows), size=size)
            self._launches.append((launch, (first.w, first.packed, table)))

    def _apart(self, array: Array, other: Array) -> int:
        """The distance of two arrays, in numbers."""
        address = self._device.backend.address
        return (address(array) - address(other)) // array.dtype.itemsize
