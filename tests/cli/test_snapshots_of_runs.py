"""The snapshots of a run are its own, whatever its prefix is and whoever else has it."""

import shutil
from pathlib import Path

import pytest

from caffelite.runs import snapshots


def models(run):
    return [(iteration, path.name) for iteration, path in snapshots.models(Path(run))]


def train(call, *fields, prefix="a"):
    shown = ("-set", "display=0", "-set", "test_iter=", "-set", "test_interval=0")
    assert call("train", "-solver", "solver.prototxt", "-set", f"snapshot_prefix={prefix}", *shown, *fields).ok


def test_two_runs_with_one_prefix(folder, call):
    train(call, "-set", "max_iter=9", "-set", "snapshot=3")
    train(call, "-set", "max_iter=12", "-set", "snapshot=4", "-set", "random_seed=2")
    assert models("a_run_1") == [(n, f"a_iter_{n}.caffemodel") for n in (9, 6, 3)]
    assert models("a_run") == [(n, f"a_iter_{n}.caffemodel") for n in (12, 8, 4)]
    assert call("visualize", "parameters", "a_run_1", "-out", "old.svg").ok
    Path("a_iter_9.solverstate").unlink()
    assert snapshots.best_model(Path("a_run_1")) == folder / "a_iter_9.caffemodel", "a state is not needed"


@pytest.mark.parametrize("prefix", ["my-net", "net.v2", "n[1]", "a*"])
def test_prefixes_with_signs_of_patterns(folder, call, prefix):
    train(call, "-set", "max_iter=2", prefix=prefix)
    assert models(f"{prefix}_run") == [(2, f"{prefix}_iter_2.caffemodel")]
    assert call("visualize", "parameters", f"{prefix}_run", "-out", "p.svg").ok


def test_a_run_that_moved_with_its_snapshots(folder, call):
    Path("here").mkdir()
    train(call, "-set", "max_iter=2", prefix="here/a")
    shutil.move("here", "there")
    assert snapshots.best_model(Path("there/a_run")) == folder / "there" / "a_iter_2.caffemodel"
    for path in Path("there").glob("a_iter_2*"):
        path.unlink()
    refused = call("visualize", "parameters", "there/a_run", "-out", "p.svg").refused
    assert "no snapshots of there/a_run; expected " in refused.err
