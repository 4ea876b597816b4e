"""Reads the pages of an LMDB from its file and checks every number, instead of using a memory map.

With a memory map, a damaged or missing page kills the process; a file read only returns fewer bytes. The format: data
version 1 of LMDB, little endian. A page has a header of 16 bytes: its number (8), padding (2), flags (2), and either
the offsets of the end of the node list and of the first node (2 and 2), or the number of pages of an overflow value
(4).
"""

from __future__ import annotations

import functools
import os
import struct
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import inputs

_BRANCH, _LEAF, _OVERFLOW, _META, _KINDS = 1, 2, 4, 8, 0x6F  # flags of a page; KINDS: those of its type
_BIG, _SUBDATA, _DUPLICATES = 1, 2, 4  # flags of a node
_HEADER, _NODE = struct.Struct("<QHHHH"), struct.Struct("<HHHH")
# From byte 16: magic, version; the records' tree: flags, depth, branch, leaf and overflow pages, records, root; last
# page, transaction
_META_BODY = struct.Struct("<II16x48x4xHHQQQQQQQ")
_MAGIC, _VERSION, _NO_PAGE = 0xBEEFC0DE, 1, (1 << 64) - 1
_MOST_DEPTH = 32  # LMDB's own limit
_START = 16  # of what follows a page's header
_META_BYTES = _START + _META_BODY.size


class Damaged(ValueError):
    """The file is no LMDB, or a damaged one; the text states the position."""


class Changed(ValueError):
    """A writer has changed the database so that what is read may no longer belong together."""


class Meta(NamedTuple):
    """The content of a meta page: the database after one transaction. pages: of the file; sizes in bytes."""

    transaction: int
    entries: int
    depth: int
    root: int
    pages: int
    leaves: int
    page_bytes: int


