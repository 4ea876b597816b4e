"""LMDB databases of Datum records: kept in memory where they are small, read record by record where they are not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from caffelite import caffelite_pb2 as pb
from caffelite.data.images import decode
from caffelite.errors import CaffeliteError, Where

if TYPE_CHECKING:
    import lmdb

RESIDENT_BYTES = 512 << 20
EXACT_LABELS = 1 << 24  # float32 holds every whole number up to here
Check = Callable[[tuple[int, ...]], None]


class Database:
    """The records of one LMDB, in the order of its keys. Each read gives images C×H×W (uint8 or float32) and labels.

    color: as `images.decode` for encoded records. Errors: no such folder, not an LMDB, truncated, empty; for a record: its
    key and what is wrong with it.
    """

    def __init__(self, path: Path, color: bool | None = None):
        self.path, self.color = path, color
        self._transaction = self._cursor = self._images = self._labels = self._keys = None
        self._identity, self.env = _open(path)
        try:
            self.length = self.env.stat()["entries"]
            if not self.length:
                raise CaffeliteError("the database is empty", where=Where(str(path)))
            key, value = next(self._walk(0, 1))
            self.first_image, _ = self._record(key, value)
            encoded = pb.Datum.FromString(value).encoded
        except BaseException:
            self.close()
            raise
        self._small = not encoded and self.first_image.nbytes * self.length <= RESIDENT_BYTES

    def read(self, start: int, count: int, check: Check) -> tuple[np.ndarray | list[np.ndarray], np.ndarray | list[int]]:
        """Records start … start + count - 1, which must not run past the end. check: raises where a shape will not do."""
        import lmdb

        try:
            if self._small and self._images is None:
                self._small = self._load(check)
            if self._small:
                return self._images[start : start + count], self._labels[start : start + count]
            records = [self._checked(key, value, check) for key, value in self._walk(start, count)]
        except lmdb.Error as mistake:
            raise self._unreadable(mistake) from None
        return [image for image, _ in records], [label for _, label in records]

    def pick(self, places: np.ndarray, check: Check) -> tuple[np.ndarray | list[np.ndarray], np.ndarray | list[int]]:
        """The records at these places, in any order; else as `read`. Where they are not in memory, all their keys are."""
        import lmdb

        try:
            if self._small and self._images is None:
                self._small = self._load(check)
            if self._small:
                return self._images[places], self._labels[places]
            if self._keys is None:
                with self.env.begin() as transaction, transaction.cursor() as cursor:
                    self._keys = list(cursor.iternext(values=False))
            with self.env.begin(buffers=True) as transaction:
                keys = [self._keys[place] for place in places]
                records = [self._checked(key, transaction.get(key), check) for key in keys]
        except lmdb.Error as mistake:
            raise self._unreadable(mistake) from None
        return [image for image, _ in records], [label for _, label in records]

    def _unreadable(self, mistake: Exception) -> CaffeliteError:
        return CaffeliteError(f"cannot read the LMDB: {mistake}", where=Where(str(self.path)))

    def close(self) -> None:
        """Lets go of the file; a second call does nothing."""
        if self.env:
            # The cursor must not outlive its transaction, nor that its database.
            self._cursor = self._transaction = self._images = self._labels = self._keys = self.env = None
            _close(self._identity)

    def _load(self, check: Check) -> bool:
        """Fills the arrays of all images and labels; False where images differ in shape or type and yet will do."""
        images = np.empty((self.length, *self.first_image.shape), self.first_image.dtype)
        labels = np.empty(self.length, np.int32)
        with self.env.begin(buffers=True) as transaction, transaction.cursor() as cursor:
            for i, (key, value) in enumerate(cursor):
                image, labels[i] = self._checked(key, value, check)
                if image.shape != images.shape[1:] or image.dtype != images.dtype:
                    return False
                images[i] = image
        self._images, self._labels = images, labels
        return True

    def _walk(self, start: int, count: int) -> Iterator[tuple[bytes, memoryview]]:
        """(key, value) of some records; steps from where the last walk ended, else counts keys from the first."""
        if not self._cursor or self._at != start:
            self._transaction = self.env.begin(buffers=True)
            self._cursor, self._at = self._transaction.cursor(), 0
            self._cursor.first()
            while self._at < start:
                self._cursor.next()
                self._at += 1
        for _ in range(count):
            yield self._cursor.item()
            self._at += 1
            self._cursor.next()

    def _checked(self, key: bytes, value: bytes, check: Check) -> tuple[np.ndarray, int]:
        image, label = self._record(key, value)
        try:
            check(image.shape)
        except CaffeliteError as mistake:
            raise self._bad(key, str(mistake)) from None
        return image, label

    def _record(self, key: bytes, value: bytes) -> tuple[np.ndarray, int]:
        from google.protobuf.message import DecodeError

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

    def _bad(self, key: bytes, what: str, **said: object) -> CaffeliteError:
        return CaffeliteError(f'record "{bytes(key).decode(errors="backslashreplace")}": {what}', where=Where(str(self.path)), **said)


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
    with _opening:
        identity = status.st_dev, status.st_ino
        if identity not in _opened:
            try:
                env = lmdb.open(str(path), readonly=True, lock=False, readahead=True, subdir=path.is_dir())
            except (lmdb.Error, OSError) as mistake:
                raise CaffeliteError(f"cannot open the LMDB: {mistake}", where=where) from None
            # Pages past the end of a cut file would kill the process when they are read.
            needed = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
            if status.st_size < needed:
                env.close()
                remedy = "copy or make it again"
                raise CaffeliteError("truncated LMDB", where=where, expected=f"{needed} bytes", found=status.st_size, remedy=remedy)
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
