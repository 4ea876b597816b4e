"""CustomData: FlowNet's records in slices of channels."""

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.errors import CaffeliteError

SLICES = "slice_point: 3 slice_point: 5 encoding: UINT8 encoding: UINT16FLOW encoding: BOOL1"


@pytest.fixture
def stored(records):
    """Images, flows and masks, and the path of their records."""
    rng = np.random.default_rng(5)
    images = rng.integers(0, 256, (6, 3, 3, 5)).astype(np.uint8)
    flows = rng.integers(-3200, 3200, (6, 2, 3, 5)).astype("<i2")
    flows[:, 0, 0, 0] = np.iinfo(np.int16).max
    masks = rng.integers(0, 2, (6, 1, 3, 5)).astype(np.uint8)
    datums = [
        pb.Datum(
            channels=6,
            height=3,
            width=5,
            label=i,
            data=image.tobytes() + flow.tobytes() + np.packbits(mask, bitorder="little").tobytes(),
        )
        for i, (image, flow, mask) in enumerate(zip(images, flows, masks, strict=True))
    ]
    unknown = np.where(flows == 32767, np.nan, flows / 32)
    return images, unknown, masks, records(datums)


def layer(path, more="", tops=3):
    names = " ".join(f'top: "t{i}"' for i in range(tops))
    return f'type: "CustomData" {names} data_param {{ source: "{path}" backend: LMDB batch_size: 2 {more} }}'


def test_slices(stored, source):
    *arrays, path = stored
    opened = source(layer(path, SLICES, 4))
    assert opened.shapes == [(2, 3, 3, 5), (2, 2, 3, 5), (2, 1, 3, 5), (2,)]
    for start in (0, 2, 4, 0):
        *actual, labels = opened.next()
        for values, expected in zip(actual, arrays, strict=True):
            np.testing.assert_array_equal(values, expected[start : start + 2])
        assert labels.tolist() == [start, start + 1]


def test_range_order_and_numbers(stored, source):
    images, *_, path = stored
    means = " ".join(f"subtract: {i}" for i in range(6))
    opened = source(layer(path, f"{SLICES} {means} scale: 0.5 range_start: 1 range_end: 4", 4))
    first, *_, labels = opened.next()
    assert labels.tolist() == [1, 2]
    np.testing.assert_array_equal(first, (images[1:3] - np.arange(3.0)[:, None, None]) / 2)
    permuted = "rand_permute: true rand_permute_order: FIRST_RANGE_THEN_PERMUTE range_start: 2"
    opened = source(layer(path, f"{SLICES} {permuted}", 4))
    seen = [opened.next()[-1].tolist() for _ in range(4)]
    assert sorted(seen[0] + seen[1]) == sorted(seen[2] + seen[3]) == [2, 3, 4, 5]


def test_records_of_bytes_and_of_numbers(records, source):
    for name, kind in (("bytes", np.uint8), ("numbers", np.float32)):
        image = np.arange(24).reshape(4, 2, 3).astype(kind)
        values = {"data": image.tobytes()} if kind is np.uint8 else {"float_data": image.ravel()}
        path = records([pb.Datum(channels=4, height=2, width=3, **values)] * 2, name)
        first, second = source(layer(path, "slice_point: 1", 2)).next()
        np.testing.assert_array_equal(np.concatenate([first[0], second[0]]), image)


@pytest.mark.parametrize(
    ("more", "tops", "message"),
    [
        ("slice_point: 3", 1, "another number of tops; expected 2, or one more for labels, found 1"),
        ("slice_point: 3 slice_point: 2", 3, "slice_point must increase"),
        ("slice_point: 6", 2, "wrong shape; expected more than 6 channels"),
        ("encoding: UINT8 encoding: UINT8", 1, "a bad number of encoding; expected 1, one for each slice, found 2"),
        ("encoding: UINT16FLOW", 1, "slice 0 has too few bytes"),
        ("encoding: BOOL1", 1, "slice 0 is of BOOL1; expected 1 channel, found 6"),
        ("subtract: 1", 1, "a bad number of subtract; expected 6, one for each channel, found 1"),
        ("mirror: true", 1, "mirror is not supported; use a DataAugmentation layer"),
        ("rand_permute: true range_end: 3", 1, "rand_permute before a range is not supported"),
        ("range_start: 3 range_end: 2", 1, "range_end is before range_start"),
    ],
)
def test_mistakes(more, tops, message, records, source):
    path = records([pb.Datum(channels=6, height=2, width=3, data=bytes(36))])
    if "range_start" in more:
        path = records([pb.Datum(channels=6, height=2, width=3, data=bytes(36))] * 5, "more")
    with pytest.raises(CaffeliteError, match=message):
        source(layer(path, more, tops))


def test_a_data_layer_has_no_slices(records, source):
    path = records([pb.Datum(channels=1, height=2, width=3, data=bytes(6))])
    with pytest.raises(CaffeliteError, match="slice_point is for a CustomData layer; leave it out"):
        source(layer(path, "slice_point: 1", 1).replace("CustomData", "Data"))


def test_a_label_that_float32_rounds_is_an_error(records, source):
    path = records([pb.Datum(channels=1, height=1, width=2, data=b"ab", label=2**24 + 1)] * 2)
    with pytest.raises(CaffeliteError, match="the label is not exact in float32"):
        source(layer(path, "", 2)).next()
