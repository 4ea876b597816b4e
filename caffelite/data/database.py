"""Databases of Datum records, by number in the order of their keys: LMDB here, LevelDB beside."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from caffelite import caffelite_pb2 as pb
from caffelite.data.images import decode
from caffelite.data.samples import Check, Samples
from caffelite.errors import CaffeliteError, Where

if TYPE_CHECKING:
    import lmdb

EXACT_LABELS = 1 << 24  # float32 holds every whole number up to here
ANEW = "copy or make it again"  # the remedy for a damaged database
Record = tuple[bytes, bytes]


class Datums(Samples):
    """Datum records of any database; a kind of it implements `walk`, `read` and `close`, and calls `look` when it is open.

    color: as `images.decode` for encoded records. Errors: no records; for a record: its key and what is wrong with it.
    """

    def __init__(self, path: Path, color: bool | None):
        self.path, self.color = path, color

    def walk(self, start: int) -> Iterator[Record]:
        """(key, value) of the records from one on."""
        raise NotImplementedError

    def look(self) -> None:
        """Learns what the images are from the first record."""
        if not self.length:
            raise CaffeliteError("the database is empty", where=Where(str(self.path)))
        record = next(self.walk(0))
        self.first, _ = self.image(0, record)
        self.encoded = pb.Datum.FromString(record[1]).encoded

    def whole(self, most: int, check: Check) -> tuple[np.ndarray, np.ndarray] | None:
        if self.first.nbytes * self.length > most:
            return None
        images = np.empty((self.length, *self.first.shape), self.first.dtype)
        labels = np.empty(self.length, np.int32)
        for i, record in enumerate(self.walk(0)):
            image, labels[i] = self.image(i, record)
            if image.shape != images.shape[1:] or image.dtype != images.dtype:
                try:
                    check(image.shape)
                except CaffeliteError as mistake:
                    raise self.bad(i, record, str(mistake)) from None
                return None  # they differ, and yet will do
            images[i] = image
        return images, labels

    def image(self, number: int, content: Record) -> tuple[np.ndarray, int]:
        from google.protobuf.message import DecodeError

        key, value = content
        try:
            datum = pb.Datum.FromString(value)
        except DecodeError:
            raise self._bad(key, "not a Datum record") from None
        if abs(datum.label) > EXACT_LABELS:
            raise self._bad(key, "the label is not exact in float32", expected=f"at most {EXACT_LABELS}", found=datum.label)
        if datum.encoded:
            try:
                return decode(datum.data, self.color), datum.label
            except ValueError as mistake:
                raise self._bad(key, str(mistake)) from None
        shape = datum.channels, datum.height, datum.width
        values = np.frombuffer(datum.data, np.uint8) if datum.data else np.array(datum.float_data, np.float32)
        if values.size != math.prod(shape) or not values.size:
            raise self._bad(key, "wrong number of values", expected="×".join(map(str, shape)), found=values.size)
        return values.reshape(shape), datum.label

    def bad(self, number: int, content: Record, what: str) -> CaffeliteError:
        return self._bad(content[0], what)

    def _bad(self, key: bytes, what: str, **said: object) -> CaffeliteError:
        return CaffeliteError(f'record "{bytes(key).decode(errors="backslashreplace")}": {what}', where=Where(str(self.path)), **said)

    def labels(self, most: int) -> np.ndarray:
        from google.protobuf.message import DecodeError

        found = []
        for _, (_, value) in zip(range(most), self.walk(0), strict=False):
            try:
                found.append(pb.Datum.FromString(value).label)
            except DecodeError:  # training will tell
                break
        return np.array(found, np.float64)


class Database(Datums):
    """The records of one LMDB. Errors besides: no such folder, not an LMDB, truncated.

    shuffled: whether records will be read in any order, for which all keys are kept.
    """

    def __init__(self, path: Path, color: bool | None = None, shuffled: bool = False):
        super().__init__(path, color)
        self._walking: Iterator[Record] | None = None
        self._shuffled, self._keys, self._transaction = shuffled, None, None
        self._identity, self.env = _open(path)
        try:
            self._transaction = self.env.begin()
            self.length = self.env.stat()["entries"]
            self.look()
        except BaseException:
            self.close()
            raise

    def walk(self, start: int) -> Iterator[Record]:
        import lmdb

        try:
            with self._transaction.cursor() as cursor:
                here = cursor.first()
                for _ in range(start):
                    here = here and cursor.next()
                while here:
                    yield cursor.item()
                    here = cursor.next()
        except lmdb.Error as mistake:
            raise self._unreadable(mistake) from None

    def read(self, numbers: np.ndarray) -> Sequence[Record]:
        import lmdb

        if not self._shuffled:
            return [self._step(number) for number in numbers.tolist()]
        try:
            if self._keys is None:
                with self._transaction.cursor() as cursor:
                    self._keys = list(cursor.iternext(values=False))
            keys = [self._keys[number] for number in numbers.tolist()]
            return [(key, self._transaction.get(key)) for key in keys]
        except lmdb.Error as mistake:
            raise self._unreadable(mistake) from None

    def _step(self, number: int) -> Record:
        """The record of a number, from where the last one was read, or anew from the first."""
        if self._walking is None or number < self._next:
            self._walking, self._next = self.walk(number), number
        for _ in range(number - self._next):
            next(self._walking)
        self._next = number + 1
        return next(self._walking)

    def _unreadable(self, mistake: Exception) -> CaffeliteError:
        return CaffeliteError(f"cannot read the LMDB: {mistake}", where=Where(str(self.path)), remedy=ANEW)

    def close(self) -> None:
        if self.env:
            # A cursor must not outlive its transaction, nor that its database.
            if self._walking:
                self._walking.close()
            if self._transaction:
                self._transaction.abort()
            self._walking = self._transaction = self._keys = self.env = None
            _close(self._identity)


# LMDB forbids opening a file twice in one process, yet a train and a test net may read the same one.
_opened: dict[tuple[int, int], list] = {}
_opening = Lock()


def _open(path: Path) -> tuple[tuple[int, int], lmdb.Environment]:
    import lmdb

    where = Where(str(path))
    file = path / "data.mdb" if path.is_dir() else path
    try:
        status = file.stat()
    except OSError as mistake:
        found = "a folder without data.mdb" if path.is_dir() else mistake.strerror
        raise CaffeliteError("cannot open the LMDB", where=where, expected="a folder with data.mdb", found=found) from None
    if not status.st_size:
        raise CaffeliteError("truncated LMDB", where=where, found="0 bytes", remedy=ANEW)
    with _opening:
        identity = status.st_dev, status.st_ino
        if identity not in _opened:
            try:
                env = lmdb.open(str(path), readonly=True, lock=False, readahead=True, subdir=path.is_dir())
            except (lmdb.Error, OSError) as mistake:
                reason, remedy = str(mistake).removeprefix(f"{path}: "), ANEW if isinstance(mistake, lmdb.InvalidError) else None
                raise CaffeliteError(f"cannot open the LMDB: {reason}", where=where, remedy=remedy) from None
            # Pages past the end of a cut file would kill the process when they are read.
            needed = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
            if status.st_size < needed:
                env.close()
                raise CaffeliteError("truncated LMDB", where=where, expected=f"{needed} bytes", found=status.st_size, remedy=ANEW)
            _opened[identity] = [env, 0]
        _opened[identity][1] += 1
        return identity, _opened[identity][0]


def _close(identity: tuple[int, int]) -> None:
    with _opening:
        env, users = _opened[identity]
        if users > 1:
            _opened[identity][1] -= 1
        else:
            del _opened[identity]
            env.close()
