"""Which run a snapshot belongs to: pairs of one run, one run at a time under a prefix, and earlier runs' files moved,
never replaced."""

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt, weights
from caffelite.errors import CaffeliteError
from caffelite.training import newest
from caffelite.training.checkpoint import atomic_files, ownership, snapshot

SOLVER = """
net: "plain.prototxt" base_lr: 0.05 lr_policy: "fixed" momentum: 0.9 random_seed: 1 max_iter: 4 display: 1
snapshot: 2 snapshot_prefix: "run"
"""
OTHER = SOLVER.replace("random_seed: 1", "random_seed: 2")
HDF5 = "snapshot_format: HDF5"


def found(text=SOLVER):
    """What -resume auto takes."""
    return newest(prototxt.parse(text, pb.SolverParameter, "solver.prototxt").message, "solver.prototxt")


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*run*iter_*") if path.is_file())


def end(form):
    return ".h5" if form else ""


# A state and its model belong together


@pytest.mark.parametrize("form", ["", HDF5], ids=["binary", "HDF5"])
def test_a_model_of_another_snapshot_is_refused(folder, train, form, caplog):
    train(SOLVER + form)
    model, other = (folder / f"run_iter_{i}.caffemodel{end(form)}" for i in (4, 2))
    model.write_bytes(other.read_bytes())
    message = "run_iter_4.caffemodel.* is not the model that run_iter_4.solverstate.* was written with; "
    message += "the newest good snapshot is run_iter_2"
    with pytest.raises(CaffeliteError, match=message):
        train(SOLVER + form, resume=f"run_iter_4.solverstate{end(form)}")
    assert found(SOLVER + form) == f"run_iter_2.solverstate{end(form)}"
    assert f"run_iter_4.caffemodel{end(form)} is not the model that run_iter_4" in caplog.text
    assert "passed over" in caplog.text


def test_a_state_chooses_the_model_with_its_digest(folder, train):
    """A state that was moved, where another run's model of the same name is next to it, and its own at the old
    place."""
    train(SOLVER)
    (folder / "kept").mkdir()
    os.rename("run_iter_4.solverstate", "kept/run_iter_4.solverstate")
    (folder / "kept/run_iter_4.caffemodel").write_bytes((folder / "run_iter_2.caffemodel").read_bytes())
    path = Path("kept/run_iter_4.solverstate")
    assert snapshot.read_model(snapshot.read_state(path), path)[0] == Path("run_iter_4.caffemodel")


@pytest.mark.parametrize("form", ["", HDF5], ids=["binary", "HDF5"])
def test_states_without_a_digest_resume(folder, train, form):
    """As earlier versions and Caffe wrote them."""
    train(SOLVER + form)
    path = folder / f"run_iter_2.solverstate{end(form)}"
    if form:
        with h5py.File(path) as file, h5py.File("bare.h5", "w") as other:
            for name in file:
                file.copy(name, other)
        os.replace("bare.h5", path)
    else:
        state = pb.SolverState.FromString(path.read_bytes())
        for name in ("checksum", "run", "model_digest"):
            state.ClearField(name)
        path.write_bytes(state.SerializeToString())
    assert snapshot.read_state(path).digest == b"" and snapshot.read_state(path).run is None
    whole = train(SOLVER.replace('"run"', '"whole"') + form)
    again = train(SOLVER.replace('"run"', '"again"') + form, resume=str(path))
    np.testing.assert_equal(again.params(), whole.params())


# One run at a time

