"""LMDB read page by page: as LMDB itself reads it, during a write, and damaged at random."""

import gc
import os
import random
import struct
import subprocess
import sys
from contextlib import closing

import fuzz_mutants
import lmdb
import numpy as np
import pytest

from caffelite.data import lmdb_reader
from caffelite.data.lmdb_reader import Lmdb
from caffelite.errors import CaffeliteError

PAGE = 4096


def write(path, pairs, **options):
    with lmdb.open(str(path), map_size=1 << 28, sync=False, **options) as db, db.begin(write=True) as transaction:
        for key, value in pairs:
            transaction.put(key, value)
    return path


def pairs(count, sizes=(10, 3000, 9000)):
    rng = random.Random(1)
    return {b"%08d" % i: rng.randbytes(sizes[i % len(sizes)]) for i in range(count)}


@pytest.fixture
def open_():
    """Opens databases, and closes them at the end."""
    opened = []

    def open_one(path):
        opened.append(Lmdb(path))
        return opened[-1]

    yield open_one
    for db in opened:
        db.close()


@pytest.fixture(params=[True, False], ids=["locked", "not locked"])
def locked(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(lmdb_reader, "_environment", lambda *_: None)
    return request.param


@pytest.mark.parametrize(
    "count, sizes",
    [(1, (5,)), (3, (60_000,)), (500, (10, 3000, 9000)), (20_000, (20,)), (2000, (1, 4000)), (1500, (1900,))],
)
def test_records_are_those_of_lmdb(tmp_path, count, sizes, locked, open_):
    written = sorted(pairs(count, sizes).items())
    db = open_(write(tmp_path / "db", written))
    assert db.locked == locked and db.length == count
    assert list(db.walk()) == written
    assert list(db.walk(count // 3)) == written[count // 3 :]
    order = np.random.default_rng(0).permutation(count).tolist()
    assert db.read(order) == [written[i] for i in order]
    db.close()
    db.close()


def test_dropped_readers_release_the_environment(tmp_path):
    """A net that is never closed leaves nothing open once it is collected, also where that happens in another open."""
    written = sorted(pairs(30).items())
    path, before = write(tmp_path / "db", written), dict(lmdb_reader._opened)
    readers = [Lmdb(path) for _ in range(3)]
    assert len(lmdb_reader._opened) == len(before) + 1 and readers[0].locked
    kept = readers.pop()
    del readers
    gc.collect()
    assert list(kept.walk()) == written and len(lmdb_reader._opened) == len(before) + 1
    cycle = [kept]
    cycle.append(cycle)
    del kept, cycle
    gc.collect()
    assert lmdb_reader._opened == before


def test_a_dropped_reader_closes_its_file_at_once(tmp_path):
    db = Lmdb(write(tmp_path / "db", sorted(pairs(2000, (1900,)).items())))
    assert db.read([0])
    closed = db._pages.close
    del db
    assert not closed.alive


def test_a_reader_released_while_another_opens(tmp_path, monkeypatch):
    """The garbage collector runs inside the lock, and releases the last reader of the same file."""
    path = write(tmp_path / "db", sorted(pairs(30).items()))
    old, before = [Lmdb(path)], len(lmdb_reader._opened)

    class Collecting(dict):
        def get(self, key):
            actual = super().get(key)
            old.clear()  # as the garbage collector may
            return actual

    monkeypatch.setattr(lmdb_reader, "_opened", Collecting(lmdb_reader._opened))
    new = Lmdb(path)
    assert new.locked and len(list(new.walk())) == 30 and len(lmdb_reader._opened) == before
    new.close()
    assert len(lmdb_reader._opened) == before - 1


def test_records_left_after_deletions(tmp_path, open_):
    write(tmp_path / "db", pairs(3000).items())
    with lmdb.open(str(tmp_path / "db"), map_size=1 << 28, sync=False) as db, db.begin(write=True) as transaction:
        for i in range(0, 3000, 2):
            transaction.delete(b"%08d" % i)
    db = open_(tmp_path / "db")
    assert [key for key, _ in db.walk()] == [b"%08d" % i for i in range(1, 3000, 2)]
    db.close()
    with lmdb.open(str(tmp_path / "db"), map_size=1 << 28, sync=False) as db, db.begin(write=True) as transaction:
        for i in range(1, 3000, 2):
            transaction.delete(b"%08d" % i)
    assert open_(tmp_path / "db").length == 0


def test_one_file_without_a_folder(tmp_path, open_):
    write(tmp_path / "db", pairs(30).items(), subdir=False)
    assert list(open_(tmp_path / "db").walk()) == sorted(pairs(30).items())


WRITER = """
import lmdb, sys
with lmdb.open(sys.argv[1], map_size=1 << 28, sync=False) as db:
    for turn in range(int(sys.argv[2])):
        with db.begin(write=True) as transaction:
            for i in range(300):
                transaction.put(b"%08d" % i, b"%d" % turn * 3000)
"""


def rewrite(path, times):
    """Another process gives every record another value, so often."""
    subprocess.run([sys.executable, "-c", WRITER, str(path), str(times)], check=True, timeout=60)


def test_a_lock_keeps_the_pages_that_are_read(tmp_path, open_):
    written = pairs(300)
    db = open_(write(tmp_path / "db", written.items()))
    assert db.locked
    walk = db.walk()
    first = next(walk)
    rewrite(tmp_path / "db", 5)
    assert [first, *walk] == sorted(written.items()) == db.read(range(300))
    assert next(open_(tmp_path / "db").walk())[1] == b"4" * 3000


def test_without_a_lock_a_change_is_reported(tmp_path, monkeypatch, open_):
    monkeypatch.setattr(lmdb_reader, "_environment", lambda *_: None)
    written = pairs(300)
    db = open_(write(tmp_path / "db", written.items()))
    assert db.read([299])
    rewrite(tmp_path / "db", 1)
    assert list(db.walk()) == sorted(written.items()), "one transaction leaves the pages of the one before"
    rewrite(tmp_path / "db", 3)
    for read in (lambda: list(db.walk()), lambda: db.read([299, 0])):
        message = "db: the LMDB has changed while it was read.*end the program that writes"
        with pytest.raises(CaffeliteError, match=message):
            read()


@pytest.mark.parametrize("what", ["folder", "fifo", "text"])
def test_what_stands_in_place_of_the_lock(tmp_path, what, open_):
    write(tmp_path / "db", pairs(30).items(), lock=False)
    lock = tmp_path / "db" / "lock.mdb"
    {"folder": lock.mkdir, "fifo": lambda: os.mkfifo(lock), "text": lambda: lock.write_text("x" * 100)}[what]()
    assert len(list(open_(tmp_path / "db").walk())) == 30


def test_a_file_cut_while_it_is_read(tmp_path, open_):
    db = open_(write(tmp_path / "db", pairs(3000).items()))
    walk = db.walk()
    next(walk)
    os.truncate(tmp_path / "db" / "data.mdb", 20 * PAGE)
    with pytest.raises(CaffeliteError, match="cannot read the LMDB: .*; copy or make it again"):
        list(walk)


def field(page, offset, form, value):
    """A change of one number of a file, at an offset of a page."""

    def change(data):
        struct.pack_into(form, data, page * PAGE + offset, value)

    return change


def both(change, offset, form, value):
    return lambda data: [change(page, offset, form, value)(data) for page in (0, 1)]


@pytest.mark.parametrize(
    "change, said",
    [
        (both(field, 16, "<I", 7), "cannot open the LMDB: it is not an LMDB"),
        (both(field, 20, "<I", 2), "cannot open the LMDB: it is an LMDB of format 2"),
        (both(field, 40, "<I", 1 << 30), "meta page 0 states a page size of 1073741824 bytes"),
        (both(field, 92, "<H", 4), "it holds several values for a key"),
        (both(field, 120, "<Q", 1 << 60), f"it declares {1 << 60} records"),
        (both(field, 94, "<H", 40), "40 levels deep"),
        (both(field, 136, "<Q", 1 << 62), "truncated LMDB"),
        (both(field, 128, "<Q", 1 << 50), f"it names page {1 << 50} of"),
        (both(field, 120, "<Q", 299), "other than the 299 records"),
        (both(field, 120, "<Q", 301), "other than the 301 records"),
    ],
)
def test_numbers_of_the_meta_pages(tmp_path, change, said, open_):
    file = write(tmp_path / "db", pairs(300).items(), lock=False) / "data.mdb"
    data = bytearray(file.read_bytes())
    change(data)
    file.write_bytes(data)
    with pytest.raises(CaffeliteError, match=said) as mistake:
        list(open_(tmp_path / "db").walk())
    assert str(mistake.value).startswith(f"{tmp_path}/db: ")


def test_a_tree_that_leads_back_to_itself(tmp_path, open_):
    file = write(tmp_path / "db", pairs(2000, (20, 30)).items(), lock=False) / "data.mdb"
    data = bytearray(file.read_bytes())
    root = struct.unpack_from("<Q", data, PAGE + 128)[0]
    places = struct.unpack_from("<2H", data, root * PAGE + 16)
    data[root * PAGE + places[1] : root * PAGE + places[1] + 6] = data[
        root * PAGE + places[0] : root * PAGE + places[0] + 6
    ]
    file.write_bytes(data)
    with pytest.raises(CaffeliteError, match="belongs to two others"):
        list(open_(tmp_path / "db").walk())


def test_no_record_is_returned_for_another_after_an_error(tmp_path, open_):
    written = sorted(pairs(1500, (1900,)).items())
    file = write(tmp_path / "db", written, lock=False) / "data.mdb"
    data = bytearray(file.read_bytes())
    page = data.rfind(written[700][0]) // PAGE
    struct.pack_into("<H", data, page * PAGE + 12, 7)  # the end of its list of nodes
    file.write_bytes(data)
    db = open_(tmp_path / "db")
    assert db.read([0]) == written[:1]
    for number in (1499, 1499, 700):
        with pytest.raises(CaffeliteError, match="cannot read the LMDB: .*; copy or make it again"):
            db.read([number])
    assert db.read([1]) == written[1:2]


def test_damaged_pages_end_in_one_line(tmp_path):
    """Records, or an error that names the database."""
    file = write(tmp_path / "db", pairs(120).items(), lock=False) / "data.mdb"
    whole, rng, message, opened = file.read_bytes(), random.Random(5), 0, set(lmdb_reader._opened)
    for _ in range(400):
        data = fuzz_mutants.lmdb(whole, rng)
        file.write_bytes(data)
        try:
            with closing(Lmdb(tmp_path / "db")) as db:
                assert len(list(db.walk())) == db.length
                db.read(reversed(range(db.length)))
        except CaffeliteError as mistake:
            message += str(mistake).startswith(f"{tmp_path}/db: ") and str(mistake).isprintable()
            continue
    assert 50 < message < 400
    assert set(lmdb_reader._opened) <= opened


def test_a_page_size_of_another_machine(tmp_path, monkeypatch, open_):
    """LMDB takes the page size of the machine that writes; pages of 512 bytes stand here for those of 16 KiB there."""
    key, value = b"a", b"value"
    node = struct.pack("<HHHH", len(value), 0, 0, len(key)) + key + value
    meta = bytearray(512)
    struct.pack_into("<QHH", meta, 0, 0, 0, 8)
    struct.pack_into("<II", meta, 16, lmdb_reader._MAGIC, 1)
    struct.pack_into("<I", meta, 40, 512)
    struct.pack_into("<HHQQQQQQQ", meta, 92, 0, 1, 0, 1, 0, 1, 2, 2, 1)
    leaf = struct.pack("<QHHHHH", 2, 0, 2, 18, 512 - len(node), 512 - len(node)).ljust(512 - len(node), b"\0") + node
    (tmp_path / "db").write_bytes(bytes(meta) * 2 + leaf)
    assert list(open_(tmp_path / "db").walk()) == [(key, value)]
