"""Reads the records of an LMDB in the order of their keys, under a reader's lock where that is possible."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from .. import inputs
from ..errors import CaffeliteError, Where
from .lmdb_pages import Changed, Damaged, Pages, Truncated

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
    """The identity of the file and LMDB's environment, which holds the lock; None where the lock would be a new file in
    a folder of another user: it could keep that user from writing."""
    import lmdb

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
