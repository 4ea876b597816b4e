"""Records of annotated images: AnnotatedDatum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import caffelite_pb2 as pb
from .database import Database, Datums
from .leveldb import LevelDB
from .lmdb_reader import Record


@dataclass
class Objects:
    """The objects of an image: boxes (G, 4) as shares of its sides; for each its class, its number among the objects of
    the class, and whether it is difficult (G, 3)."""

    boxes: np.ndarray
    others: np.ndarray

    def selected(self, which: np.ndarray, boxes: np.ndarray) -> Objects:
        """Some of them, with other boxes (of all)."""
        return Objects(boxes[which], self.others[which])


def objects_of(record: pb.AnnotatedDatum) -> Objects:
    """The objects of a record, in its order."""
    rows = [
        (
            *(one.bbox.xmin, one.bbox.ymin, one.bbox.xmax, one.bbox.ymax),
            *(group.group_label, one.instance_id, one.bbox.difficult),
        )
        for group in record.annotation_group
        for one in group.annotation
    ]
    table = np.array(rows, float).reshape(-1, 7)
    return Objects(table[:, :4], table[:, 4:])


def parsed(value: bytes) -> pb.AnnotatedDatum:
    """A record. Errors: ValueError where it is none."""
    from google.protobuf.message import DecodeError

    try:
        record = pb.AnnotatedDatum.FromString(value)
    except DecodeError:
        raise ValueError("not an AnnotatedDatum record") from None
    if not record.HasField("datum"):
        raise ValueError("not an AnnotatedDatum record: it has no datum")
    return record


class _Annotated(Datums):
    """The datums within AnnotatedDatum records."""

    def look(self) -> None:
        if self.length:
            try:
                self.encoded = parsed(next(self.walk(0))[1]).datum.encoded
            except ValueError as mistake:
                raise self.error(0, next(self.walk(0)), str(mistake)) from None
        encoded = self.encoded
        super().look()
        self.encoded = encoded

    def image(self, number: int, content: Record) -> tuple[np.ndarray, int]:
        try:
            record = parsed(content[1])
        except ValueError as mistake:
            raise self.error(number, content, str(mistake)) from None
        return super().image(number, (content[0], record.datum.SerializeToString()))


class AnnotatedDatabase(_Annotated, Database):
    """The records of an LMDB of AnnotatedDatum."""


class AnnotatedLevelDB(_Annotated, LevelDB):
    """The records of a LevelDB of AnnotatedDatum."""
