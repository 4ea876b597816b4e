"""A resumed run names what has changed in its data."""

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data import fingerprint
from caffelite.data.writers import write_hdf5, write_lmdb
from caffelite.errors import CaffeliteError
from caffelite.training.checkpoint.snapshot import read_state

NET = """
layer { name: "images" type: "Data" top: "image" top: "label" transform_param { mean_file: "mean" }
  data_param { source: "images" backend: LMDB batch_size: 4 } }
layer { name: "rows" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "rows.txt" batch_size: 4 } }
layer { name: "class" type: "InnerProduct" bottom: "image" top: "class" inner_product_param { num_output: 3 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "class" bottom: "label" top: "loss"
  loss_param { class_weight_source: "weights.txt" } }
layer { name: "value" type: "InnerProduct" bottom: "x" top: "value" inner_product_param { num_output: 2 } }
layer { name: "distance" type: "EuclideanLoss" bottom: "value" bottom: "y" top: "distance" }
"""
SOLVER = """
net: "all.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 4 random_seed: 3 snapshot: 2 snapshot_prefix: "run"
"""
IMAGES = [(np.full((1, 4, 4), i, np.uint8), i % 3) for i in range(10)]
ROWS = {"x": np.arange(12.0).reshape(6, 2), "y": np.ones((6, 2))}


def write(path, value=1):
    blob = pb.BlobProto(num=1, channels=1, height=4, width=4, data=[value] * 16)
    path.write_bytes(blob.SerializeToString())


@pytest.fixture
def trained(folder, train):
    """A run of 4 iterations with snapshots, whose data may then be changed."""
    write_lmdb(folder / "images", IMAGES, force=True)
    write_hdf5(folder / "rows.h5", ROWS, force=True)
    write(folder / "mean")
    (folder / "weights.txt").write_text("1\n2\n3\n")
    (folder / "all.prototxt").write_text(NET)
    train(SOLVER)
    return folder


def relabel(folder):
    changed = [(image, 0 if i == 4 else label) for i, (image, label) in enumerate(IMAGES)]
    write_lmdb(folder / "images", changed, force=True)


def exchange(folder):
    """As many of each class as before."""
    write_lmdb(folder / "images", [(image, (0, 2, 1)[label]) for image, label in IMAGES], force=True)


CHANGES = {
    "nothing": (lambda folder: None, []),
    "labels": (relabel, ['layer "images" (train), labels: 4 of 0, 3 of 1, 3 of 2, digest ']),
    "labels exchanged": (exchange, ['layer "images" (train), labels: 4 of 0, 3 of 1, 3 of 2, digest ']),
    "pixels": (
        lambda folder: write_lmdb(folder / "images", [(IMAGES[1][0], 0), *IMAGES[1:]], force=True),
        ['layer "images" (train), content: '],
    ),
    "half": (
        lambda folder: write_lmdb(folder / "images", IMAGES[:5], force=True),
        ['layer "images" (train), samples: 10 before, 5 now', "content: ", "labels: "],
    ),
    "rows": (
        lambda folder: write_hdf5(folder / "rows.h5", {**ROWS, "y": np.zeros((6, 2))}, force=True),
        ['layer "rows" (train), content of "y": '],
    ),
    "mean": (lambda folder: write(folder / "mean", 2), ['layer "images" (train), mean_file: ']),
    "class weights": (
        lambda folder: (folder / "weights.txt").write_text("1\n2\n4\n"),
        ['layer "loss" (train), class weights: 1, 2, 3 before, 1, 2, 4 now'],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_named_and_refused_where_strict(trained, train, change):
    act, expected = CHANGES[change]
    act(trained)
    run = train(SOLVER, resume="run_iter_2.solverstate")
    text = [line for line in run.log if "no exact continuation" in line]
    assert len(text) == len(expected) and all(part in line for part, line in zip(expected, text, strict=True)), text
    if not expected:
        train(SOLVER, resume="run_iter_2.solverstate", strict=True)
        return
    message = "the data differ from what run_iter_2.solverstate was trained with: layer"
    with pytest.raises(CaffeliteError, match=message):
        train(SOLVER, resume="run_iter_2.solverstate", strict=True)


def test_another_processor_is_named_and_refused_where_strict(trained, train):
    path = trained / "run_iter_2.solverstate"
    state = pb.SolverState.FromString(path.read_bytes())
    here, state.resume.arithmetic = state.resume.arithmetic, "haswell avx2, oneDNN 3.2.0 for instruction sets 7"
    path.write_bytes(state.SerializeToString())
    text = (
        f"run_iter_2.solverstate was computed by {state.resume.arithmetic}, this run computes by {here}, whose numbers"
    )
    assert [line for line in train(SOLVER, resume=str(path)).log if text in line and "no exact continuation" in line]
    with pytest.raises(CaffeliteError, match="whose numbers differ in their last bits: no exact continuation"):
        train(SOLVER, resume=str(path), strict=True)


def test_an_old_state_resumes_silently(trained, train):
    """A state without facts, as older versions wrote it, resumes to the same numbers."""
    whole = train(SOLVER).params()
    path = trained / "run_iter_2.solverstate"
    state = pb.SolverState.FromString(path.read_bytes())
    assert state.resume.data
    state.resume.ClearField("data")
    state.resume.ClearField("arithmetic")
    path.write_bytes(state.SerializeToString())
    assert not read_state(path).resume.data
    write_lmdb(trained / "images", IMAGES, force=True)
    run = train(SOLVER, resume=str(path), strict=True)
    np.testing.assert_equal(run.params(), whole)


@pytest.mark.parametrize(
    "labels, text",
    [(np.array([2, 0, 2.0]), "1 of 0, 2 of 2"), (np.arange(60), "60 labels, digest "), (np.empty(0), "")],
)
def test_histograms_in_words(labels, text):
    assert fingerprint.histogram(labels).startswith(text)


def test_sampled_numbers():
    assert fingerprint.sampled(3).tolist() == [0, 1, 2]
    assert len(fingerprint.sampled(10**9)) == fingerprint.SAMPLED and fingerprint.sampled(10**9)[-1] == 10**9 - 1
