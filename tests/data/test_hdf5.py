"""HDF5Data: lists of files good and bad."""

import os

import h5py
import numpy as np
import pytest
from turns import one_first

from caffelite.data import hdf5, hdf5_reader
from caffelite.errors import CaffeliteError

ROWS = [4, 1, 6]


@pytest.fixture
def listing(tmp_path):
    """Writes files of named arrays and the list of them; returns the list's path."""

    def write(*files, lines=None):
        for i, arrays in enumerate(files):
            with h5py.File(tmp_path / f"part{i}.h5", "w") as file:
                for name, values in arrays.items():
                    file[name] = values
        lines = [f"part{i}.h5" for i in range(len(files))] if lines is None else lines
        (tmp_path / "list.txt").write_text("".join(f"{line}\n" for line in lines))
        return tmp_path / "list.txt"

    return write


@pytest.fixture
def numbered(listing):
    """Three files whose rows are numbered through."""
    ends = np.cumsum(ROWS)
    return listing(
        *(
            {"data": np.arange(e - n, e)[:, None] * np.ones(3), "label": np.arange(e - n, e)}
            for n, e in zip(ROWS, ends, strict=True)
        )
    )


@pytest.fixture(params=[1 << 20, 100, 0], ids=["all kept", "one file at a time", "row by row"])
def memory(request, monkeypatch):
    monkeypatch.setattr(hdf5, "RESIDENT_BYTES", request.param)


@pytest.fixture
def rows(source):
    """Opens a list as HDF5Data."""

    def open_(path, batch=4, shuffle="false", tops=("data", "label"), more="", **options):
        named = " ".join(f'top: "{top}"' for top in tops)
        param = f'hdf5_data_param {{ source: "{path}" batch_size: {batch} shuffle: {shuffle} }}'
        return source(f'type: "HDF5Data" {named} {param} {more}', **options)

    return open_


def labels(source, batches):
    return np.concatenate([source.next()[1].copy() for _ in range(batches)])


@pytest.mark.parametrize("batch", [1, 4, 11, 30])
def test_batches_span_files_and_wrap(numbered, rows, memory, batch):
    source = rows(numbered, batch)
    assert source.shapes == [(batch, 3), (batch,)] and source.length == 11
    for turn in range(9):
        data, label = source.next()
        np.testing.assert_array_equal(label, np.arange(turn * batch, (turn + 1) * batch) % 11)
        np.testing.assert_array_equal(data, label[:, None] * np.ones(3))
        assert data.dtype == np.float32


def test_shuffle_permutes_files_and_rows_anew_each_epoch(numbered, rows, memory):
    epochs = labels(rows(numbered, 11, "true"), 6).astype(int).reshape(6, 11)
    for epoch in epochs:
        assert sorted(epoch) == list(range(11))
    files = np.searchsorted(np.cumsum(ROWS), epochs, side="right")
    assert all(np.count_nonzero(np.diff(f)) == 2 for f in files), "a file's rows stay together"
    assert len({tuple(epoch) for epoch in epochs}) == 6 and len({tuple(f) for f in files}) > 1
    assert (labels(rows(numbered, 11, "true", seed=2), 1) != epochs[0]).any()


@pytest.mark.parametrize("shuffle", ["true", "false"])
@pytest.mark.parametrize("turns", [1, 3, 7])
def test_seek_equals_an_uninterrupted_run(numbered, rows, memory, shuffle, turns):
    whole = labels(rows(numbered, 4, shuffle), 12)
    source = rows(numbered, 4, shuffle)
    source.seek(4 * turns)
    np.testing.assert_array_equal(labels(source, 12 - turns), whole[4 * turns :])


def test_any_number_of_axes_and_types(listing, rows):
    arrays = {"a": np.arange(24).reshape(2, 3, 2, 2), "b": np.array([1.5, 2.5]), "c": np.array([[True], [False]])}
    source = rows(listing(arrays), 2, tops=("a", "b", "c"))
    assert source.shapes == [(2, 3, 2, 2), (2,), (2, 1)]
    for got, expected in zip(source.next(), arrays.values(), strict=True):
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, expected)


def test_paths_from_the_working_directory_come_first(listing, rows, tmp_path, monkeypatch):
    path = listing({"data": np.zeros((2, 1)), "label": np.zeros(2)})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with h5py.File("part0.h5", "w") as file:
        file["data"], file["label"] = np.ones((2, 1)), np.ones(2)
    assert labels(rows(path), 1).tolist() == [1, 1, 1, 1]


def test_empty_files_and_blank_lines_are_passed_over(listing, rows):
    full = {"data": np.zeros((2, 1)), "label": np.arange(2)}
    path = listing({"data": np.zeros((0, 1)), "label": np.zeros(0)}, full, lines=["part0.h5", "", " part1.h5 "])
    assert labels(rows(path), 1).tolist() == [0, 1, 0, 1]


def two(n, data=None, label=None):
    return {"data": np.zeros((n, 2)) if data is None else data, "label": np.zeros(n) if label is None else label}


