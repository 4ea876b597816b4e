"""A run of a page's job over a folder in which a stranger planted links: it writes nothing outside the root."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from tiny_project import NET, SOLVER

from caffelite import roots
from caffelite.devices.cache import ChoiceCache
from caffelite.errors import CaffeliteError
from caffelite.runs import launch, limits
from caffelite.runs.config import RunConfig

OUTPUT = 'layer { name: "o" type: "HDF5Output" bottom: "data" bottom: "label" hdf5_output_param { file_name: "o.h5" } }'


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A root with a project, beside a folder outside; this process is confined to it."""
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "net.prototxt").write_text(NET + OUTPUT)
    (folder / "solver.prototxt").write_text(SOLVER + "snapshot: 2 test_iter: 1 test_interval: 1\n")
    monkeypatch.chdir(folder)
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "outside").mkdir()
    monkeypatch.setattr(roots, "_of_process", roots.Confinement.of((folder,)))
    return folder


def train(**options):
    launch.train(RunConfig("solver.prototxt", **options))


def trained_twice():
    """A run, and its continuation from the snapshot: every file is written, and written again."""
    train(until=2)
    train(snapshot="tiny_iter_2.solverstate")


def names_of(monkeypatch, root, work):
    """What the work opens or creates below the root, and the folders above."""
    named: set[str] = set()
    located = roots.Confinement.located

    def noting(self, path, *arguments, **options):
        folder, name = os.path.split(path)
        named.add(os.path.relpath(os.path.join(os.path.realpath(folder), name), root))
        return located(self, path, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(roots.Confinement, "located", noting)
        work()
    named |= {os.path.relpath(path, root) for path in root.rglob("*")}
    named |= {str(above) for name in named for above in Path(name).parents}
    return sorted(name for name in named if not name.startswith("..") and name != ".")


def test_a_confined_run_is_that_without_bounds(root, monkeypatch):
    trained_twice()
    sizes = {path.name: path.stat().st_size for path in root.glob("*.caffemodel")}
    assert (root / "tiny_run/metrics.csv").read_text().count("\n") == 5 and (root / "o.h5").exists()
    monkeypatch.setattr(roots, "_of_process", None)
    (root / "free").mkdir()
    monkeypatch.chdir(root / "free")
    for name in ("net.prototxt", "solver.prototxt"):
        shutil.copy(root / name, name)
    trained_twice()
    assert sizes and {path.name: path.stat().st_size for path in Path().glob("*.caffemodel")} == sizes


def test_a_confined_process_knows_what_was_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("CAFFELITE_CACHE", str(tmp_path / "cache"))
    ChoiceCache("algorithms.json").put("convolution", "winograd4")
    with limits.Bounds(roots=(tmp_path / "root",)).confined():
        ChoiceCache("algorithms.json").put("product", "direct")
        assert ChoiceCache("algorithms.json").get("convolution") == "winograd4"
    assert ChoiceCache("algorithms.json").get("product") == "direct"


def restored(root):
    for each in list(root.iterdir()):
        shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    shutil.copytree(root.parent / "copy", root, dirs_exist_ok=True)
    shutil.rmtree(root.parent / "outside")
    (root.parent / "outside").mkdir()


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


@pytest.mark.slow
@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("kind", ["file", "folder", "nothing"])
def test_a_run_writes_through_no_link(root, monkeypatch, kind, between):
    """between: the link takes the place of what the run wrote, before it continues."""
    outside = root.parent / "outside"
    for name in names_of(monkeypatch, root, trained_twice):
        restored(root)
        planted, target = root / name, outside / "target"
        if between:
            train(until=2)
        if os.path.lexists(planted):
            if (root.parent / "copy" / name).exists():
                continue
            shutil.move(planted, target)
        elif kind == "folder":
            target.mkdir()
        elif kind == "file":
            target.write_text("precious")
        planted.parent.mkdir(parents=True, exist_ok=True)
        planted.symlink_to(target)
        before = contents(outside)
        with suppress(CaffeliteError, OSError):
            train(snapshot="tiny_iter_2.solverstate") if between else trained_twice()
        assert contents(outside) == before, name
