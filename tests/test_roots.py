"""What is opened below roots: links that lead out, and links that take the place of a folder after it was checked."""

import os
import threading
from pathlib import Path

import h5py
import numpy as np
import pytest
from turns import one_first

from caffelite import inputs, roots
from caffelite.data import hdf5_reader
from caffelite.data.drafts import atomic, final
from caffelite.data.lmdb_reader import Lmdb
from caffelite.data.writers import write_hdf5, write_lmdb
from caffelite.errors import CaffeliteError
from caffelite.runs.folder import write_atomically

WRITE = os.O_WRONLY | os.O_CREAT


@pytest.fixture
def root(tmp_path):
    """A root beside a folder outside; this thread is confined to it."""
    (tmp_path / "root/in/deep").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    for folder in ("root", "root/in", "root/in/deep", "outside"):
        (tmp_path / folder / "file").write_text(folder)
    with roots.confined(roots.Confinement.of((tmp_path / "root",))):
        yield tmp_path / "root"


def closed(descriptor):
    os.close(descriptor)
    return True


def attempts(path):
    """What may be done by a name."""
    yield lambda: inputs.read(path / "file")
    yield lambda: closed(roots.open(path / "file", os.O_RDONLY))
    yield lambda: closed(roots.open(path / "new", WRITE))
    yield lambda: roots.write(path / "file", "x")
    yield lambda: write_atomically(path / "file", "x")
    yield lambda: roots.check(path / "file")
    for make in (True, False):
        yield lambda make=make: roots.folder(path, make).__enter__()
    yield lambda: roots.folder(path / "made/below", make=True).__enter__()


def test_files_below_the_root_are_opened_by_every_name(root, monkeypatch):
    (root / "link").symlink_to("in")
    (root / "absolute").symlink_to(root / "in/deep")
    for name in ("", "in", "link", "absolute", "in/../link/deep"):
        for attempt in attempts(root / name):
            attempt()
    assert (root / "in/deep/made/below").is_dir()
    monkeypatch.chdir(root / "in")
    assert inputs.read("../in/deep/../file") == b"x"


def test_a_link_out_of_the_root_is_refused(root):
    outside = root.parent / "outside"
    (root / "link").symlink_to(outside)
    (root / "up").symlink_to("../outside")
    (root / "in/chain").symlink_to("../link")
    for name in ("link", "up", "in/chain", "link/../outside", "../outside", str(outside)):
        for attempt in attempts(root / name):
            with pytest.raises(roots.Outside):
                attempt()
    assert [each.name for each in outside.iterdir()] == ["file"] and (outside / "file").read_text() == "outside"


def test_a_file_is_not_written_through_a_link(root):
    """Not even where it leads below the root; nor into a FIFO."""
    (root / "dangling").symlink_to(root.parent / "outside/new")
    (root / "inside").symlink_to("file")
    for name in ("dangling", "inside"):
        with pytest.raises(roots.Outside):
            roots.write(root / name, "x")
        write_atomically(root / name, "y")  # replaces the link
        assert (root / name).read_text() == "y" and not (root / name).is_symlink()
    os.mkfifo(root / "fifo")
    with pytest.raises(OSError):
        roots.write(root / "fifo", "x")
    assert not (root.parent / "outside/new").exists() and (root / "file").read_text() == "root"


@pytest.mark.parametrize("number", range(9))
def test_a_link_that_replaces_a_checked_folder_is_refused(root, monkeypatch, number):
    """Between each two calls of a walk the folder may become a link."""
    outside, checked = root.parent / "outside", os.path.realpath

    def exchanging(path, *arguments, **options):
        real = checked(path, *arguments, **options)
        if "/in" in os.fspath(path) and not (root / "in").is_symlink():
            os.rename(root / "in", root / "moved")
            (root / "in").symlink_to(outside)
        return real

    attempt = list(attempts(root / "in"))[number]
    monkeypatch.setattr(roots.os.path, "realpath", exchanging)
    if number == 5:  # which checks only
        attempt()
        return
    with pytest.raises(roots.Outside):
        attempt()
    assert [each.name for each in outside.iterdir()] == ["file"] and (outside / "file").read_text() == "outside"


