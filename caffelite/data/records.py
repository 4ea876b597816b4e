"""The records of a database as they are stored, one by one: for tools, which must get along with records that no net would take."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from caffelite import caffelite_pb2 as pb
from caffelite.data import database
from caffelite.data.convert import is_cut
from caffelite.data.images import decode
from caffelite.errors import CaffeliteError, Where


class Records:
    """(key, value) of every record of an LMDB, in the order of the keys. Errors: no database, a truncated or an empty one."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self._identity, self._env = database._open(self.path)
        self._length = self._env.stat()["entries"]
        if not self._length:
            self.__exit__()
            raise CaffeliteError("the database is empty", where=Where(str(path)))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        import lmdb

        try:
            with self._env.begin() as transaction, transaction.cursor() as cursor:
                yield from cursor
        except lmdb.Error as mistake:
            raise CaffeliteError(f"cannot read the LMDB: {mistake}", where=Where(str(self.path))) from None

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        database._close(self._identity)

    def bad(self, key: bytes, what: object, **said: object) -> CaffeliteError:
        """The error that names a record."""
        return CaffeliteError(f'record "{shown(key)}": {what}', where=Where(str(self.path)), **said)


def shown(key: bytes) -> str:
    return key.decode(errors="backslashreplace")


def read(value: bytes) -> tuple[pb.Datum, np.ndarray]:
    """A record's message and its image, C×H×W of uint8 or float32. Errors: ValueError where it is no Datum, or not of the size it says."""
    from google.protobuf.message import DecodeError

    try:
        datum = pb.Datum.FromString(value)
    except DecodeError:
        raise ValueError("not a Datum record") from None
    if datum.encoded:
        if is_cut(datum.data):
            raise ValueError("the JPEG is cut short")
        return datum, decode(datum.data)
    shape = datum.channels, datum.height, datum.width
    values = np.frombuffer(datum.data, np.uint8) if datum.data else np.array(datum.float_data, np.float32)
    if min(shape) < 0 or values.size != math.prod(shape) or not values.size:
        raise ValueError(f"{values.size} values, yet it says {'×'.join(map(str, shape))}")
    return datum, values.reshape(shape)
