"""LevelDB databases of Datum records."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from .. import inputs, roots
from ..errors import CaffeliteError, Where, closed_on_failure, message_of, missing_extra
from .database import Datums
from .lmdb_reader import ANEW, Record
from .pictures import AS_CAFFE, Decoder

if TYPE_CHECKING:
    import plyvel

MOST_OPEN = 400  # files of a LevelDB below the roots of a server, which stay open
AT_ONCE = 8  # tables that are looked at before each record is read


class Tables:
    """The files of a LevelDB that its library maps into memory. One that shrinks would end the process: they are looked
    at before reads.

    Of a database with n files they are looked at once in n / 8 records, so that the work of a record does not grow with
    it.
    """

    def __init__(self, path: Path):
        self._path, self._left = path, 0
        self._sizes: dict[int, int] = {}  # by inode
        self.check()

    def check(self, records: int = 1) -> None:
        """Call it before reading a number of records. Errors: CaffeliteError for a file that has become
        shorter."""
        self._left -= records
        if self._left > 0:
            return
        with suppress(OSError), os.scandir(self._path) as entries:  # one that was moved: the library has the files open
            for entry in entries:
                if entry.name.endswith((".ldb", ".sst")):
                    with suppress(OSError):
                        self._compare(entry.name, entry.stat())
        self._left = len(self._sizes) // AT_ONCE

    def _compare(self, name: str, status: os.stat_result) -> None:
        was = self._sizes.get(status.st_ino, 0)
        if status.st_size < was:
            what, found = f"the LevelDB's {name} has become shorter since it was opened", f"{status.st_size} bytes"
            raise Where(str(self._path)).error(what, expected=f"{was} bytes", found=found, remedy=ANEW)
        self._sizes[status.st_ino] = status.st_size


class LevelDB(Datums):
    """The records of one LevelDB, which keeps no count of them: all keys are read when it is opened, and kept.

    Errors besides those of `Datums`: no such folder, not a LevelDB, damaged, in use by another process.
    """

    def __init__(self, path: Path, decoder: Decoder = AS_CAFFE):
        super().__init__(path, decoder)
        self._db, self._is_open = _open(path), True
        with closed_on_failure(self):
            self._tables = Tables(path)
            self._keys = list(self._trying(lambda: self._db.iterator(include_value=False, verify_checksums=True)))
            self.length = len(self._keys)
            self.look()

    def _trying(self, iterate: Callable[[], plyvel.Iterator]) -> Iterator:
        import plyvel

        try:
            with iterate() as iterator:
                while True:
                    self._tables.check()
                    record = next(iterator, None)
                    if record is None:
                        return
                    yield record
        except plyvel.Error as mistake:
            raise self._unreadable(mistake) from None

    def walk(self, start: int) -> Iterator[Record]:
        return self._trying(lambda: self._db.iterator(start=self._keys[start], verify_checksums=True))

    def read(self, indices: np.ndarray) -> Sequence[Record]:
        import plyvel

        self._tables.check(len(indices))
        keys = [self._keys[number] for number in indices.tolist()]
        try:
            return [(key, self._db.get(key, verify_checksums=True)) for key in keys]
        except plyvel.Error as mistake:
            raise self._unreadable(mistake) from None

    def _unreadable(self, mistake: Exception) -> CaffeliteError:
        return unreadable(self.path, mistake)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            _close(self.path)


def unreadable(path: Path, mistake: Exception) -> CaffeliteError:
    """The error of a LevelDB that is damaged."""
    return Where(str(path)).error(f"cannot read the LevelDB: {message_of(mistake)}", remedy=ANEW)


# A LevelDB is one process's, which opens it once, yet a train and a test net may read the same one.
_opened: dict[Path, tuple[plyvel.DB, ExitStack]] = {}
_readers: Counter[Path] = Counter()
_opening = Lock()


def _open(path: Path) -> plyvel.DB:
    try:
        import plyvel
    except ImportError:
        raise missing_extra("plyvel-ci", "leveldb", "backend LEVELDB") from None
    where, identity = Where(str(path)), path.resolve()
    with _opening:
        if identity not in _opened:
            if not (path / "CURRENT").is_file():  # LevelDB would leave a lock file in any folder
                raise where.error("cannot open the LevelDB", expected="a LevelDB folder", found="one without CURRENT")
            try:
                with ExitStack() as held:
                    name = str(_linked(path, held) if roots.current() else path)
                    database = plyvel.DB(name, create_if_missing=False, paranoid_checks=True)
                    _opened[identity] = database, held.pop_all()
            except (plyvel.Error, OSError) as mistake:
                reason = message_of(mistake)
                busy = "only one process can read a LevelDB: end the other one, or convert it to LMDB"
                what = f"cannot open the LevelDB: {reason}"
                raise where.error(what, remedy=busy if "lock" in reason else ANEW) from None
        _readers[identity] += 1
        return _opened[identity][0]


def _linked(path: Path, held: ExitStack) -> Path:
    """A folder of our own with links to the files of a LevelDB, which are open: the library opens files by their names,
    also later, and writes into the folder. Errors: OSError; Outside; too many files to be open."""
    names = sorted(entry.name for entry in os.scandir(path) if entry.name != "LOCK")
    if len(names) > MOST_OPEN:
        what, expected = f"this LevelDB has {len(names)} files", f"at most {MOST_OPEN} below the roots of a server"
        raise Where(str(path)).error(what, expected=expected, remedy="convert it to LMDB")
    ours = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="caffelite-leveldb-")))
    for name in names:
        file = held.enter_context(inputs.open_file(path / name))
        (ours / name).symlink_to(f"{roots.DESCRIPTORS}/{file.fileno()}")
    return ours


def _close(path: Path) -> None:
    with _opening:
        identity = path.resolve()
        _readers[identity] -= 1
        if not _readers[identity]:
            database, held = _opened.pop(identity)
            database.close()
            held.close()
