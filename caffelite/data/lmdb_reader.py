"""An LMDB open to read, under a lock where that can be had: its records in the order of their keys, errors with the
database's name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from .. import inputs
from ..errors import CaffeliteError, Where
from .lmdb_pages import Changed, Damaged, Pages, Truncated

if TYPE_CHECKING:
    import lmdb

ANEW = "copy or make it again"  # the remedy for a damaged database
TRIES = 5  # to read the state that a writer leaves while we take the lock
Record = tuple[bytes, bytes]


class Lmdb:
    """(key, value) records of an LMDB, a folder with data.mdb or a file, as the last transaction left them when it was
    opened.

    A reader's lock keeps a writer elsewhere from using our pages again. Where it cannot be had (a file system or a
    folder that only reads), each read looks whether a writer has gone so far that they may differ. length: how many
    records. Errors: no such file; not an LMDB; truncated, damaged or changed; each says where.
    """

    def __init__(self, path: Path):
        self.path = path
        file = path / "data.mdb" if path.is_dir() else path
        self._environment = self._transaction = self._pages = None
        try:
            if not inputs.check(file).st_size:
                raise CaffeliteError("truncated LMDB", where=Where(str(path)), found="0 bytes", remedy=ANEW)
        except OSError as mistake:
            found = (
                "a folder without data.mdb"
                if path.is_dir() and isinstance(mistake, FileNotFoundError)
                else inputs.reason(mistake)
            )
            raise CaffeliteError(
                "cannot open the LMDB", where=Where(str(path)), expected="a folder with data.mdb", found=found
            ) from None
        with self._told("open"):
            self._pages = self._open(file)
        self.length = self._pages.entries

    def _open(self, file: Path) -> Pages:
        for tries in range(TRIES):
            Pages(file).close()  # LMDB itself takes a file at its word
            try:
                self._take_lock(file)
                return Pages(file, self._transaction and self._transaction.id())
            except BaseException as mistake:
                self.close()
                if not isinstance(mistake, Changed) or tries == TRIES - 1:
                    raise
        raise AssertionError

    def _take_lock(self, file: Path) -> None:
        import lmdb

        try:
            self._environment = _environment(self.path, file)
            self._transaction = self._environment and self._environment[1].begin()
        except (lmdb.Error, OSError):  # a full table of readers, a file system without locks
            self._drop_lock()

    def _drop_lock(self) -> None:
        if self._transaction:
            self._transaction.abort()
        if self._environment:
            _leave(self._environment[0])
        self._environment = self._transaction = None

    @property
    def locked(self) -> bool:
        return self._transaction is not None

    def walk(self, start: int = 0) -> Iterator[Record]:
        """The records from one on."""
        with self._told("read"):
            for records in self._pages.records(start):
                self._pages.check_unchanged(self.locked)
                yield from records

    def index(self) -> np.ndarray:
        """Where each record stands, a row each: what `read` takes."""
        with self._told("read"):
            found = self._pages.index()
            self._pages.check_unchanged(self.locked)
        return found

    def read(self, places: np.ndarray) -> list[Record]:
        """Records by rows of `index`."""
        with self._told("read"):
            found = [self._pages.record(*place) for place in places.tolist()]
            self._pages.check_unchanged(self.locked)
        return found

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        where = Where(str(self.path))
        try:
            with self._blamed():
                yield
        except Truncated as mistake:
            expected = f"{mistake.expected} bytes"
            raise CaffeliteError(
                "truncated LMDB", where=where, expected=expected, found=mistake.found, remedy=ANEW
            ) from None
        except Changed as mistake:
            remedy = "end the program that writes, or read a copy"
            raise CaffeliteError(
                f"the LMDB has changed while it was read: {mistake}", where=where, remedy=remedy
            ) from None
        except Damaged as mistake:
            raise CaffeliteError(f"cannot {what} the LMDB: {mistake}", where=where, remedy=ANEW) from None
        except OSError as mistake:
            raise CaffeliteError(f"cannot {what} the LMDB: {inputs.reason(mistake)}", where=where) from None

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """Damage that a writer has done is a change."""
        try:
            yield
        except Damaged:
            if self._pages:
                self._pages.check_unchanged(self.locked)
            raise

    def close(self) -> None:
        """Lets go of the file and the lock; a second call does nothing."""
        if self._pages:
            self._pages.close()
            self._pages = None
        self._drop_lock()


# LMDB forbids opening a file twice in one process, yet a train and a test net may read the same one.
_opened: dict[tuple[int, int], list] = {}
_opening = Lock()


def _environment(path: Path, file: Path) -> tuple[tuple[int, int], lmdb.Environment] | None:
    """LMDB's own handle, which holds the lock; None where the lock would have to be a new file in a folder of somebody
    else.

    Such a file could keep its owner from writing.
    """
    import lmdb

    lock = path / "lock.mdb" if path.is_dir() else path.with_name(f"{path.name}-lock")
    if not os.path.lexists(lock) and os.stat(lock.parent).st_uid != os.geteuid():
        return None
    if os.path.lexists(lock):
        inputs.check(lock)
    status = os.stat(file)
    identity = status.st_dev, status.st_ino
    with _opening:
        if identity not in _opened:
            _opened[identity] = [lmdb.open(str(path), readonly=True, lock=True, create=False, subdir=path.is_dir()), 0]
        _opened[identity][1] += 1
        return identity, _opened[identity][0]


def _leave(identity: tuple[int, int]) -> None:
    with _opening:
        held = _opened[identity]
        held[1] -= 1
        if not held[1]:
            del _opened[identity]
            held[0].close()