def test_an_open_folder_stays_the_same_folder(root):
    with roots.folder(root / "in") as opened:
        os.rename(root / "in", root / "moved")
        (root / "in").symlink_to(root.parent / "outside")
        (opened / "new").write_text("x")
        assert sorted(each.name for each in opened.iterdir()) == ["deep", "file", "new"]
    assert (root / "moved/new").exists() and not (root.parent / "outside/new").exists()


def test_names_that_lead_nowhere_are_errors_of_the_system(root):
    (root / "loop").symlink_to("loop")
    for name in ("absent", "file/x", "absent/x", "loop", "a\0b", "x" * 300):
        with pytest.raises((OSError, roots.Outside)):
            inputs.read(root / name)


def test_files_of_this_program_are_read_by_their_own_names(root):
    own = root.parent / "outside"
    (root / "link").symlink_to(own)
    with roots.confined(roots.Confinement.of((root,), (own,))):
        assert inputs.read(own / "file") == b"outside"
        assert inputs.read(Path(roots.__file__))
        with pytest.raises(roots.Outside):
            inputs.read(root / "link/file")
        with pytest.raises(roots.Outside):
            inputs.read(root / "link" / ".." / "outside" / "file")


def test_threads_are_confined_where_the_process_is(root, monkeypatch):
    results = []
    thread = threading.Thread(target=lambda: results.append(inputs.read(root.parent / "outside/file")))
    thread.start()
    thread.join()
    assert results == [b"outside"]
    monkeypatch.setattr(roots, "_of_process", None)
    roots.confine(roots.Confinement.of((root,)))
    errors = []

    def read():
        try:
            inputs.read(root.parent / "outside/file")
        except roots.Outside as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert len(errors) == 1


@pytest.mark.parametrize("folder", [False, True])
def test_a_draft_gets_its_name_in_the_folder_that_was_opened(root, folder):
    with atomic(root / "in/made", folder=folder) as draft:
        os.rename(root / "in", root / "moved")
        (root / "in").symlink_to(root.parent / "outside")
        (draft / "x" if folder else draft).write_text("x")
    assert [each.name for each in (root.parent / "outside").iterdir()] == ["file"]
    assert (root / "moved/made/x" if folder else root / "moved/made").read_text() == "x"
    assert sorted(each.name for each in (root / "moved").iterdir()) == ["deep", "file", "made"]


def test_errors_of_drafts_have_the_path_that_the_user_knows(root):
    with pytest.raises(CaffeliteError, match=f"^{root}/in/made: cannot write"):
        with atomic(root / "in/made"):
            pass
    with pytest.raises(CaffeliteError, match=f"^{root}/in/file: already exists"):
        with atomic(root / "in/file", force=False):
            pass
    assert final(root / "x") == root / "x"
    with atomic(root / "in/made") as draft, atomic(draft) as second:
        assert final(draft) == final(second) == root / "in/made"
        second.write_text("x")


def test_data_sets_are_written_below_the_root(root):
    write_lmdb(root / "new/db", [(np.zeros((1, 2, 2), np.uint8), 1)])
    write_hdf5(root / "new/x.h5", {"data": np.ones((2, 3))})
    database = Lmdb(root / "new/db")
    assert database.length == 1
    database.close()
    assert (root / "new/x.txt").read_text() == "x.h5\n"
    (root / "link").symlink_to(root.parent / "outside")
    for write in (lambda: write_lmdb(root / "link/db", []), lambda: write_hdf5(root / "link/x.h5", {})):
        with pytest.raises(roots.Outside):
            write()
    assert [each.name for each in (root.parent / "outside").iterdir()] == ["file"]


# formats whose libraries open files by themselves


def test_an_lmdb_is_read_without_its_library(root):
    """The library writes lock.mdb, wherever a link of this name leads."""
    write_lmdb(root / "db", [(np.zeros((1, 2, 2), np.uint8), 1)])
    victim = root.parent / "outside/file"
    (root / "db/lock.mdb").unlink(missing_ok=True)
    (root / "db/lock.mdb").symlink_to(victim)
    database = Lmdb(root / "db")
    assert database.length == 1
    database.close()
    assert victim.read_text() == "outside"
    os.rename(root / "db/data.mdb", root.parent / "outside/data.mdb")
    (root / "db/data.mdb").symlink_to(root.parent / "outside/data.mdb")
    with pytest.raises(roots.Outside):
        Lmdb(root / "db")


