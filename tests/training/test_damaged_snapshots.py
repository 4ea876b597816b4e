"""States and weights that are damaged, odd or hostile: one clear error each, soon, and within bounded memory."""

import os
import random
import re
import shutil
from collections import Counter
from pathlib import Path

import fuzz_mutants
import h5py
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, weights
from caffelite.errors import CaffeliteError
from caffelite.training.checkpoint import snapshot
from caffelite.weights import hdf5

SOLVER = """
net: "plain.prototxt" base_lr: 0.05 lr_policy: "fixed" momentum: 0.9 random_seed: 1 max_iter: 4 snapshot: 2
snapshot_prefix: "run"
"""


def state_of(path):
    """A state's message without its checksum, so that changes to it are read."""
    state = pb.SolverState.FromString(Path(path).read_bytes())
    state.ClearField("checksum")
    return state


@pytest.mark.parametrize(
    "field, value",
    [
        (2, b"\xff\xfe.caffemodel"),
        (2, b"\xffrun_iter_4.caffemodel"),
        (8001, weights.field_bytes(1, b"S\xffD")),
        (8001, weights.field_bytes(2, b"\xff")),
        (8001, weights.field_bytes(16, b"\xff")),
        (8010, weights.field_bytes(1, b"\xff")),
        (8001, weights.field_bytes(5, weights.field_bytes(1, b"\xff"))),
        (8001, weights.field_bytes(6, weights.field_bytes(2, b"\xff"))),
    ],
)
def test_text_that_is_not_utf_8_is_refused(folder, train, field, value):
    train(SOLVER)
    path = folder / "run_iter_4.solverstate"
    path.write_bytes(state_of(path).SerializeToString() + weights.field_bytes(field, value))
    message = "run_iter_4.solverstate is no solverstate, or a damaged one .*; the newest good snapshot is run_iter_2"
    with pytest.raises(CaffeliteError, match=message):
        train(SOLVER, resume="run_iter_4.solverstate")


@pytest.mark.parametrize(
    "name", ["_iter_4.solverstate", "._iter_4.solverstate", "a\n_iter_4.solverstate", "_iter_.solverstate", "x"]
)
def test_unusual_state_names(folder, train, name):
    (folder / name).write_bytes(b"cut off")
    with pytest.raises(CaffeliteError, match="is no solverstate, it is text"):
        train(SOLVER, resume=name)


@pytest.mark.parametrize("model", ["", ".", "/", "..", "a\0b", "/proc/self/mem", "x" * 5000])
def test_unusual_model_names_in_a_state(folder, train, model):
    train(SOLVER)
    path = folder / "odd.solverstate"
    state = state_of(folder / "run_iter_4.solverstate")
    state.learned_net = model
    path.write_bytes(state.SerializeToString())
    with pytest.raises(CaffeliteError):
        train(SOLVER, resume=str(path))


@pytest.mark.parametrize("form", ["BINARYPROTO", "HDF5"])
def test_a_state_without_a_model_is_refused(folder, train, form):
    """Caffe continues with initial weights there, and prints nothing."""
    solver = SOLVER + f" snapshot_format: {form}"
    train(solver)
    if form == "HDF5":
        path = "bare_iter_4.solverstate.h5"
        with h5py.File(folder / "run_iter_4.solverstate.h5") as file, h5py.File(folder / path, "w") as bare:
            for name in ("iter", "current_step", "history"):
                file.copy(name, bare)
    else:
        path = "run_iter_4.solverstate"
        state = state_of(folder / path)
        state.ClearField("learned_net")
        (folder / path).write_bytes(state.SerializeToString())
    with pytest.raises(CaffeliteError, match="names no model .*so the weights of iteration 4 are not known") as error:
        train(solver, resume=path)
    assert "-weights" in str(error.value) and "-snapshot" in str(error.value)
    assert not snapshot.sound(folder / path)


@pytest.mark.parametrize("change", [{"iter": -3}, {"iter": None}])
def test_a_state_without_an_iteration(folder, train, change):
    train(SOLVER)
    state = state_of(folder / "run_iter_4.solverstate")
    state.ClearField("iter")
    if change["iter"]:
        state.iter = change["iter"]
    (folder / "odd.solverstate").write_bytes(state.SerializeToString())
    with pytest.raises(CaffeliteError, match="it has no iteration"):
        train(SOLVER, resume="odd.solverstate")


