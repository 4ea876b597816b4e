"""Records of forks that have several labels, or a float: one top of all, or a top for each."""

import struct

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data.database import Database
from caffelite.data.datum_labels import labels_of
from caffelite.errors import CaffeliteError

COUNT = 5


def varints(values):
    """Field 5, repeated."""
    return b"".join(pb.Datum(label=value).SerializeToString() for value in values)


def floats(values):
    """Field 5, repeated floats."""
    return b"".join(b"\x2d" + struct.pack("<f", value) for value in values)


def packed(values):
    return bytes((0x2A, 4 * len(values))) + struct.pack(f"<{len(values)}f", *values)


def beside(values):
    """A label 7, and field 8, repeated floats."""
    return pb.Datum(label=7).SerializeToString() + b"".join(b"\x45" + struct.pack("<f", value) for value in values)


PIXELS = pb.Datum(channels=1, height=2, width=2, data=b"\1\2\3\4").SerializeToString()
# what float32 holds
ROWS = [[i, -i, 2 * i] for i in range(COUNT)]


@pytest.fixture
def set_of(records):
    return lambda labels: records([PIXELS + each for each in labels])


@pytest.fixture
def batch_of(set_of, source):
    def read(labels, tops, extra="", batch=COUNT):
        param = f'data_param {{ source: "{set_of(labels)}" backend: LMDB batch_size: {batch} }}'
        return [array.copy() for array in source(f'type: "Data" {tops} {param} {extra}').next()]

    return read


TWO, FOUR = 'top: "data" top: "label"', 'top: "data" top: "a" top: "b" top: "c"'


@pytest.mark.parametrize("stored", [varints, floats, packed, beside])
@pytest.mark.parametrize("tops", [TWO, FOUR])
@pytest.mark.parametrize("transform", ["crop_size: 1", "perturb_param { noise_sigma_min: 1 noise_sigma_max: 2 }"])
def test_forks_store_several_labels(batch_of, stored, tops, transform):
    """In memory and read one by one."""
    _, *labels = batch_of([stored(row) for row in ROWS], tops, f"transform_param {{ {transform} }}")
    if tops == TWO:
        assert np.array_equal(labels, [ROWS])
        return
    assert [each.shape for each in labels] == [(COUNT,)] * 3 and np.array_equal(np.stack(labels, 1), ROWS)


def test_one_float_label(batch_of):
    _, label = batch_of([floats([0.5])] * COUNT, TWO)
    assert label.shape == (COUNT,) and (label == 0.5).all()


@pytest.mark.parametrize("extra", [b"\x40\x07", b"\x42\x03abc"])
def test_other_fields_are_no_labels(extra):
    """8 is a number or a text in other forks."""
    value = PIXELS + pb.Datum(label=3).SerializeToString() + extra
    assert labels_of(pb.Datum.FromString(value), value) == [3]


@pytest.mark.parametrize(
    "labels, tops, found",
    [
        ([varints([1])], FOUR, "has 3 tops of labels; expected 1, as each record has, found 3"),
        ([varints([1, 2])], FOUR, "has 3 tops of labels; expected 1, or 2, as each record has 2 labels, found 3"),
        ([varints([1, 2]), varints([1])], TWO, "another number of labels; expected 2, as in the first record, found 1"),
        ([varints([1]), varints([1, 2])], TWO, "another number of labels; expected 1, as in the first record, found 2"),
        ([varints([1, 1 << 25])], TWO, "the label is not exact in float32"),
        ([varints([1, 2])], TWO + " transform_param { mixup_param { alpha: 1 prob: 1 classes: 3 } }", "found 2 labels"),
    ],
)
def test_wrong_numbers_of_labels(batch_of, labels, tops, found):
    with pytest.raises(CaffeliteError, match=found):
        batch_of(labels, tops, batch=2)


def test_all_labels_of_a_set(set_of):
    database = Database(set_of(list(map(varints, ROWS))))
    try:
        assert database.labels(9).size == 0 and np.array_equal(database.all_labels(), ROWS)
        assert np.array_equal(database.sampled(np.array([1, 3]))[1], [ROWS[1], ROWS[3]])
    finally:
        database.close()
