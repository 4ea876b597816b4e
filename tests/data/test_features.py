from pathlib import Path

import h5py
import numpy as np
import pytest
from test_writers import read

from caffelite.data.drafts import together
from caffelite.data.features import destinations, features, outputs
from caffelite.errors import CaffeliteError

ROWS = {
    "fc": np.arange(12, dtype=np.float32).reshape(2, 6),
    "a/map": np.arange(48, dtype=np.float32).reshape(2, 2, 3, 4),
}
SHAPES = {name: rows.shape[1:] for name, rows in ROWS.items()}


def write(kind, path, names, force=False):
    with (
        together(outputs(kind, path), force) as drafts,
        features(kind, path, {name: SHAPES[name] for name in names}, drafts) as add,
    ):
        add(ROWS)
        add({name: -rows for name, rows in ROWS.items()})


@pytest.mark.parametrize("name, shape", [("fc", (6, 1, 1)), ("a/map", (2, 3, 4))])
def test_lmdb_has_the_keys_and_records_of_caffe(tmp_path, name, shape):
    write("lmdb", tmp_path / "db", [name])
    got = read(tmp_path / "db")
    assert [key for key, _ in got] == [b"%010d" % i for i in range(4)]
    for (_, datum), row in zip(got, np.concatenate([ROWS[name], -ROWS[name]]), strict=True):
        assert (datum.channels, datum.height, datum.width) == shape and datum.float_data == row.ravel().tolist()
        assert not datum.data


def test_hdf5_and_npz_hold_all_names(tmp_path):
    write("hdf5", tmp_path / "f.h5", ROWS)
    write("npz", tmp_path / "f.npz", ROWS)
    assert (tmp_path / "f.txt").read_text() == "f.h5\n"
    with h5py.File(tmp_path / "f.h5") as file, np.load(tmp_path / "f.npz") as arrays:
        for name, rows in ROWS.items():
            for got in (file[name][()], arrays[name]):
                assert got.dtype == np.float32 and (got == np.concatenate([rows, -rows])).all()


@pytest.mark.parametrize("kind", ["lmdb", "hdf5", "npz"])
def test_a_failure_leaves_nothing_and_what_is_there_stays(tmp_path, kind):
    path = tmp_path / "f.x"
    with (
        pytest.raises(ZeroDivisionError),
        together(outputs(kind, path), False) as drafts,
        features(kind, path, {"fc": (6,)}, drafts) as add,
    ):
        add(ROWS)
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())
    (tmp_path / "f.x").write_text("mine")
    with pytest.raises(CaffeliteError, match=r"f\.x: already exists"):
        write(kind, tmp_path / "f.x", ["fc"])
    assert [p.read_text() for p in tmp_path.iterdir()] == ["mine"]
    write(kind, tmp_path / "f.x", ["fc"], force=True)


def test_rows_of_four_axes_are_no_datum(tmp_path):
    message = 'a Datum cannot hold rows of "x"; expected C×H×W, found 1×2×3×4; write hdf5 or npz'
    path = tmp_path / "db"
    with pytest.raises(CaffeliteError, match=message), together([path], False) as drafts:
        with features("lmdb", path, {"x": (1, 2, 3, 4)}, drafts):
            pass


def test_destinations():
    assert destinations(["a", "b"], ["x", "y"], "lmdb") == [(Path("x"), ["a"]), (Path("y"), ["b"])]
    assert destinations(["a", "b"], ["x"], "npz") == [(Path("x"), ["a", "b"])]
    for blobs, names, message in (
        (["a", "b"], ["x"], "expected 2, one"),
        (["a"] * 2, ["x", "y"], '"a" is given'),
        (["a", "b"], ["x"] * 2, '"x" is'),
    ):
        with pytest.raises(CaffeliteError, match=message):
            destinations(blobs, names, "lmdb")
