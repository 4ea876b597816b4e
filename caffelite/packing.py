"""Packing of an arena: each storage gets the lowest free offset, in a time that grows little faster than the number of storages.

The storages that have an offset are kept in a tree, ordered by offset. A branch knows when its storages are alive and how large its largest
gap can be. So a search passes over a branch in one step where all of it is alive with the storage and no gap is large enough, and where
none of it is.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

ALIGN = 64  # bytes: a cache line, and what a GPU reads at once
MOST = 32  # parts of a branch
NEVER = 1 << 62


@dataclass(eq=False)
class Storage:
    """Bytes with a lifetime; ``offset`` in the arena, -1 for a constant (a gradient that never changes), which lies outside."""

    bytes: int
    first: int
    last: int
    offset: int = -1

    def use(self, time: int) -> Storage:
        self.first, self.last = min(self.first, time), max(self.last, time)
        return self


def aligned(count: int) -> int:
    return -(-max(count, 1) // ALIGN) * ALIGN


def pack(storages: Iterable[Storage]) -> int:
    """Gives each storage the lowest offset that no storage alive at the same time covers, large ones first; returns the arena's bytes."""
    root, total = _Branch(True), 0
    for storage in sorted(storages, key=lambda s: -s.bytes):
        storage.offset = _lowest(root, storage.first, storage.last, storage.bytes)
        total = max(total, storage.offset + storage.bytes)
        if half := root.insert(storage):
            root = _Branch(False, [root, half])
    return total


_place = attrgetter("offset", "first")  # those at one offset in the order of time, so that branches are alive for short
_low = attrgetter("low")


class _Branch:
    """Storages (of a leaf) or branches in the order of `_place`.

    low: the least `_place`; end: where the last of their bytes ends; first and last: (least, greatest) times; gap: no gap between two of
    them, all taken together, is larger. It may be larger than all where ``loose``.
    """

    __slots__ = ("leaf", "parts", "low", "end", "first", "last", "gap", "loose")

    def __init__(self, leaf: bool, parts: list | None = None):
        self.leaf, self.parts = leaf, parts or []
        self.measure()

    def measure(self) -> None:
        parts = self.parts
        self.low, self.end, self.gap, self.loose = (NEVER, 0), 0, 0, True
        self.first, self.last = (NEVER, -NEVER), (NEVER, -NEVER)
        if self.leaf:
            for storage in parts:
                self._cover(storage)
        elif parts:
            self.low, self.end = parts[0].low, max(p.end for p in parts)
            self.first, self.last = (
                (min(t[0] for t in times), max(t[1] for t in times)) for times in zip(*((p.first, p.last) for p in parts), strict=True)
            )
        self.tighten()

    def tighten(self) -> None:
        """Makes ``gap`` exact, those of its parts too."""
        gap, end, leaf = 0, self.low[0], self.leaf
        for part in self.parts:
            if not leaf and part.loose:
                part.tighten()
            low = part.offset if leaf else part.low[0]
            gap = max(gap, low - end, 0 if leaf else part.gap)
            end = max(end, low + part.bytes if leaf else part.end)
        self.gap, self.loose = gap, False

    def _cover(self, storage: Storage) -> None:
        """Widens what is known by one more storage, whatever lies between."""
        place, end = (storage.offset, storage.first), storage.offset + storage.bytes
        if self.parts and self.low[0] < NEVER:
            self.gap = max(self.gap, storage.offset - self.end, self.low[0] - end)
        self.low, self.end, self.loose = min(self.low, place), max(self.end, end), True
        (a, b), (c, d) = self.first, self.last
        self.first = min(a, storage.first), max(b, storage.first)
        self.last = min(c, storage.last), max(d, storage.last)

    def insert(self, storage: Storage) -> _Branch | None:
        """Puts a storage in its place; returns the upper half where the branch had to be split."""
        self._cover(storage)
        parts = self.parts
        if self.leaf:
            insort(parts, storage, key=_place)
        else:
            at = max(bisect_right(parts, _place(storage), key=_low) - 1, 0)
            if half := parts[at].insert(storage):
                parts.insert(at + 1, half)
        if len(parts) <= MOST:
            return None
        half = _Branch(self.leaf, parts[MOST // 2 :])
        del parts[MOST // 2 :]
        self.measure()
        return half


def _lowest(root: _Branch, first: int, last: int, size: int) -> int:
    """The lowest offset where ``size`` bytes are free from time ``first`` to ``last``."""
    offset, stack = 0, [iter((root,))]
    while stack:
        for branch in stack[-1]:
            if branch.low[0] - offset >= size:
                return offset
            if branch.end <= offset or branch.first[0] > last or branch.last[1] < first:
                continue
            if branch.first[1] <= last and branch.last[0] >= first:  # all of it is alive then
                if branch.gap >= size and branch.loose:
                    branch.tighten()
                if branch.gap < size:
                    offset = branch.end
                    continue
            if not branch.leaf:
                stack.append(iter(branch.parts))
                break
            for other in branch.parts:
                if other.first <= last and first <= other.last:
                    if other.offset - offset >= size:
                        return offset
                    end = other.offset + other.bytes
                    if end > offset:
                        offset = end
        else:
            stack.pop()
    return offset
