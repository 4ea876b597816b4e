"""Features against the Python API's own blobs."""

import h5py
import lmdb
import numpy as np
import pytest

import caffelite
from caffelite import caffelite_pb2 as pb


@pytest.fixture
def model(folder):
    """net.prototxt of the fixture with its weights; 13 rows in batches of 4."""
    caffelite.Net("net.prototxt", seed=3).save("w.caffemodel")
    return folder


def expected(name, batches):
    net = caffelite.Net("net.prototxt", "w.caffemodel", stages=("more",))
    rows = []
    for _ in range(batches):
        net.forward()
        rows.append(np.array(net.blobs[name].data))
    net._net.close()
    return np.concatenate(rows)


def test_lmdb_with_caffes_arguments(model, call):
    result = call("extract_features", "w.caffemodel", "net.prototxt", "value,x", "a,b", 4, "lmdb", "CPU", 0).ok
    assert "Extracted features of 16 query images for feature blob value to a" in result.lines
    for name, blob in (("a", "value"), ("b", "x")):
        with lmdb.open(name, readonly=True, lock=False) as db, db.begin() as transaction:
            records = [(key, pb.Datum.FromString(value)) for key, value in transaction.cursor()]
        assert [key for key, _ in records] == [b"%010d" % i for i in range(16)]
        assert np.array_equal(np.array([d.float_data for _, d in records], np.float32), expected(blob, 4)), (
            "the data wraps around"
        )


def test_hdf5_and_npz_take_one_name(model, call):
    for kind in ("hdf5", "npz"):
        result = call(f"extract_features w.caffemodel net.prototxt sigmoid,y f.{kind} 2 {kind} -stage more")
        assert result.status == 0, result.err
    with h5py.File("f.hdf5") as file, np.load("f.npz") as arrays:
        for name in ("sigmoid", "y"):
            assert (file[name][()] == expected(name, 2)).all() and (arrays[name] == expected(name, 2)).all()
    assert (model / "f.txt").read_text() == "f.hdf5\n"


def test_a_loss_is_a_row_a_batch(model, call):
    assert call("extract_features", "w.caffemodel", "net.prototxt", "loss", "f.npz", 3, "npz").status == 0
    with np.load("f.npz") as arrays:
        assert arrays["loss"].shape == (3,) and len(set(arrays["loss"])) == 3


def test_the_phase_is_test(model, call):
    layer = (
        'layer { name: "sign" type: "Power" bottom: "x" top: "sign" power_param { scale: -1 } include { phase: TEST } }'
    )
    (model / "net.prototxt").write_text((model / "net.prototxt").read_text() + layer)
    assert call("extract_features", "w.caffemodel", "net.prototxt", "sign,x", "f.npz", 1, "npz").status == 0
    with np.load("f.npz") as arrays:
        assert (arrays["sign"] == -arrays["x"]).all()


@pytest.mark.parametrize(
    "arguments, said",
    [
        (
            ["w.caffemodel", "net.prototxt", "vale", "f", 1, "npz"],
            'the net has no blob "vale"; expected one of x, y, value, loss; did you',
        ),
        (
            ["w.caffemodel", "net.prototxt", "value,x", "f", 1, "lmdb"],
            "wrong number of names to write to; expected 2, one for each blob",
        ),
        (
            ["w.caffemodel", "net.prototxt", "value", "f", 1, "tiff"],
            "'tiff' is not one of 'lmdb', 'leveldb', 'hdf5', 'npz'",
        ),
        (["w.caffemodel", "net.prototxt", "value", "f", 0, "npz"], "0 is not in the range"),
        (["none.caffemodel", "net.prototxt", "value", "f", 1, "npz"], "none.caffemodel"),
        (["w.caffemodel", "net.prototxt", "value", "taken", 1, "npz"], "taken: already exists; give --force"),
    ],
)
def test_mistakes(model, call, arguments, said):
    (model / "taken").write_text("mine")
    before = sorted(path.name for path in model.iterdir())
    assert said in call("extract_features", *arguments).refused.err
    assert sorted(path.name for path in model.iterdir()) == before