@pytest.mark.parametrize("prefix", ["r\udcffn", "\udcff/run"])
def test_a_path_that_is_not_utf_8_is_refused_at_the_start(folder, make, monkeypatch, prefix):
    if "/" in prefix:
        os.mkdir(prefix.split("/")[0])
    monkeypatch.setattr(snapshot, "prefix", lambda p, path: prefix)
    message = "snapshots cannot be written to .*: a state names its model in UTF-8; expected a path in UTF-8"
    with pytest.raises(CaffeliteError, match=message):
        make(SOLVER)


def test_a_deleted_folder_is_an_error(folder, make):
    (folder / "kept").mkdir()
    solver = make(SOLVER.replace('"run"', '"kept/run"'))
    solver.step(2)
    shutil.rmtree("kept")
    message = "cannot write kept/run_iter_4.*: its folder kept no longer exists; create it again: mkdir -p kept; then"
    with pytest.raises(CaffeliteError, match=message):
        solver.step(2)


def test_mutants_of_a_state(folder, train):
    """Of models: tests/weights/test_weights.py; of HDF5 files: tests/fuzz_kinds.py."""
    train(SOLVER)
    path, rng, actual = folder / "run_iter_4.solverstate", random.Random(3), Counter()
    good = state_of(path).SerializeToString()
    for _ in range(400):
        path.write_bytes(fuzz_mutants.binary(good, rng))
        try:
            snapshot.read_model(snapshot.read_state(path), path)
            actual["read"] += 1
        except CaffeliteError as error:
            assert str(error).isprintable()
            actual["refused"] += 1
    assert min(actual["read"], actual["refused"]) > 20


def test_an_endless_hdf5_file_is_refused(folder, monkeypatch):
    with h5py.File("m.h5", "w") as file:
        file["data/conv/0"] = np.ones(3, "f4")
    probe = folder / "probe.py"
    probe.write_text("while True: pass")
    monkeypatch.setattr(hdf5.hdf5_probe, "__file__", str(probe))
    monkeypatch.setattr(hdf5, "SECONDS", 0.2)
    with pytest.raises(CaffeliteError, match="cannot read m.h5 as HDF5: it is damaged: reading it does not end"):
        weights.read_model("m.h5")
    probe.write_text("import os; os.kill(os.getpid(), 11)")
    monkeypatch.setattr(hdf5, "SECONDS", 20)
    with pytest.raises(CaffeliteError, match="it is damaged: reading it ends the process that tries it"):
        weights.read_model("m.h5")


def test_hdf5_states_with_links_are_refused(folder, train):
    train(SOLVER + "snapshot_format: HDF5")
    path = folder / "run_iter_4.solverstate.h5"
    with h5py.File(path) as file, h5py.File("bare.h5", "w") as other:
        for name in file:
            file.copy(name, other)
        del other["history"]
        other["history"] = h5py.ExternalLink("run_iter_2.solverstate.h5", "/history")
    with pytest.raises(CaffeliteError, match="link to another place"):
        snapshot.read_state(Path("bare.h5"))


@pytest.mark.parametrize("end", ["", ".h5"])
def test_a_caffemodel_in_place_of_a_state_names_the_state(tmp_path, end):
    """And a state in place of weights its caffemodel."""
    model, state = (tmp_path / f"my run_iter_4.{kind}{end}" for kind in ("caffemodel", "solverstate"))
    net = pb.NetParameter()
    net.layer.add(name="ip", type="InnerProduct").blobs.add(data=[1], shape={"dim": [1]})
    model.write_bytes(weights.encode_hdf5_net([("ip", [np.ones(1)])]) if end else net.SerializeToString())
    with pytest.raises(CaffeliteError, match="is a caffemodel, no solverstate; to start from its weights: -weights "):
        snapshot.read_state(model)
    content = snapshot.State(4, "m", [])
    state.write_bytes(snapshot.encode_hdf5_state(content) if end else pb.SolverState(iter=4).SerializeToString())
    assert snapshot.read_state(state).iteration == 4
    with pytest.raises(CaffeliteError, match=re.escape(f"resume from '{state}'")):
        snapshot.read_state(model)
    with pytest.raises(CaffeliteError, match=re.escape(f"no caffemodel; its weights are in '{model}'")):
        weights.read_model(state)
