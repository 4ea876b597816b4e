import os
import resource
import sys

import h5py
import lmdb
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data import features, writers
from caffelite.data.drafts import together
from caffelite.data.writers import write_hdf5, write_lmdb
from caffelite.errors import CaffeliteError


def read(path):
    with lmdb.open(str(path), readonly=True, lock=False) as db, db.begin() as transaction:
        return [(key, pb.Datum.FromString(value)) for key, value in transaction.cursor()]


def samples(count, side=4):
    images = np.random.default_rng(count).integers(0, 256, (count, 2, side, side)).astype(np.uint8)
    return [(image, i % 10) for i, image in enumerate(images)]


def test_what_is_written_is_what_is_read(tmp_path):
    given = samples(2500)
    assert write_lmdb(tmp_path / "db", iter(given)) == 2500
    got = read(tmp_path / "db")
    assert [key for key, _ in got] == [b"%08d" % i for i in range(2500)]
    for (image, label), (_, datum) in zip(given, got, strict=True):
        assert (datum.channels, datum.height, datum.width, datum.label) == (2, 4, 4, label)
        assert datum.data == image.tobytes()
    assert os.listdir(tmp_path) == ["db"] and os.listdir(tmp_path / "db") == ["data.mdb"]


def test_the_map_grows_as_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(writers, "FIRST_MAP_BYTES", 1 << 16)
    write_lmdb(tmp_path / "db", samples(300, side=50))
    assert len(read(tmp_path / "db")) == 300
    assert (tmp_path / "db" / "data.mdb").stat().st_size < 4 << 20


def test_an_existing_path_stays_unless_forced(tmp_path):
    write_lmdb(tmp_path / "db", samples(3))
    with pytest.raises(CaffeliteError, match="db: already exists; give --force to replace it"):
        write_lmdb(tmp_path / "db", samples(2))
    assert len(read(tmp_path / "db")) == 3
    write_lmdb(tmp_path / "db", samples(2), force=True)
    assert len(read(tmp_path / "db")) == 2 and os.listdir(tmp_path) == ["db"]


def test_an_interrupted_writing_leaves_what_was_there(tmp_path):
    def broken():
        yield from samples(1500)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lmdb(tmp_path / "new", broken())
    assert os.listdir(tmp_path) == []
    write_lmdb(tmp_path / "db", samples(3))
    with pytest.raises(KeyboardInterrupt):
        write_lmdb(tmp_path / "db", broken(), force=True)
    assert len(read(tmp_path / "db")) == 3 and os.listdir(tmp_path) == ["db"]


@pytest.mark.parametrize("image", [np.zeros((4, 4), np.uint8), np.zeros((1, 4, 4), np.float32)])
def test_samples_of_another_kind(tmp_path, image):
    with pytest.raises(CaffeliteError, match="sample 0; expected C×H×W of uint8"):
        write_lmdb(tmp_path / "db", [(image, 0)])


def test_no_samples(tmp_path):
    with pytest.raises(CaffeliteError, match="no samples"):
        write_lmdb(tmp_path / "db", [])
    assert os.listdir(tmp_path) == []


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CaffeliteError, match="cannot write"):
        write_lmdb(tmp_path / "file" / "db", samples(1))


def test_hdf5_and_its_list(tmp_path):
    write_hdf5(tmp_path / "a.h5", {"data": np.arange(6).reshape(3, 2)})
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["data"].dtype == np.float32 and file["data"][()].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert (tmp_path / "a.txt").read_text() == "a.h5\n" and sorted(os.listdir(tmp_path)) == ["a.h5", "a.txt"]
    with pytest.raises(CaffeliteError, match="already exists"):
        write_hdf5(tmp_path / "a.h5", {})


def test_a_leveldb_holds_the_same_records(tmp_path):
    plyvel = pytest.importorskip("plyvel")
    records = [(b"%08d" % i, bytes([i % 7]) * i) for i in range(2500)]
    assert writers.write_records(tmp_path / "db", iter(records), backend="leveldb") == 2500
    db = plyvel.DB(str(tmp_path / "db"))
    assert list(db) == records
    db.close()
    with pytest.raises(CaffeliteError, match="already exists"):
        writers.write_records(tmp_path / "db", iter(records), backend="leveldb")
    with pytest.raises(CaffeliteError, match="no samples"):
        writers.write_records(tmp_path / "none", [], backend="leveldb")
    assert os.listdir(tmp_path) == ["db"]


def test_a_leveldb_without_plyvel(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plyvel", None)
    with pytest.raises(CaffeliteError, match=r"needs plyvel-ci.*caffelite\[leveldb\]"):
        writers.write_records(tmp_path / "db", [(b"0", b"")], backend="leveldb")


@pytest.mark.parametrize("kind", ["lmdb", "leveldb", "hdf5", "npz"])
def test_a_full_disk_is_called_so(tmp_path, kind):
    """In a child, whose files can have no more bytes than this: LMDB itself speaks of an input or output error, HDF5's
    library ends the process."""
    pytest.importorskip("plyvel" if kind == "leveldb" else "lmdb")
    path = tmp_path / "db"
    read, write = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        try:
            with (
                together(features.outputs(kind, path), False) as drafts,
                features.features(kind, path, {"x": (3000,)}, drafts) as add,
            ):
                for _ in range(20):
                    add({"x": np.ones((1, 3000))})
        except CaffeliteError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    os.close(write)
    with open(read) as message:
        text = message.read()
        assert "cannot write: " in text and "File too large" in text and "b'" not in text
    assert not list(tmp_path.iterdir())
