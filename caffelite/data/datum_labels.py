"""The labels of Datum records of forks, of which some have several, or a float.

Forks agree on two ways to store them: `label` repeated, of integers (bicelove/caffe-multiTags,
xiaxiongwei/caffe-multilabel, Steven-Ho/caffe-multilabel) or floats (bogger/caffe-multilabel; one float:
jolibrain/caffe); and a repeated float 8 beside `label` (dlunion/CC4.0, afterimagex/caffe-multi-label).
"""

import numpy as np
from google.protobuf.unknown_fields import UnknownFieldSet

from .. import caffelite_pb2 as pb
from ..weights.caffemodel import FIXED32, LENGTH, VARINT, Damaged, fields

_LABEL = pb.Datum.LABEL_FIELD_NUMBER
_LABELS = 8  # of another name in other forks, where it is no float


def labels_of(datum: pb.Datum, value: bytes) -> list[int] | list[float]:
    """The labels of a record, at least one. value: the bytes of datum. Errors: ValueError where it is no Datum."""
    # what a message read but has no room for is repeated or unknown
    if datum.ByteSize() == len(value) and not len(UnknownFieldSet(datum)):
        return [datum.label]
    return _stored(value) or [datum.label]


def _stored(value: bytes) -> list[int] | list[float]:
    """The values of the fields that are labels."""
    integers: list[int] = []
    floats: dict[int, list[float]] = {_LABEL: [], _LABELS: []}
    try:
        for number, wire, content, _ in fields(memoryview(value)):
            if number == _LABEL and wire == VARINT:
                integers.append(content - (1 << 64) * (content >> 63))
            elif number in floats and wire in (FIXED32, LENGTH) and not len(content) % 4:
                floats[number] += np.frombuffer(content, "<f4").tolist()
    except Damaged:
        raise ValueError("not a Datum record") from None
    return floats[_LABELS] or floats[_LABEL] or integers
