"""Databases of Datum records, indexed in the order of their keys: LMDB, and the code that LevelDB shares with it."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from google.protobuf.message import DecodeError

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Details, Where, closed_on_failure
from .datum_labels import labels_of
from .lmdb_reader import Lmdb, Record
from .pictures import AS_CAFFE, Decoder
from .samples import Check, Label, Samples
from .writers import progress_bar

MOST_INDEXED = 4_000_000  # records of a database of which all pages are located at the start
AT_ONCE = 16  # records that are read together where all are wanted
EXACT_LABELS = 1 << 24  # float32 represents every integer up to here


class Datums(Samples[Record]):
    """Datum records of any database; a kind of it implements `walk`, `read` and `close`, and calls `look` when it is
    open.

    decoder: of encoded records. Errors: no records; for a record: its key and what is wrong with it.
    """

    def __init__(self, path: Path, decoder: Decoder):
        self.path, self.decoder = path, decoder

    def walk(self, start: int) -> Iterator[Record]:
        """(key, value) of the records from one on."""
        raise NotImplementedError

    def all(self) -> Iterator[Record]:
        """Every record, where all are wanted."""
        return self.walk(0)

    def look(self) -> None:
        """Determines the properties of the images from the first record."""
        if not self.length:
            raise Where(str(self.path)).error("the database is empty")
        record = next(self.walk(0))
        self.label_shape = np.shape(self._label(record, self.datum(record)))
        self.first, _ = self.image(0, record)
        self.encoded = pb.Datum.FromString(record[1]).encoded

    def load_all(self, most: int, check: Check) -> tuple[np.ndarray, np.ndarray] | None:
        if self.first.nbytes * self.length > most:
            return None
        images = np.empty((self.length, *self.first.shape), self.first.dtype)
        labels = np.empty((self.length, *self.label_shape), np.float32)
        for i, record in enumerate(self.all()):
            image, labels[i] = self.image(i, record)
            if image.shape != images.shape[1:] or image.dtype != images.dtype:
                try:
                    check(image.shape)
                except CaffeliteError as mistake:
                    raise self.error(i, record, str(mistake)) from None
                return None  # they differ, but the transform makes them equal
            images[i] = image
        return images, labels

    def datum(self, content: Record) -> pb.Datum:
        key, value = content
        try:
            return pb.Datum.FromString(value)
        except DecodeError:
            raise self._bad(key, "not a Datum record") from None

    def _label(self, content: Record, datum: pb.Datum) -> Label:
        """The label of a record; of a record with several an array."""
        key, value = content
        try:
            labels = labels_of(datum, value)
        except ValueError as mistake:
            raise self._bad(key, str(mistake)) from None
        for label in labels:
            if isinstance(label, int) and abs(label) > EXACT_LABELS:
                expected = f"at most {EXACT_LABELS}"
                raise self._bad(key, "the label is not exact in float32", expected=expected, found=label)
        return labels[0] if len(labels) == 1 else np.array(labels, np.float32)

    def _label_of_all(self, content: Record, datum: pb.Datum) -> Label:
        """As many labels of a record as the first record has."""
        label = self._label(content, datum)
        if np.shape(label) != self.label_shape:
            first, found = (shape[0] if shape else 1 for shape in (self.label_shape, np.shape(label)))
            expected = f"{first}, as in the first record"
            raise self._bad(content[0], "another number of labels", expected=expected, found=found)
        return label

    def image(self, number: int, content: Record) -> tuple[np.ndarray, Label]:
        key, datum = content[0], self.datum(content)
        label = self._label_of_all(content, datum)
        if datum.encoded:
            try:
                return self.decoder(datum.data), label
            except ValueError as mistake:
                raise self._bad(key, str(mistake)) from None
        shape = datum.channels, datum.height, datum.width
        values = np.frombuffer(datum.data, np.uint8) if datum.data else np.array(datum.float_data, np.float32)
        if min(shape) < 1:
            raise self._bad(key, "the shape has an axis below 1", found="×".join(map(str, shape)))
        if values.size != math.prod(shape):
            raise self._bad(key, "wrong number of values", expected="×".join(map(str, shape)), found=values.size)
        return values.reshape(shape), label

    def picture(self, number: int, content: Record) -> bytes | np.ndarray:
        datum = self.datum(content)
        return datum.data if datum.encoded else self.image(number, content)[0]

    def error(self, number: int, content: Record, what: str) -> CaffeliteError:
        return self._bad(content[0], what)

    def _bad(self, key: bytes, what: str, **details: Unpack[Details]) -> CaffeliteError:
        return CaffeliteError(
            f'record "{bytes(key).decode(errors="backslashreplace")}": {what}', where=Where(str(self.path)), **details
        )

    def sampled(self, indices: np.ndarray) -> tuple[list[Any], np.ndarray | None]:
        records = self.at(indices)
        datums = [self.datum(record) for record in records]
        contents = [datum.data or np.array(datum.float_data, np.float32) for datum in datums]
        labels = [self._label_of_all(record, datum) for record, datum in zip(records, datums, strict=True)]
        return contents, np.array(labels, np.float64)

    def at(self, indices: np.ndarray) -> Sequence[Record]:
        """The records by which a data set is known."""
        return self.read(indices)

    def name(self, number: int) -> str:
        (content,) = self.read(np.array([number]))
        return bytes(content[0]).decode(errors="backslashreplace")

    def labels(self, most: int) -> np.ndarray:
        labels: list[Label] = []
        if self.label_shape:
            return np.empty(0)
        for _, record in zip(range(most), self.walk(0), strict=False):
            try:
                labels.append(self._label_of_all(record, self.datum(record)))
            except CaffeliteError:  # training reports it
                break
        return np.array(labels, np.float64)

    def _read_labels(self) -> np.ndarray:
        labels = np.empty((self.length, *self.label_shape))
        with progress_bar(f"labels of {self.path.name}", self.length, unit="records") as bar:
            for i, record in enumerate(self.all()):
                labels[i] = self._label_of_all(record, self.datum(record))
                bar.update()
        return labels


class Database(Datums):
    """The records of one LMDB. Errors besides: no such folder, not an LMDB, truncated, damaged, changed while it is
    read."""

    def __init__(self, path: Path, decoder: Decoder = AS_CAFFE):
        super().__init__(path, decoder)
        self._lmdb = Lmdb(path)
        with closed_on_failure(self):
            self.length = self._lmdb.length
            self.look()

    def walk(self, start: int) -> Iterator[Record]:
        return self._lmdb.walk(start)

    def all(self) -> Iterator[Record]:
        for start in range(0, self.length, AT_ONCE):
            yield from self._lmdb.read(range(start, min(start + AT_ONCE, self.length)))

    def read(self, indices: np.ndarray) -> Sequence[Record]:
        return self._lmdb.read(indices.tolist())

    def at(self, indices: np.ndarray) -> Sequence[Record]:
        return self.read(np.arange(len(indices)) if self.length > MOST_INDEXED else indices)

    def close(self) -> None:
        self._lmdb.close()