CHILD = """
import sys, time
from caffelite.training.checkpoint.ownership import Ownership
owner = Ownership("run")
owner.claim()
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def elsewhere(folder):
    """Another process that has the prefix "run"."""
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"locked\n"
    yield child
    child.stdin.close()
    child.wait()
    child.stdout.close()


def test_a_second_run_with_the_prefix_is_refused(folder, train, make, elsewhere):
    message = rf"another run \(process {elsewhere.pid} on \S+, since 2\S+ \S+\) writes snapshots under run; "
    message += "let it end, or give this run a prefix"
    with pytest.raises(CaffeliteError, match=message):
        train(SOLVER)
    assert listing(folder) == []
    assert train(SOLVER.replace('"run"', '"run2"')).solver.iteration == 4, "another prefix is free"
    unwritten = SOLVER.replace("snapshot: 2", "snapshot: 0 snapshot_after_train: false")
    assert train(unwritten).solver.iteration == 4, "a run that writes no snapshots needs no prefix"
    make(SOLVER, snapshots=False).step(2)
    elsewhere.kill()
    elsewhere.wait()
    assert train(SOLVER).solver.iteration == 4, "a killed run holds nothing"


def test_the_lock_ends_with_the_solver(folder, make):
    solver = make(SOLVER)
    solver.step(2)
    handle = os.open(".run.lock", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    solver.close()
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)


def test_solvers_of_one_process_share_the_lock(folder, make):
    """As in a notebook, where a cell that makes a solver runs again."""
    first, second = make(SOLVER), make(SOLVER)
    first.step(2)
    second.step(2)
    first.close()
    with pytest.raises(CaffeliteError, match="another run"):
        code = "from caffelite.training.checkpoint.ownership import Ownership; Ownership('run').claim()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        raise CaffeliteError(done.stderr.splitlines()[-1])
    assert (folder / "run_run_1/run_iter_2.solverstate").exists(), "what the first one wrote made way"


def test_a_failed_claim_keeps_the_other_trainers_lock(folder, make, monkeypatch):
    first, second = make(SOLVER), make(SOLVER)
    first.claim()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(CaffeliteError, match="snapshots cannot be written under run: .run.lock: no space left"):
            second.claim()
    first.step(2)
    first.close()
    assert listing(folder) == ["run_iter_2.caffemodel", "run_iter_2.solverstate"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO])
def test_a_file_system_without_locks_logs_a_warning(folder, train, monkeypatch, number):
    def refuse(handle, how):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    run = train(SOLVER)
    assert run.solver.iteration == 4 and len(listing(folder)) == 4
    assert any(line.startswith(".run.lock cannot be locked (") for line in run.log)


# -resume auto


def test_auto_takes_the_newest_run(folder, train, make):
    """Not the highest iteration: a run of four iterations ended, and a new one was killed after two."""
    train(SOLVER)
    solver = make(OTHER)
    solver.step(2)
    solver.close()
    assert found() == "run_iter_2.solverstate"
    assert snapshot.read_state(Path(found())).resume.random_seed == 2
    resumed = train(OTHER, resume=found())
    whole = train(OTHER.replace('"run"', '"whole"'))
    np.testing.assert_equal(resumed.params(), whole.params())
    assert found() == "run_iter_4.solverstate" and (folder / "run_run_1/run_iter_4.solverstate").exists()


def test_auto_starts_over_a_run_without_snapshots(folder, train, make, caplog):
    train(SOLVER)
    solver = make(OTHER)
    solver.step(1)
    assert found() is None
    what = "left no good snapshot; run_iter_4.solverstate is of an earlier run: "
    assert what + "-snapshot run_iter_4.solverstate continues from it" in caplog.text


def test_auto_repeats_a_resume_without_new_snapshots(folder, train, make):
    """Also one that went back, whose own snapshots are none yet."""
    train(SOLVER)
    train(OTHER)
    path = next(path for path in folder.glob("run_run_*/run_iter_2.solverstate"))
    make(SOLVER, resume=str(path)).step(1)
    assert found() == str(path)


def test_a_run_from_an_older_snapshot_replaces_nothing(folder, train):
    first = train(SOLVER)
    back = train(SOLVER.replace("0.05", "0.01"), resume="run_iter_2.solverstate")
    assert back.solver.files.owner.run.id != first.solver.files.owner.run.id
    assert (folder / "run_run_1/run_iter_4.solverstate").exists() and found() == "run_iter_4.solverstate"
    kept = Path("run_run_1/run_iter_4.solverstate")
    np.testing.assert_equal(snapshot.read_model(snapshot.read_state(kept), kept)[1]["value"], first.params())


def test_a_resumed_run_keeps_its_id(folder, train):
    first = train(SOLVER, iterations=2)
    again = train(SOLVER, resume=found())
    assert again.solver.files.owner.run.id == first.solver.files.owner.run.id and not (folder / "run_run_1").exists()
    assert {weights.run_of(path).id for path in folder.glob("run_iter_*")} == {first.solver.files.owner.run.id}


def test_files_without_a_run_are_ordered_by_iteration(folder, train):
    train(SOLVER)
    for path in folder.glob("run_iter_*.solverstate"):
        state = pb.SolverState.FromString(path.read_bytes())
        bare = pb.SolverState(iter=state.iter, learned_net=state.learned_net, history=state.history)
        path.write_bytes(bare.SerializeToString())
    (folder / ".run.lock").unlink()
    assert found() == "run_iter_4.solverstate"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"run": 1}', "\udcff" * 9, '{"run":"x","began":"y","process":1,"host":"","resumed":""}'],
)
def test_a_damaged_lock_file_is_ignored(folder, train, text):
    train(SOLVER)
    (folder / ".run.lock").write_bytes(text.encode(errors="surrogateescape"))
    assert found() == "run_iter_4.solverstate"
    assert train(SOLVER, resume=found()).solver.iteration == 4


def test_run_order_survives_a_clock_set_back(folder, train, monkeypatch):
    train(SOLVER)
    monkeypatch.setattr(ownership.time, "time_ns", lambda: 5)
    run = train(OTHER)
    assert snapshot.read_state(Path(found())).run.id == run.solver.files.owner.run.id


# Files of earlier runs


@pytest.mark.parametrize("form", ["", HDF5], ids=["binary", "HDF5"])
def test_files_of_an_earlier_run_are_moved(folder, train, form):
    text = SOLVER + form + ' test_iter: 2 test_interval: 2 best_score: "loss" ema_decay: 0.5'
    first = train(text)
    names = [name for name in listing(folder)] + [f"run_best.caffemodel{end(form)}"]
    assert len(names) == 7
    before = {name: (folder / name).read_bytes() for name in names}
    second = train(text.replace("random_seed: 1", "random_seed: 2"))
    for name, body in before.items():
        assert (folder / "run_run_1" / name).read_bytes() == body
        assert weights.run_of(folder / name).id == second.solver.files.owner.run.id
    ids = first.solver.files.owner.run.id
    assert any(line.startswith(f"run_iter_2.solverstate{end(form)} is of run {ids} (of 2") for line in second.log)
    assert sum(line.endswith(": moved to run_run_1") for line in second.log) == len(names)
    moved = Path(f"run_run_1/run_iter_4.solverstate{end(form)}")
    resumed = train(text.replace("max_iter: 4", "max_iter: 6").replace('"run"', '"more"'), resume=str(moved))
    whole = train(text.replace("max_iter: 4", "max_iter: 6").replace('"run"', '"whole"'))
    np.testing.assert_equal(resumed.params(), whole.params())


def test_only_files_with_needed_names_are_moved(folder, train):
    train(SOLVER)
    train(OTHER.replace("max_iter: 4", "max_iter: 2"))
    assert listing(folder) == sorted(
        [f"run_iter_{i}.{kind}" for i in (2, 4) for kind in ("caffemodel", "solverstate")]
        + ["run_run_1/run_iter_2.caffemodel", "run_run_1/run_iter_2.solverstate"]
    )


def test_files_join_the_records_of_their_run(folder, train):
    first = train(SOLVER)
    for name, run in (("run_run_7", "0" * 16), ("run_run_3", first.solver.files.owner.run.id)):
        (folder / name).mkdir()
        (folder / name / "run.json").write_text(json.dumps({"sessions": [{"run": run}]}))
    train(OTHER)
    assert (folder / "run_run_3/run_iter_2.solverstate").exists() and not (folder / "run_run_1").exists()


def test_each_moved_run_gets_its_own_folder(folder, train):
    for seed in (1, 2, 3):
        train(SOLVER.replace("random_seed: 1", f"random_seed: {seed}"))
    seeds = {str(p.parent): snapshot.read_state(p).resume.random_seed for p in Path().rglob("run_iter_4.solverstate")}
    assert seeds == {".": 3, "run_run_1": 1, "run_run_2": 2}


@pytest.mark.parametrize(
    "make_obstacle",
    [lambda path: path.write_text("a user's own file"), lambda path: path.mkdir(), os.mkfifo],
    ids=["file", "folder", "FIFO"],
)
def test_a_folder_with_a_snapshots_name_is_moved(folder, train, make_obstacle):
    make_obstacle(folder / "run_iter_2.caffemodel")
    train(SOLVER)
    assert (folder / "run_run_1/run_iter_2.caffemodel").exists() and snapshot.sound(Path("run_iter_2.solverstate"))


def test_other_runs_snapshots_are_not_pruned(folder, train):
    train(SOLVER.replace("snapshot: 2", "snapshot: 1"))
    train(OTHER + "snapshot_keep: 1")
    kept = {int(path.name.split("_")[2].split(".")[0]) for path in folder.glob("run_iter_*.solverstate")}
    assert kept == {1, 3, 4}
    assert {p.stem for p in folder.glob("run_run_1/*.solverstate")} == {"run_iter_2", "run_iter_4"}


# What a killed run left


def test_a_backup_is_restored_with_its_old_state(folder, train, make):
    """Killed between the renames of the model and of the state, where the run wrote this iteration before."""
    train(SOLVER)
    model = Path("run_iter_4.caffemodel")
    whole = model.read_bytes()
    os.rename(model, atomic_files.backup_of(model))
    model.write_bytes((folder / "run_iter_2.caffemodel").read_bytes())
    assert found() == "run_iter_4.solverstate"
    resumed = make(SOLVER, resume=found())
    resumed.claim()
    assert model.read_bytes() == whole and not atomic_files.backup_of(model).exists()


def test_an_unneeded_backup_is_removed(folder, train, make):
    train(SOLVER)
    names = ["run_iter_4.caffemodel", "run_iter_4_average.caffemodel", "run_iter_2.caffemodel.h5"]
    for name in names:
        atomic_files.backup_of(folder / name).write_bytes(b"old")
    make(SOLVER, resume=found()).claim()
    assert not [name for name in names if atomic_files.backup_of(folder / name).exists()]
    assert found() == "run_iter_4.solverstate"
