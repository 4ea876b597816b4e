"""Data over LevelDB."""

import os
import sys

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data import samples
from caffelite.data.leveldb import LevelDB
from caffelite.errors import CaffeliteError

plyvel = pytest.importorskip("plyvel", reason="plyvel-ci, of the extra `leveldb`, is not installed")


@pytest.fixture
def database(tmp_path, images):
    with plyvel.DB(str(tmp_path / "db"), create_if_missing=True) as db:
        for i, image in enumerate(images):
            db.put(
                b"%08d" % i, pb.Datum(channels=3, height=6, width=5, data=image.tobytes(), label=i).SerializeToString()
            )
    return tmp_path / "db"


@pytest.fixture
def level(source):
    def open_(path, data="", **options):
        return source(
            f'type: "Data" top: "data" top: "label" data_param {{ source: "{path}" batch_size: 3 {data} }}', **options
        )

    return open_


@pytest.mark.parametrize("most", [0, 1 << 20])
@pytest.mark.parametrize("shuffle", ["true", "false"])
def test_records_come_as_from_an_lmdb(database, images, level, monkeypatch, most, shuffle):
    monkeypatch.setattr(samples, "RESIDENT_BYTES", most)
    source = level(database, f"shuffle: {shuffle}")
    label = []
    for _ in range(7):
        data, numbers = source.next()
        label += numbers.tolist()
        np.testing.assert_array_equal(data, images[numbers.astype(int)])
    assert source.length == 7 and all(sorted(label[i : i + 7]) == list(range(7)) for i in (0, 7, 14))
    assert (label == [i % 7 for i in range(21)]) == (shuffle == "false")


def test_train_and_test_nets_read_one_database(database, level):
    train, test = level(database), level(database, phase=pb.TEST)
    train.next()
    train.close()
    assert test.next()[1].tolist() == [0, 1, 2]
    test.close()
    plyvel.DB(str(database)).close()


def test_one_that_another_process_reads(database, level):
    held = plyvel.DB(str(database))  # LevelDB refuses a second handle, whoever has the first
    with pytest.raises(CaffeliteError, match="cannot open the LevelDB: .*only one process can read a LevelDB"):
        level(database)
    held.close()


def test_what_is_no_leveldb(tmp_path, level):
    (tmp_path / "db").mkdir()
    with pytest.raises(CaffeliteError, match="expected a LevelDB folder, found one without CURRENT"):
        level(tmp_path / "db")
    assert not any((tmp_path / "db").iterdir())


def test_one_without_its_manifest(tmp_path, level):
    plyvel.DB(str(tmp_path / "db"), create_if_missing=True).close()
    next((tmp_path / "db").glob("MANIFEST*")).unlink()
    message = "db: cannot open the LevelDB: Corruption: CURRENT points to .*; copy or make it again"
    with pytest.raises(CaffeliteError, match=message):
        level(tmp_path / "db")


def test_an_empty_one(tmp_path, level):
    plyvel.DB(str(tmp_path / "db"), create_if_missing=True).close()
    with pytest.raises(CaffeliteError, match="db: the database is empty"):
        level(tmp_path / "db")


@pytest.mark.parametrize("place", [300, 20_000])
def test_a_damaged_one(tmp_path, level, place):
    # It does not shrink when LevelDB packs it.
    noise = np.random.default_rng(0).integers(0, 256, (400, 90)).astype(np.uint8)
    with plyvel.DB(str(tmp_path / "db"), create_if_missing=True) as db:
        for i, row in enumerate(noise):
            db.put(b"%08d" % i, pb.Datum(channels=3, height=6, width=5, data=row.tobytes()).SerializeToString())
        db.compact_range()
    (table,) = (tmp_path / "db").glob("*.ldb")
    content = bytearray(table.read_bytes())
    content[place : place + 40] = bytes(40)
    table.write_bytes(bytes(content))
    with pytest.raises(CaffeliteError, match="cannot read the LevelDB: Corruption.*; copy or make it again"):
        level(tmp_path / "db")


def test_without_plyvel(database, level, monkeypatch):
    monkeypatch.setitem(sys.modules, "plyvel", None)
    with pytest.raises(CaffeliteError, match=r"backend LEVELDB needs plyvel-ci.*caffelite\[leveldb\]"):
        level(database)


@pytest.mark.parametrize("how", ["read", "walk"])
def test_tables_that_shrink_between_reads(tmp_path, in_a_child, how):
    rng = np.random.default_rng(1)
    with plyvel.DB(str(tmp_path / "db"), create_if_missing=True, write_buffer_size=1 << 18) as db:
        for i in range(300):
            image = rng.integers(0, 256, 3000).astype(np.uint8).tobytes()
            db.put(b"%08d" % i, pb.Datum(channels=3, height=20, width=50, data=image, label=i).SerializeToString())

    def use():
        db = LevelDB(tmp_path / "db")
        records = db.walk(0) if how == "walk" else (db.read(np.array([number]))[0] for number in range(300))
        next(records)
        for path in (tmp_path / "db").glob("*.ldb"):
            os.truncate(path, 4096)
        list(records)

    assert in_a_child(use) == 0