@pytest.mark.parametrize(
    "files, lines, said",
    [
        ([two(2)], ["part0.h5", "gone.h5"], "list.txt:2: no file gone.h5"),
        (
            [two(2), {"data": np.zeros((2, 2))}],
            None,
            'part1.h5 has no dataset "label"; expected one for each top, found data',
        ),
        (
            [two(2), two(3, label=np.zeros(4))],
            None,
            "part1.h5: datasets differ in rows; expected as many rows in each, found data 3, label 4",
        ),
        ([two(2), two(2, np.zeros((2, 3)))], None, 'dataset "data" differs in shape from that of'),
        (
            [two(2, np.float32(1))],
            None,
            'dataset "data" cannot feed a top; expected an array of numbers, found a single value of float32',
        ),
        ([two(2, [b"a", b"b"])], None, 'dataset "data" cannot feed a top'),
        ([two(0)], None, "list.txt: no rows in any file of the list"),
        ([], [], "list.txt: no rows in any file of the list"),
        ([two(2)], ["list.txt"], "as HDF5"),
    ],
)
def test_mistakes_in_the_files(listing, rows, files, lines, said):
    with pytest.raises(CaffeliteError, match=r"list\.txt") as mistake:
        rows(listing(*files, lines=lines))
    assert said in str(mistake.value)


def test_an_hdf5_file_in_place_of_its_list(listing, rows, tmp_path):
    listing(two(2))
    with pytest.raises(CaffeliteError, match="write the path of each HDF5 file on a line of its own"):
        rows(tmp_path / "part0.h5")


def test_a_file_that_goes_away(numbered, rows, tmp_path):
    source = rows(numbered)
    (tmp_path / "part1.h5").unlink()
    source.next()
    with pytest.raises(CaffeliteError, match=r"list\.txt:2: cannot read .*part1\.h5"):
        source.next()


def test_transform_param_is_refused(numbered, rows):
    with pytest.raises(CaffeliteError, match="HDF5Data takes no transform_param"):
        rows(numbered, more="transform_param { scale: 2 }")


@pytest.mark.parametrize("kind", ["link", "storage", "loop"])
def test_links_and_storage_elsewhere(tmp_path, source, kind):
    os.mkfifo(tmp_path / "fifo")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        if kind == "link":
            file["data"] = h5py.ExternalLink("fifo", "data")
        elif kind == "storage":
            file.create_dataset("data", (4, 2), "f4", external=[("/dev/zero", 0, 32)])
        else:
            file["data"] = h5py.SoftLink("/other")
            file["other"] = h5py.SoftLink("/data")
    (tmp_path / "list.txt").write_text("a.h5\n")
    with pytest.raises(CaffeliteError, match=r"list\.txt:1: .*(not a file|no dataset|cannot open)"):
        source(f'type: "HDF5Data" top: "data" hdf5_data_param {{ source: "{tmp_path}/list.txt" batch_size: 2 }}')


@pytest.mark.parametrize("how", one_first(["crash", "loop", "memory"]))
def test_a_file_that_breaks_its_reader(numbered, rows, monkeypatch, tmp_path, how):
    """A stand-in for h5py that does what the HDF5 library does of a damaged file; a good file is read after it."""
    code = {"loop": "while True: pass", "crash": "os.kill(os.getpid(), 11)", "memory": "bytes(3 << 30)"}[how]
    (tmp_path / "broken").mkdir()
    text = f"import os\n\nclass File:\n    def __init__(self, path, mode):\n        {code}\n"
    (tmp_path / "broken/h5py.py").write_text(text)
    monkeypatch.setattr(hdf5_reader, "SECONDS", 1)
    hdf5_reader.stop()
    with monkeypatch.context() as patch, pytest.raises(CaffeliteError) as mistake:
        patch.syspath_prepend(tmp_path / "broken")
        rows(numbered)
    message = {
        "loop": "reading it does not end",
        "crash": "reading it ends the process that tries it",
        "memory": "MemoryError",
    }[how]
    assert str(mistake.value).startswith(f"{numbered}:1: cannot open") and message in str(mistake.value)
    assert labels(rows(numbered), 1).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("damage", ["cut", "other shape", "chunk"])
def test_a_file_that_is_damaged_after_it_was_opened(listing, rows, memory, tmp_path, damage):
    good = {"data": np.ones((4, 3)), "label": np.arange(4)}
    source = rows(listing(good, good), 4)
    source.next()
    source.close()
    source = rows(tmp_path / "list.txt", 4)
    path = tmp_path / "part1.h5"
    if damage == "cut":
        os.truncate(path, path.stat().st_size // 2)
    else:
        path.unlink()
        with h5py.File(path, "w") as file:
            if damage == "chunk":
                file.create_dataset("data", data=np.ones((4, 3)), chunks=(1, 3), compression="gzip")
                place = file["data"].id.get_chunk_info(2).byte_offset
            else:
                file["data"] = np.ones((4, 2))
            file["label"] = np.arange(4)
        if damage == "chunk":
            with open(path, "r+b") as file:
                file.seek(place)
                file.write(bytes(8))
    source.next()
    with pytest.raises(CaffeliteError, match=r"list\.txt:2: cannot read .*part1\.h5"):
        source.next()


def test_a_data_set_larger_than_its_file(listing, rows, tmp_path):
    path = listing(two(2))
    with h5py.File(tmp_path / "part0.h5", "w") as file:
        file.create_dataset("data", (1 << 40, 2), "f4", chunks=(1, 2))
        file["label"] = np.zeros(2)
    with pytest.raises(CaffeliteError, match=r"list\.txt:1: .*more than the file can hold"):
        rows(path)


def test_the_reader_is_not_shared_with_a_fork(numbered, rows):
    expected = labels(rows(numbered), 1)
    child = os.fork()
    if not child:
        try:
            os._exit(0 if (labels(rows(numbered), 1) == expected).all() else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(labels(rows(numbered), 1), expected)
