"""NaN and infinity in data that are stored as floats: named in the first epoch of a run, and by check."""

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data import pipeline, samples
from caffelite.data.pipeline import rows_not_finite
from caffelite.data.writers import write_hdf5
from caffelite.inspection.check import check

BAD = np.ones((9, 1, 2, 2), np.float32)
BAD[5, 0, 1, 1], BAD[7, 0, 0, 0] = np.nan, np.inf


@pytest.fixture
def layers(in_tmp_path, records):
    """The same samples, the sixth and the eighth of them bad, as HDF5 rows, float records and an array; by kind."""
    write_hdf5("rows.h5", {"data": BAD, "label": np.zeros(9)})
    shape = {"channels": 1, "height": 2, "width": 2}
    records([pb.Datum(float_data=image.ravel(), label=0, **shape) for image in BAD])
    np.save("images.npy", BAD)
    tops = 'top: "data" top: "label"'
    return {
        "rows": f'type: "HDF5Data" {tops} hdf5_data_param {{ source: "rows.txt" batch_size: 3 }}',
        "shuffled": f'type: "HDF5Data" {tops} hdf5_data_param {{ source: "rows.txt" batch_size: 3 shuffle: true }}',
        "database": f'type: "Data" {tops} data_param {{ source: "db" backend: LMDB batch_size: 3 }}',
        "array": f'type: "Data" {tops} data_param {{ source: "images.npy" backend: ARRAYS batch_size: 3 }}',
    }


NAMES = {
    "rows": ["row 5 of rows.h5", "row 7 of rows.h5"],
    "shuffled": ["row 5 of rows.h5", "row 7 of rows.h5"],
    "database": ["sample 5 (00000005)", "sample 7 (00000007)"],
    "array": ["sample 5", "sample 7"],
}


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("kind", NAMES)
def test_the_first_epoch_names_samples(layers, source, caplog, monkeypatch, kind, memory):
    if not memory:
        monkeypatch.setattr(samples, "RESIDENT_BYTES", 0)
    opened = source(layers[kind])
    batches = [[array.copy() for array in opened.next()] for _ in range(3)]
    named = " ".join(caplog.messages)
    assert all(name in named for name in NAMES[kind])
    assert named.count(" of rows" if "of" in NAMES[kind][0] else "sample ") == 2
    caplog.clear()
    opened.next()
    assert not caplog.messages, "the second epoch is silent"
    assert sorted(np.isfinite(images).all((1, 2, 3)).sum() for images, _ in batches) in ([1, 3, 3], [2, 2, 3])


def test_no_more_than_a_few_are_named(layers, source, caplog, monkeypatch):
    monkeypatch.setattr(pipeline, "MOST_NAMED", 1)
    opened = source(layers["rows"])
    for _ in range(3):
        opened.next()
    assert caplog.messages == ["the data hold NaN or infinity: row 5 of rows.h5; no more are named"]


@pytest.mark.parametrize("kind", ["rows", "database"])
def test_a_sample_that_is_read_again_is_named_once(layers, source, caplog, kind):
    """As by the diagnosis of a loss that is not finite, which repeats an iteration."""
    opened = source(layers[kind])
    for _ in range(2):
        opened.seek(0)
        for _ in range(3):
            opened.next()
    assert [" ".join(caplog.messages).count(name) for name in NAMES[kind]] == [1, 1]
    assert opened.bad_samples == NAMES[kind]


@pytest.mark.parametrize("kind", NAMES)
def test_check_names_samples(layers, kind):
    with open("net.prototxt", "w") as file:
        file.write(f'layer {{ name: "in" {layers[kind]} }}')
    actual = [one.error for one in check("net.prototxt") if "NaN" in one.error.what]
    assert [error.found for error in actual] == [", ".join(NAMES[kind])] * len(actual) and actual


@pytest.mark.parametrize("most, count", [(1, 1), (4, 1), (8, 2), (11, 2), (40, 9)])
def test_at_least_one_sample_is_looked_at(in_tmp_path, source, most, count):
    """A sample has four numbers; ``most`` may be fewer."""
    np.save("images.npy", np.full((9, 1, 2, 2), np.nan, np.float32))
    opened = source('type: "Data" top: "data" data_param { source: "images.npy" backend: ARRAYS batch_size: 3 }')
    assert opened.not_finite(most) == [f"sample {i}" for i in range(count)]


def test_large_sums_are_finite():
    """The sum of a row overflows, and the row is finite."""
    values = np.full((3, 4), 3e38, np.float32)
    assert rows_not_finite([values, np.zeros((3, 2), np.uint8), np.full((2, 2), np.nan)], 3) == []
    values[1, 2] = -np.inf
    assert rows_not_finite([values], 3) == [1]
