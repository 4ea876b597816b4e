"""Reads the records of an LMDB in the order of their keys, under a reader's lock where that is possible. Its pages are
read from the file and every number is checked, instead of using a memory map.

With a memory map, a damaged or missing page kills the process; a file read only returns fewer bytes. The format: data
version 1 of LMDB, little endian. A page has a header of 16 bytes: its number (8), padding (2), flags (2), and either
the offsets of the end of the node list and of the first node (2 and 2), or the number of pages of an overflow value
(4).
"""

from __future__ import annotations

import os
import struct
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import file_types, inputs, roots
from ..errors import CaffeliteError, Where, closed_on_failure

_BRANCH, _LEAF, _OVERFLOW, _META, _KINDS = 1, 2, 4, 8, 0x6F  # flags of a page; KINDS: those of its type
_BIG, _SUBDATA, _DUPLICATES = 1, 2, 4  # flags of a node
_HEADER, _NODE = struct.Struct("<QHHHH"), struct.Struct("<HHHH")
_HEADERS = np.dtype([("number", "<i8"), ("padding", "<u2"), ("flags", "<u2"), ("lower", "<u2"), ("upper", "<u2")])
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


class _Leaf(NamedTuple):
    """A leaf page: its number, the records on it, its bytes, and where its nodes begin."""

    page: int
    records: range
    content: bytes
    upper: int


