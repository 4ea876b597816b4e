"""Snapshots in HDF5, as Caffe lays them out, and snapshots with gradients in either form."""

import shutil

import h5py
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, weights
from caffelite.errors import CaffeliteError
from caffelite.training.checkpoint.snapshot import names, read_model, read_state

SOLVER = """
net: "everything.prototxt" base_lr: 0.05 lr_policy: "step" gamma: 0.7 stepsize: 4 type: "AdaDelta" momentum: 0.9
max_iter: 12 display: 1
random_seed: 5 snapshot: 5 snapshot_format: HDF5 snapshot_prefix: "run"
"""
BINARY = SOLVER.replace("HDF5", "BINARYPROTO").replace('"run"', '"bin"')


def text_of(data_set):
    """As Caffe reads a string: up to the first 0."""
    kind = data_set.id.get_type()
    raw = np.zeros((), f"V{kind.get_size()}")
    data_set.id.read(h5py.h5s.ALL, h5py.h5s.ALL, raw, mtype=kind)
    assert b"\0" in raw.tobytes()
    return raw.tobytes().split(b"\0")[0].decode()


def test_layout(folder, train):
    run = train(SOLVER)
    with h5py.File(folder / "run_iter_10.caffemodel.h5") as file:
        assert list(file) == ["data"]
        layers = {node.name: [b.shape for b in blobs] for node, blobs in run.solver.net.layer_blobs()}
        assert {
            name: [group[str(i)].shape for i in range(len(group))] for name, group in file["data"].items()
        } == layers
        assert {data_set.dtype for group in file["data"].values() for data_set in group.values()} == {np.dtype("<f4")}
    with h5py.File(folder / "run_iter_10.solverstate.h5") as file:
        assert set(file) == {"iter", "learned_net", "current_step", "history", "caffelite_resume"}
        for name, value in (("iter", 10), ("current_step", 2)):
            assert file[name].shape == (1,) and file[name].dtype == np.int32 and file[name][0] == value
        assert file["learned_net"].shape == () and text_of(file["learned_net"]) == "run_iter_10.caffemodel.h5"
        shapes = [b.shape for b in run.params()]
        assert [file["history"][str(i)].shape for i in range(len(file["history"]))] == shapes * 2
    assert "Snapshotting to HDF5 file run_iter_10.caffemodel.h5" in run.log
    assert "Snapshotting solver state to HDF5 file run_iter_10.solverstate.h5" in run.log
    assert not list(folder.glob("*.caffemodel")) and [path.name for path in folder.glob(".*")] == [".run.lock"]


def test_same_as_binary(folder, train):
    train(SOLVER), train(BINARY)
    one, two = (read_state(names(prefix, 10, hdf5)[1]) for prefix, hdf5 in (("run", True), ("bin", False)))
    np.testing.assert_equal(one.history, two.history)
    assert (one.iteration, one.current_step, one.resume) == (two.iteration, two.current_step, two.resume)
    one, two = (weights.read_model(names(prefix, 10, hdf5)[0]) for prefix, hdf5 in (("run", True), ("bin", False)))
    assert one.keys() == two.keys()
    np.testing.assert_equal(one, two)


@pytest.mark.parametrize("end", ["HDF5", "BINARYPROTO"])
def test_resume_is_exact_in_either_form(folder, train, end):
    whole = train(SOLVER)
    again = train(SOLVER.replace("HDF5", end).replace('"run"', '"again"'), resume="run_iter_5.solverstate.h5")
    np.testing.assert_equal(again.params(), whole.params())
    assert again.losses() == whole.losses()[5:] and not any("differs" in line for line in again.log)
    states = [read_state(names("run", 12, True)[1]), read_state(names("again", 12, end == "HDF5")[1])]
    np.testing.assert_equal(states[0].history, states[1].history)
    assert states[0].resume == states[1].resume


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["caffemodel", "solverstate"])
@pytest.mark.parametrize("damage", ["flip", "cut", "seal"])
def test_damage_is_found(folder, train, kind, damage):
    train(SOLVER)
    path = folder / f"run_iter_10.{kind}.h5"
    good, rng = path.read_bytes(), np.random.default_rng(6)
    places = range(1, 40, 3) if damage == "seal" else rng.integers(1, len(good), 15)
    for at in places:
        bad = bytearray(good)
        if damage == "flip":
            bad[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad if damage == "flip" else good[:-at])
        with pytest.raises(CaffeliteError, match=r"; the newest good snapshot is run_iter_12.solverstate.h5$"):
            state = read_state(folder.joinpath("run_iter_10.solverstate.h5").relative_to(folder))
            read_model(state, folder.joinpath("run_iter_10.solverstate.h5").relative_to(folder))