def test_a_leveldb_is_read_by_open_files(root):
    plyvel = pytest.importorskip("plyvel")
    from caffelite.data.records import Records

    with plyvel.DB(str(root / "db"), create_if_missing=True) as database:
        database.put(b"key", b"value")
    before = {each.name: each.stat().st_mtime_ns for each in (root / "db").iterdir()}
    with Records(root / "db") as records:
        assert list(records) == [(b"key", b"value")]
    assert {each.name: each.stat().st_mtime_ns for each in (root / "db").iterdir()} == before  # nothing is written
    current = root / "db/CURRENT"
    os.rename(current, root.parent / "outside/CURRENT")
    current.symlink_to(root.parent / "outside/CURRENT")
    with pytest.raises(roots.Outside):
        Records(root / "db")


@pytest.mark.parametrize("kind", one_first(["link", "external link", "soft link", "virtual", "external"]))
def test_hdf5_files_name_no_others(root, kind):
    outside = root.parent / "outside"
    with h5py.File(outside / "x.h5", "w") as file:
        file["data"] = np.ones((2, 3), np.float32)
    (outside / "raw").write_bytes(np.ones((2, 3), np.float32).tobytes())
    path = root / "x.h5"
    with h5py.File(path, "w") as file:
        if kind == "external link":
            file["data"] = h5py.ExternalLink(str(outside / "x.h5"), "/data")
        elif kind == "soft link":
            file["elsewhere"] = h5py.ExternalLink(str(outside / "x.h5"), "/data")
            file["data"] = h5py.SoftLink("/elsewhere")
        elif kind == "virtual":
            layout = h5py.VirtualLayout((2, 3), np.float32)
            layout[:] = h5py.VirtualSource(str(outside / "x.h5"), "data", (2, 3))
            file.create_virtual_dataset("data", layout)
        elif kind == "external":
            file.create_dataset("data", (2, 3), np.float32, external=[(str(outside / "raw"), 0, 24)])
    if kind == "link":
        path.unlink()
        path.symlink_to(outside / "x.h5")
    with pytest.raises((hdf5_reader.Unreadable, roots.Outside), match="refused below the roots|not below a root"):
        hdf5_reader.look(path, ["data"])
    with pytest.raises((hdf5_reader.Unreadable, roots.Outside), match="refused below the roots|not below a root"):
        hdf5_reader.read(path, ["data"], slice(0, 2), [(3,)], 0)


def test_hdf5_files_below_the_root_are_read(root):
    with h5py.File(root / "x.h5", "w") as file:
        file["group/data"] = np.ones((2, 3), np.float32)
    actual = hdf5_reader.read(root / "x.h5", ["group/data"], slice(0, 2), [(3,)], 0)
    assert np.array_equal(actual[0], np.ones((2, 3)))
    assert hdf5_reader.look(root / "x.h5", ["group/data"])[0][0].shape == (2, 3)


@pytest.mark.parametrize("kind", ["virtual", "external"])
def test_weights_in_hdf5_have_their_numbers_in_the_file(tmp_path, kind):
    """Everywhere, not only below roots."""
    from caffelite import weights

    (tmp_path / "raw").write_bytes(np.ones(4, np.float32).tobytes())
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["data"] = np.ones(4, np.float32)
    path = tmp_path / "x.caffemodel.h5"
    with h5py.File(path, "w") as file:
        if kind == "external":
            file.create_dataset("data/conv/0", (4,), np.float32, external=[(str(tmp_path / "raw"), 0, 16)])
        else:
            layout = h5py.VirtualLayout((4,), np.float32)
            layout[:] = h5py.VirtualSource(str(tmp_path / "x.h5"), "data", (4,))
            file.create_virtual_dataset("data/conv/0", layout)
    with pytest.raises(CaffeliteError, match="its values in another file"):
        weights.read_model(path)


def test_a_library_opens_the_file_that_was_checked(root):
    with roots.named(root / "in/file") as name:
        assert name.startswith(roots.DESCRIPTORS)
        os.rename(root / "in", root / "moved")
        (root / "in").symlink_to(root.parent / "outside")
        assert Path(name).read_text() == "root/in"
    (root / "link").symlink_to(root.parent / "outside/file")
    with pytest.raises(roots.Outside), roots.named(root / "link"):
        pass
