"""Packing of an arena: each storage gets the lowest free offset, in a time that grows little faster than the number of
storages.

The storages that have an offset are kept in a tree, ordered by offset. A branch caches which of its storages were alive
in the last search, and the largest gap between them. A later search, at a time at which the same storages are alive (as
for most branches), skips the branch in one step if no gap is large enough.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from .sealing import Sealable

ALIGN = 64  # bytes: a cache line, and what a GPU reads at once
MOST = 32  # parts of a branch
NEVER = 1 << 62


@dataclass(eq=False)
class Storage(Sealable):
    """Bytes that are in use from time ``first`` to ``last``. ``offset``: in the arena, or where ``constant`` (a
    gradient that never changes) among the constants."""

    bytes: int
    first: int
    last: int
    offset: int = -1
    constant: bool = False

    def use(self, time: int) -> Storage:
        self.first, self.last = min(self.first, time), max(self.last, time)
        return self


def aligned(count: int) -> int:
    return -(-max(count, 1) // ALIGN) * ALIGN


def pack(storages: Iterable[Storage]) -> int:
    """Gives each storage the lowest offset that no storage alive at the same time covers, large ones first; returns the
    arena's bytes."""
    root, total = _Branch(True), 0
    for storage in sorted(storages, key=lambda s: -s.bytes):
        storage.offset = _lowest(root, storage.first, storage.last, storage.bytes)
        total = max(total, storage.offset + storage.bytes)
        if half := root.insert(storage):
            root = _Branch(False, [root, half])
    return total


_place = attrgetter("offset", "first")  # those at one offset in the order of time, so that branches are alive for short
_low = attrgetter("low")


class _View(NamedTuple):
    """What is alive in a branch from time ``first`` to ``last``, for all (first, last) between (after, until) and
    (since, before), bounds included. low and end: of the bytes; gap: the largest between two of its storages."""

    after: int
    since: int
    until: int
    before: int
    low: int
    end: int
    gap: int


class _Branch:
    """Storages (of a leaf) or branches in the order of `_place`. low: the least `_place`; end: where the last of their
    bytes ends."""

    __slots__ = ("leaf", "parts", "low", "end", "view")

    def __init__(self, leaf: bool, parts: list | None = None):
        self.leaf, self.parts = leaf, parts or []
        self.view: _View | None = None
        self.measure()

    def measure(self) -> None:
        parts = self.parts
        self.view = None
        if self.leaf:
            self.low = _place(parts[0]) if parts else (NEVER, 0)
            self.end = max((p.offset + p.bytes for p in parts), default=0)
        else:
            self.low, self.end = parts[0].low, max(p.end for p in parts)

    def insert(self, storage: Storage) -> _Branch | None:
        """Inserts a storage; returns the upper half where the branch had to be split."""
        self.low = min(self.low, _place(storage))
        self.end = max(self.end, storage.offset + storage.bytes)
        self.view = None
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

    def alive(self, first: int, last: int) -> _View:
        """What of the branch is alive from ``first`` to ``last``. It calls itself as often as the tree is high."""
        view = self.view
        if view is None or not (view.after <= first <= view.until and view.since <= last <= view.before):
            view = self.view = self._look(first, last)
        return view

    def _look(self, first: int, last: int) -> _View:  # comparisons in place of max() and min(): this is the inner loop
        after, since, until, before, low, end, gap = -NEVER, -NEVER, NEVER, NEVER, NEVER, 0, 0
        leaf = self.leaf
        for part in self.parts:
            if leaf:
                start, stop, inner = part.offset, part.offset + part.bytes, 0
                if part.last < first:
                    after, stop = max(after, part.last + 1), 0
                elif part.first > last:
                    before, stop = min(before, part.first - 1), 0
                else:
                    since = part.first if part.first > since else since
                    until = part.last if part.last < until else until
            else:
                view = part.view
                if view is None or not (view[0] <= first <= view[2] and view[1] <= last <= view[3]):
                    view = part.alive(first, last)
                a, b, c, d, start, stop, inner = view
                after = a if a > after else after
                since = b if b > since else since
                until = c if c < until else until
                before = d if d < before else before
            if not stop:  # no storage of it is alive
                continue
            if not end:
                low, gap = start, inner
            else:
                inner = start - end if start - end > inner else inner
                gap = inner if inner > gap else gap
            end = stop if stop > end else end
        return _View(after, since, until, before, low, end, gap)


def _lowest(root: _Branch, first: int, last: int, size: int) -> int:
    """The lowest offset where ``size`` bytes are free from time ``first`` to ``last``."""
    offset, stack = 0, [iter(root.parts if not root.leaf else (root,))]
    while stack:
        for branch in stack[-1]:
            if branch.low[0] - offset >= size:
                return offset
            if branch.end <= offset:
                continue
            view = branch.alive(first, last)
            if view.end <= offset:
                continue
            if view.low - offset >= size:
                return offset
            if view.gap < size:
                offset = view.end
                continue
            if not branch.leaf:
                stack.append(iter(branch.parts))
                break
            for other in branch.parts:
                if other.first <= last and first <= other.last:
                    if other.offset - offset >= size:
                        return offset
                    offset = max(offset, other.offset + other.bytes)
        else:
            stack.pop()
    return offset