def test_layer_names_with_slashes(folder, train):
    text = (
        (folder / "everything.prototxt")
        .read_text()
        .replace('name: "conv"', 'name: "conv/3x3"')
        .replace('"value" type', '"conv" type')
    )
    (folder / "everything.prototxt").write_text(text)
    whole = train(SOLVER)
    np.testing.assert_equal(train(SOLVER, resume="run_iter_5.solverstate.h5").params(), whole.params())


def test_a_layer_name_invalid_in_hdf5(folder, train):
    text = (folder / "everything.prototxt").read_text().replace('name: "hidden"', 'name: "conv/0"')
    (folder / "everything.prototxt").write_text(text)
    with pytest.raises(CaffeliteError, match=r'layer "conv/0" cannot be written to HDF5: .*; rename the layer, or use'):
        train(SOLVER)


@pytest.mark.parametrize("change", ["history", "history/1", "learned_net"])
def test_incomplete_states_are_refused(folder, train, change):
    train(SOLVER)
    with (
        h5py.File(folder / "run_iter_10.solverstate.h5") as file,
        h5py.File(folder / "bad.solverstate.h5", "w") as other,
    ):
        for name in file:
            file.copy(name, other)
        del other[change]
        if change == "learned_net":
            other["learned_net"] = np.arange(3)
    with pytest.raises(CaffeliteError, match="bad.solverstate.h5"):
        train(SOLVER, resume="bad.solverstate.h5")


# gradients


def test_gradients_in_either_form(folder, train):
    run = train(SOLVER + "snapshot_diff: true")
    train(BINARY + "snapshot_diff: true")
    expected = {node.name: [np.asarray(p.diff) for p in node.layer.params] for node, _ in run.solver.net.layer_blobs()}
    assert any(array.any() for arrays in expected.values() for array in arrays)
    with h5py.File(folder / "run_iter_12.caffemodel.h5") as file:
        actual = {name: [group[str(i)][()] for i in range(len(group))] for name, group in file["diff"].items()}
    assert actual.keys() == {name for name, arrays in expected.items() if arrays}
    np.testing.assert_equal(actual, {name: expected[name] for name in actual})
    net = pb.NetParameter.FromString((folder / "bin_iter_12.caffemodel").read_bytes())
    for layer in net.layer:
        for blob, diff in zip(layer.blobs, expected[layer.name], strict=True):
            np.testing.assert_array_equal(np.array(blob.diff, np.float32), diff.ravel())
            assert len(blob.data) == len(blob.diff)
    models = (weights.read_model(name) for name in ("run_iter_12.caffemodel.h5", "bin_iter_12.caffemodel"))
    np.testing.assert_equal(*models)


def test_gradients_are_saved_only_with_snapshot_diff(folder, train):
    train(BINARY)
    net = pb.NetParameter.FromString((folder / "bin_iter_12.caffemodel").read_bytes())
    assert not any(blob.diff for layer in net.layer for blob in layer.blobs)


@pytest.mark.parametrize("form", ["HDF5", "BINARYPROTO"])
def test_moved_snapshots(folder, train, form):
    train(SOLVER.replace("HDF5", form))
    (folder / "kept").mkdir()
    for path in names("run", 10, form == "HDF5"):
        shutil.move(path, "kept")
    state = names("kept/run", 10, form == "HDF5")[1]
    assert read_model(read_state(state), state)[0].parent.name == "kept"
