import pytest

from caffelite.data.records import Records
from caffelite.data.writers import write_records
from caffelite.errors import CaffeliteError

PAIRS = [(b"%03d" % i, bytes([i])) for i in range(100)]


@pytest.mark.parametrize("backend", ["lmdb", "leveldb"])
def test_both_backends_are_known_by_their_files(tmp_path, backend):
    if backend == "leveldb":
        pytest.importorskip("plyvel")
    write_records(tmp_path / "db", PAIRS, backend=backend)
    for given in (None, backend):
        with Records(tmp_path / "db", given) as records, Records(tmp_path / "db") as again:
            assert records.backend == backend and len(records) == 100 and list(records) == list(again) == PAIRS


def test_what_is_no_database(tmp_path):
    for backend, name in ((None, "LMDB"), ("lmdb", "LMDB"), ("leveldb", "LevelDB")):
        if backend == "leveldb":
            pytest.importorskip("plyvel")
        with pytest.raises(CaffeliteError, match=f"cannot open the {name}"):
            Records(tmp_path, backend)


def test_a_truncated_database(tmp_path):
    write_records(tmp_path / "db", [(key, value * 3000) for key, value in PAIRS])
    file = tmp_path / "db" / "data.mdb"
    file.write_bytes(file.read_bytes()[:100_000])
    with pytest.raises(CaffeliteError, match="truncated LMDB"):
        Records(tmp_path / "db")
