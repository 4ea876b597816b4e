"""Reads the records of a database as they are stored, for tools that must also handle records that a net refuses."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Unpack

import numpy as np

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Details, Where
from . import leveldb
from .annotated import Objects, objects_of, parsed
from .lmdb_reader import Lmdb
from .pictures import AS_CAFFE, Decoder

ANNOTATED = b"\x0a"  # the first byte of an AnnotatedDatum: its field 1 is a message; that of a Datum is a number


def backend_of(path: Path) -> str:
    """lmdb or leveldb where a folder is such a database, else empty."""
    if (path / "data.mdb").is_file():
        return "lmdb"
    return "leveldb" if (path / "CURRENT").is_file() else ""


class Records:
    """(key, value) of every record of an LMDB or a LevelDB, in the order of the keys.

    backend: "lmdb" or "leveldb"; None: what the files in the folder say. Errors: no database, a truncated, damaged or
    empty one.
    """

    def __init__(self, path: str | os.PathLike, backend: str | None = None):
        self.path = Path(path)
        self.backend = backend or backend_of(self.path) or "lmdb"
        if self.backend == "leveldb":
            self._db = leveldb._open(self.path)
            self._close = lambda: leveldb._close(self.path)
        else:
            self._db = Lmdb(self.path)
            self._close = self._db.close
        try:
            self._length = sum(1 for _ in self._walk(False)) if self.backend == "leveldb" else self._db.length
            if not self._length:
                raise Where(str(path)).error("the database is empty")
        except BaseException:
            self._close()
            raise

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self._walk(True)

    def _walk(self, values: bool) -> Iterator:
        if self.backend == "leveldb":
            import plyvel

            try:
                with self._db.iterator(include_value=values, verify_checksums=values) as records:
                    yield from records
            except plyvel.Error as mistake:
                raise leveldb.unreadable(self.path, mistake) from None
            return
        yield from self._db.walk()

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self._db = None
        self._close()

    def bad(self, key: bytes, what: object, **details: Unpack[Details]) -> CaffeliteError:
        """The error that names a record."""
        return CaffeliteError(f'record "{shown(key)}": {what}', where=Where(str(self.path)), **details)


def shown(key: bytes) -> str:
    return key.decode(errors="backslashreplace")


def objects(value: bytes) -> Objects | None:
    """The objects of an AnnotatedDatum record; None of a Datum. Errors: ValueError where it is neither."""
    return objects_of(parsed(value)) if value[:1] == ANNOTATED else None


def read(value: bytes, decoder: Decoder = AS_CAFFE) -> tuple[pb.Datum, np.ndarray]:
    """A record's message and its image, C×H×W of uint8 or float32; of an AnnotatedDatum those of its datum. decoder: of
    encoded images. Errors: ValueError where it is no Datum, or not of the size it says."""
    from google.protobuf.message import DecodeError

    try:
        datum = parsed(value).datum if value[:1] == ANNOTATED else pb.Datum.FromString(value)
    except DecodeError:
        raise ValueError("not a Datum record") from None
    if datum.encoded:
        return datum, decoder(datum.data)
    shape = datum.channels, datum.height, datum.width
    values = np.frombuffer(datum.data, np.uint8) if datum.data else np.array(datum.float_data, np.float32)
    if min(shape) < 1 or values.size != math.prod(shape):
        raise ValueError(f"{values.size} values, but its header states {'×'.join(map(str, shape))}")
    return datum, values.reshape(shape)