class Pages:
    """An LMDB's records in the order of their keys, as one transaction left them.

    The tree does not count records, so the headers of the leaf pages before a record say on which page it is. They
    are read once, as far as they are needed.

    transaction: which one, of the two that the file knows; None: the last. Errors: OSError; Damaged: also where the
    file is shorter than its meta page says.
    """

    def __init__(self, path: Path, transaction: int | None = None):
        self._file = inputs.open_descriptor(path)
        self.close = weakref.finalize(self, os.close, self._file)  # a net that is not closed leaves no file open
        with closed_on_failure(self):
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
            # The leaf pages in the order of the keys, as far as they are located; of each the number of its first
            # record, and at the end of the one after them.
            self._leaf_pages, self._firsts = array("q"), array("q", [0])
            self._waiting, self._locating = [(self.meta.root, 1)], Lock()  # pages with leaf pages to be located: levels
            self._seen: set[int] = set()
            self._leaf = _Leaf(0, range(0), b"", 0)  # the one that was read last

    def check_unchanged(self, retained: bool) -> None:
        """Raises Changed where the pages that were read so far may hold what a later transaction wrote.

        retained: a reader's lock keeps our transaction's pages. Without it they may be used again from the second
        transaction after ours on.
        """
        metas = os.pread(self._file, self.meta.page_bytes + _META_BYTES, 0)  # both, in one call
        if metas == self._checked_metas:
            return
        now = max(meta.transaction for meta in self._metas())
        if now < self.meta.transaction or now > self.meta.transaction + 1 and not retained:
            raise Changed("another program writes to it")
        self._checked_metas = metas

    def record(self, number: int) -> tuple[bytes, bytes]:
        """The key and the value of a record, by its number from 0 on. Its page is read at once: that is faster than the
        header, the node and the value one by one."""
        leaf = self._leaf
        if number not in leaf.records:
            leaf = self._leaf = self._find(number)
        page, content = leaf.page, leaf.content
        at = _START + 2 * (number - leaf.records.start)
        offset = content[at] | content[at + 1] << 8
        if not leaf.upper <= offset <= len(content) - 8:
            raise Damaged(f"page {page} has a node outside it")
        low, high, flags, key_bytes = _NODE.unpack_from(content, offset)
        size, at = low | high << 16, offset + 8 + key_bytes
        end = at + (8 if flags & _BIG else size)
        if end > len(content) or flags & (_SUBDATA | _DUPLICATES):
            raise Damaged(f"page {page} has a record that is none")
        key, value = content[offset + 8 : at], content[at:end]
        return key, self._overflow(int.from_bytes(value, "little"), size) if flags & _BIG else value

    def _find(self, number: int) -> _Leaf:
        """The leaf page with a record."""
        if number >= self._firsts[-1]:
            with self._locating:
                while number >= self._firsts[-1]:
                    self._locate_more()
        index = bisect_right(self._firsts, number) - 1
        page, records = self._leaf_pages[index], range(self._firsts[index], self._firsts[index + 1])
        content, lower, upper = self._page(page, _LEAF)
        if lower != _START + 2 * len(records):
            raise Damaged(f"page {page} has other than the nodes that it had")
        return _Leaf(page, records, content, upper)

    def _locate_more(self) -> None:
        """Adds the leaf pages below one more branch page to those that are located."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            raise Damaged("its pages were not read to the end")  # because of an error before
        while True:
            number, level = waiting.pop()
            pages = self._children(number) if level < self.meta.depth else np.array([number])
            if level + 1 >= self.meta.depth:
                break
            waiting += [(page, level + 1) for page in reversed(pages.tolist())]
        for page in pages.tolist():
            if page in self._seen:
                raise Damaged(f"page {page} belongs to two others")
            self._seen.add(page)
        firsts = self._firsts[-1] + np.cumsum(self._counts(pages))
        if firsts[-1] > self.entries or (firsts[-1] == self.entries) == bool(waiting):
            raise Damaged(f"it has other than the {self.entries} records that it says")
        self._leaf_pages.frombytes(pages.astype(np.int64).tobytes())
        self._firsts.frombytes(firsts.astype(np.int64).tobytes())
        if not waiting:
            self._seen.clear()
        self._waiting = waiting

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
            what = f"page {number} states that its nodes start at {upper}, and that their offsets end at {lower}"
            raise Damaged(what)
        return lower, upper

    def _page(self, number: int, kind: int) -> tuple[bytes, int, int]:
        """A page, and what `_header` returns."""
        if not 1 < number < self.meta.pages:
            raise Damaged(f"it names page {number} of {self.meta.pages}")
        page = self._read(self.meta.page_bytes, number * self.meta.page_bytes)
        return page, *self._header(number, kind, page)

    def _children(self, number: int) -> np.ndarray:
        """The pages below a branch page."""
        page, lower, upper = self._page(number, _BRANCH)
        offsets = np.frombuffer(page, "<u2", (lower - _START) // 2, _START)
        if not offsets.size or offsets.min() < upper or offsets.max() + 8 > len(page):
            raise Damaged(f"page {number} has a node outside it")
        pages = np.zeros((len(offsets), 8), np.uint8)
        places = np.add.outer(offsets, np.arange(6))  # of the numbers of pages, 48 bits each
        pages[:, :6] = np.frombuffer(page, np.uint8)[places]
        return pages.view("<i8")[:, 0]

    def _counts(self, pages: np.ndarray) -> np.ndarray:
        """How many records leaf pages have, by their headers, which are checked all at once."""
        if pages.min() > 1 and pages.max() < self.meta.pages:
            most, read, file = self.meta.page_bytes, os.pread, self._file
            headers = b"".join([read(file, _START, page * most) for page in pages.tolist()])
            if len(headers) == _START * len(pages):
                table = np.frombuffer(headers, _HEADERS)
                lower, upper = table["lower"], table["upper"]
                bad = (table["number"] != pages) | (table["flags"] & _KINDS != _LEAF) | (lower & 1 != 0)
                if not (bad | (lower < _START) | (lower > upper) | (upper > most)).any():
                    return (lower.astype(np.int64) - _START) // 2
        return np.array([(self._header(page, _LEAF)[0] - _START) // 2 for page in pages.tolist()])  # says what is wrong

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


if TYPE_CHECKING:
    import lmdb

ANEW = "copy or make it again"  # the remedy for a damaged database
TRIES = 5  # attempts to read the state that a writer leaves while this process takes the lock
MISTAKES = Damaged, Changed, OSError
Record = tuple[bytes, bytes]


class Lmdb:
    """(key, value) records of an LMDB, a folder with data.mdb or a file, as the last transaction left them when it was
    opened.

    A reader's lock keeps a writer elsewhere from reusing the pages that are read. Where there is no lock (a read-only
    file system or folder), each read checks whether a writer may have changed them. length: how many records. Errors:
    no such file; not an LMDB; truncated, damaged or changed; each names the file.
    """

    def __init__(self, path: Path):
        self.path = path
        file = path / "data.mdb" if path.is_dir() else path
        self._lock = _ReaderLock()
        self._pages: Pages | None = None
        # A reader that is dropped without close() must not keep the environment open in this process.
        weakref.finalize(self, self._lock.release).atexit = False
        try:
            if not inputs.check(file).st_size:
                raise Where(str(path)).error("truncated LMDB", found="0 bytes", remedy=ANEW)
            file_types.refuse_file(file)
        except OSError as mistake:
            raise Where(str(path)).error(
                "cannot open the LMDB",
                expected="a folder with data.mdb",
                found="a folder without data.mdb"
                if path.is_dir() and isinstance(mistake, FileNotFoundError)
                else inputs.reason(mistake),
            ) from None
        try:
            self._pages = self._open(file)
        except MISTAKES as mistake:
            raise self._error("open", mistake) from None
        self.length = self._pages.entries

    def _open(self, file: Path) -> Pages:
        for tries in range(TRIES):
            Pages(file).close()  # LMDB itself takes a file at its word
            try:
                self._lock.take(self.path, file)
                return Pages(file, self._lock.transaction and self._lock.transaction.id())
            except BaseException as mistake:
                self.close()
                if not isinstance(mistake, Changed) or tries == TRIES - 1:
                    raise
        raise AssertionError

    def _opened(self) -> Pages:
        if self._pages is None:
            raise ValueError("the LMDB is closed")
        return self._pages

    @property
    def locked(self) -> bool:
        """Whether a writer elsewhere leaves our pages unchanged."""
        return self._lock.transaction is not None

    def walk(self, start: int = 0) -> Iterator[Record]:
        """The records from number ``start``."""
        for number in range(start, self.length):
            yield from self.read([number])

    def read(self, numbers: Iterable[int]) -> list[Record]:
        """The records of these numbers."""
        pages = self._opened()
        try:
            records = [pages.record(number) for number in numbers]
            pages.check_unchanged(self.locked)
        except MISTAKES as mistake:
            raise self._error("read", mistake) from None
        return records

    def _error(self, what: str, mistake: OSError | ValueError) -> CaffeliteError:
        """The error that names the database."""
        if isinstance(mistake, Damaged) and self._pages:
            try:
                self._pages.check_unchanged(self.locked)
            except MISTAKES as change:  # a writer has changed the file
                mistake = change
        where = Where(str(self.path))
        if isinstance(mistake, Truncated):
            expected = f"{mistake.expected} bytes"
            return CaffeliteError("truncated LMDB", where=where, expected=expected, found=mistake.found, remedy=ANEW)
        if isinstance(mistake, Changed):
            remedy = "end the program that writes, or read a copy"
            return CaffeliteError(f"the LMDB has changed while it was read: {mistake}", where=where, remedy=remedy)
        if isinstance(mistake, OSError):
            return CaffeliteError(f"cannot {what} the LMDB: {inputs.reason(mistake)}", where=where)
        return CaffeliteError(f"cannot {what} the LMDB: {mistake}", where=where, remedy=ANEW)

    def close(self) -> None:
        """Closes the file and releases the lock; a second call does nothing."""
        if self._pages:
            self._pages.close()
            self._pages = None
        self._lock.release()


class _ReaderLock:
    """A reader's lock of one database: a read transaction of LMDB's own. transaction: None where there is no lock."""

    def __init__(self) -> None:
        self.transaction: lmdb.Transaction | None = None
        self._identity: tuple[int, int] | None = None

    def take(self, path: Path, file: Path) -> None:
        """Takes the lock, if that is possible."""
        import lmdb

        try:
            if shared := _environment(path, file):
                self._identity = shared[0]
                self.transaction = shared[1].begin()
        except (lmdb.Error, OSError):  # a full table of readers, a file system without locks
            self.release()

    def release(self) -> None:
        """A second call does nothing."""
        transaction, self.transaction = self.transaction, None
        identity, self._identity = self._identity, None
        if transaction:
            transaction.abort()
        if identity:
            _leave(identity)


# LMDB forbids opening a file twice in one process, but a train net and a test net may read the same one: file → its
# environment and how many readers it has.
_opened: dict[tuple[int, int], list[Any]] = {}
_opening = RLock()  # reentrant: the garbage collector may release a reader inside it


def _environment(path: Path, file: Path) -> tuple[tuple[int, int], lmdb.Environment] | None:
    """The identity of the file and LMDB's environment, which holds the lock; None where this process is confined to
    roots, or where the lock would be a new file in a folder of another user: it could keep that user from writing."""
    import lmdb

    if roots.current():
        return None  # the library opens, and writes, by names that may become links
    lock = path / "lock.mdb" if path.is_dir() else path.with_name(f"{path.name}-lock")
    if not os.path.lexists(lock) and os.stat(lock.parent).st_uid != os.geteuid():
        return None
    if os.path.lexists(lock):
        inputs.check(lock)
    status = os.stat(file)
    identity = status.st_dev, status.st_ino
    with _opening:
        while True:
            shared = _opened.get(identity)
            if shared is None:
                environment = lmdb.open(str(path), readonly=True, lock=True, create=False, subdir=path.is_dir())
                shared = _opened[identity] = [environment, 0]
            shared[1] += 1
            if _opened.get(identity) is shared:  # else the garbage collector has just released its last reader
                return identity, shared[0]


def _leave(identity: tuple[int, int]) -> None:
    """A reader of the file is released; after the last one the environment is closed."""
    with _opening:
        shared = _opened[identity]
        shared[1] -= 1
        if not shared[1]:
            del _opened[identity]
            shared[0].close()