class Pages:
    """An LMDB's records in the order of their keys, as one transaction left them.

    transaction: which one, of the two that the file knows; None: the last. Errors: OSError; Damaged: also where the
    file is shorter than its meta page says.
    """

    def __init__(self, path: Path, transaction: int | None = None):
        self._file = inputs.open_descriptor(path)
        self.close = weakref.finalize(self, os.close, self._file)  # a net that is not closed leaves no file open
        try:
            self._size = os.fstat(self._file).st_size
            metas = self._metas()
            self.meta = max(metas, key=lambda meta: meta.transaction)
            if transaction is not None:
                known = {meta.transaction: meta for meta in metas}
                if transaction not in known:
                    raise Changed(f"transaction {transaction} was overwritten")
                self.meta = known[transaction]
            self.entries = self.meta.entries
            self._checked_metas = b""  # both meta pages as check_unchanged last found them
            self._check_sizes()
        except BaseException:
            self.close()
            raise

    def check_unchanged(self, retained: bool) -> None:
        """Raises Changed where the pages that were read so far may hold what a later transaction wrote.

        retained: a reader's lock keeps our transaction's pages. Without it they may be used again from the second
        transaction after ours on.
        """
        metas = b"".join(os.pread(self._file, _META_BYTES, at) for at in (0, self.meta.page_bytes))
        if metas == self._checked_metas:
            return
        now = max(meta.transaction for meta in self._metas())
        if now < self.meta.transaction or now > self.meta.transaction + 1 and not retained:
            raise Changed("another program writes to it")
        self._checked_metas = metas

    def index(self) -> np.ndarray:
        """For each record its page and the place of its node there, N×2 of int64: what `record` takes."""
        parts = []
        for number, _ in self._leaves():
            offsets = self._page(number, _LEAF)[1]
            parts.append(np.column_stack([np.full(len(offsets), number), offsets]))
        return np.concatenate(parts).astype(np.int64) if parts else np.empty((0, 2), np.int64)

    def walk(self, start: int = 0) -> Iterator[Callable[[], tuple[bytes, bytes]]]:
        """The records from one on, each read when it is called: of a leaf page with none of these only the header is
        read, of the others each value that is called for."""
        for number, count in self._leaves():
            leaf = functools.cache(functools.partial(self._page, number, _LEAF))
            for index in range(start, count):
                yield functools.partial(self._nth, number, leaf, index)
            start = max(0, start - count)

    def _nth(self, number: int, leaf: Callable[[], tuple[bytes, tuple[int, ...]]], index: int) -> tuple[bytes, bytes]:
        page, offsets = leaf()
        if index >= len(offsets):
            raise Damaged(f"page {number} has other than the nodes that it had")
        return self._record(number, page, offsets[index])

    def record(self, number: int, offset: int) -> tuple[bytes, bytes]:
        """The key and the value of a node, by a row of `index`: no more of its page than the node is read."""
        lower, _ = self._header(number, _LEAF)
        at, most = number * self.meta.page_bytes, self.meta.page_bytes
        if not lower <= offset <= most - 8:
            raise Damaged(f"page {number} has no node at {offset}")
        low, high, flags, key_bytes = _NODE.unpack(self._read(8, at + offset))
        size = 8 + key_bytes + (8 if flags & _BIG else low | high << 16)
        node = self._read(min(size, most - offset), at + offset)
        return self._record(number, bytes(offset) + node, offset)

    # pages

    def _read(self, count: int, at: int) -> bytes:
        data = os.pread(self._file, count, at)
        while 0 < len(data) < count and (more := os.pread(self._file, count - len(data), at + len(data))):
            data += more
        if len(data) != count:
            raise Damaged(f"it ends at byte {at + len(data)}, where {count} bytes from {at} on are expected")
        return data

    def _metas(self) -> list[Meta]:
        first = self._meta(0, 0)
        return [first, self._meta(1, first.page_bytes)]

    def _meta(self, number: int, at: int) -> Meta:
        data = self._read(_META_BYTES, at)
        flags = _HEADER.unpack_from(data)[2]
        page_bytes = int.from_bytes(data[40:44], "little")  # which the tree of free pages has in place of padding
        magic, version, tree, depth, _, leaves, _, entries, root, last, transaction = _META_BODY.unpack_from(
            data, _START
        )
        if magic != _MAGIC or flags & _KINDS != _META:
            raise Damaged("it is not an LMDB")
        if version != _VERSION:
            raise Damaged(f"it is an LMDB of format {version}, where {_VERSION} is expected")
        if page_bytes < 256 or page_bytes > 1 << 15 or page_bytes & (page_bytes - 1):
            raise Damaged(f"meta page {number} states a page size of {page_bytes} bytes")
        if tree & _DUPLICATES:
            raise Damaged("it holds several values for a key, which no set of images does")
        return Meta(transaction, entries, depth, root, last + 1, leaves, page_bytes)

    def _check_sizes(self) -> None:
        meta = self.meta
        if self._size < meta.pages * meta.page_bytes:
            raise Truncated(meta.pages * meta.page_bytes, self._size)
        if not meta.entries and meta.root == _NO_PAGE:
            return
        most = meta.leaves * (meta.page_bytes // 8)  # a node has 8 bytes and its place 2
        if not 0 < meta.depth <= _MOST_DEPTH or meta.leaves > meta.pages or meta.entries > most:
            raise Damaged(
                f"it declares {meta.entries} records on {meta.leaves} of {meta.pages} pages, {meta.depth} levels deep"
            )

    def _header(self, number: int, kind: int, page: bytes | None = None) -> tuple[int, int]:
        """Where the list of nodes of a page ends and where its nodes begin. page: None: only its header is read."""
        if not 1 < number < self.meta.pages:
            raise Damaged(f"it names page {number} of {self.meta.pages}")
        most = self.meta.page_bytes
        stated, _, flags, lower, upper = _HEADER.unpack_from(page or self._read(_START, number * most))
        if stated != number or flags & _KINDS != kind:
            raise Damaged(f"page {number} is not what it should be (number {stated}, kind {flags:#x})")
        if lower < _START or lower > upper or upper > most or lower & 1:
            raise Damaged(
                f"page {number} states that its nodes start at {upper}, and that their offsets end at {lower}"
            )
        return lower, upper

    def _page(self, number: int, kind: int) -> tuple[bytes, tuple[int, ...]]:
        """A page and the places of its nodes."""
        if not 1 < number < self.meta.pages:
            raise Damaged(f"it names page {number} of {self.meta.pages}")
        page = self._read(self.meta.page_bytes, number * self.meta.page_bytes)
        lower, upper = self._header(number, kind, page)
        offsets = struct.unpack_from(f"<{(lower - _START) // 2}H", page, _START)
        if not offsets or min(offsets) < upper or max(offsets) + 8 > len(page):
            raise Damaged(f"page {number} has a node outside it")
        return page, offsets

    def _leaves(self) -> Iterator[tuple[int, int]]:
        """Each leaf's page and how many nodes it has, in the order of the keys; of leaves the headers are read."""
        seen, total, waiting = set(), 0, [(self.meta.root, 1)] if self.meta.entries else []
        while waiting:
            number, level = waiting.pop()
            if number in seen:
                raise Damaged(f"page {number} belongs to two others")
            seen.add(number)
            if level == self.meta.depth:
                count = (self._header(number, _LEAF)[0] - _START) // 2
                total += count
                if total > self.meta.entries:
                    break
                yield number, count
                continue
            page, offsets = self._page(number, _BRANCH)
            nodes = [_NODE.unpack_from(page, offset) for offset in offsets]
            waiting += [(low | high << 16 | more << 32, level + 1) for low, high, more, _ in reversed(nodes)]
        if total != self.meta.entries:
            raise Damaged(f"it has other than the {self.meta.entries} records that it says")

    def _record(self, number: int, page: bytes, offset: int) -> tuple[bytes, bytes]:
        if not _START <= offset <= len(page) - 8:
            raise Damaged(f"page {number} has no node at {offset}")
        low, high, flags, key_bytes = _NODE.unpack_from(page, offset)
        size, at = low | high << 16, offset + 8 + key_bytes
        end = at + (8 if flags & _BIG else size)
        if end > len(page) or flags & (_SUBDATA | _DUPLICATES):
            raise Damaged(f"page {number} has a record that is none")
        key = page[offset + 8 : at]
        return key, self._overflow(int.from_bytes(page[at:end], "little"), size) if flags & _BIG else page[at:end]

    def _overflow(self, number: int, size: int) -> bytes:
        """A value stored in overflow pages."""
        each = self.meta.page_bytes
        if not 1 < number < self.meta.pages or number * each + _START + size > self.meta.pages * each:
            raise Damaged(f"a value of {size} bytes is on page {number} of {self.meta.pages}")
        stated, _, flags, low, high = _HEADER.unpack(self._read(_START, number * each))
        if stated != number or flags & _KINDS != _OVERFLOW or (low | high << 16) * each < _START + size:
            raise Damaged(f"page {number} is not what it should be (number {stated}, kind {flags:#x})")
        return self._read(size, number * each + _START)


class Truncated(Damaged):
    """The file is shorter than its meta page says. expected, found: in bytes."""

    def __init__(self, expected: int, found: int):
        self.expected, self.found = expected, found
        super().__init__(f"it has {found} of {expected} bytes")
