"""Each hint is said where it should be, once, and none in a run that learns."""

import numpy as np
import pytest

from caffelite.data.writers import write_hdf5

NET = """
layer {{ name: "rows" type: "HDF5Data" top: "x" top: "label" hdf5_data_param {{ source: "rows.txt" batch_size: 50 }} }}
layer {{ name: "hidden" type: "InnerProduct" bottom: "x" top: "hidden"
  inner_product_param {{ num_output: 16 weight_filler {{ type: "{filler}" std: {std} }}
    bias_filler {{ value: {bias} }} }} }}
layer {{ name: "act" type: "{act}" bottom: "hidden" top: "hidden" }}
layer {{ name: "class" type: "InnerProduct" bottom: "hidden" top: "class"
  inner_product_param {{ num_output: 4 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "class" bottom: "label" top: "loss" }}
layer {{ name: "accuracy" type: "Accuracy" bottom: "class" bottom: "label" top: "accuracy" include {{ phase: TEST }} }}
"""
SOLVER = """
net: "net.prototxt" test_iter: 4 test_interval: 300 base_lr: 0.1 lr_policy: "fixed" max_iter: 900 display: 20
random_seed: 3
snapshot_after_train: false
"""


@pytest.fixture
def hints(folder, train):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((200, 8))

    def run(solver=SOLVER, guess=False, label=None, **net):
        if label is None:
            label = rng.integers(0, 4, 200) if guess else x[:, :4].argmax(1)
        else:
            label = np.full(200, label)
        write_hdf5(folder / "rows.h5", {"x": x, "label": label.astype(np.float32)}, force=True)
        text = NET.format(**{"filler": "xavier", "std": 1, "bias": 0, "act": "ReLU"} | net)
        (folder / "net.prototxt").write_text(text)
        return [line.removeprefix("Hint: ") for line in train(solver).log if line.startswith("Hint: ")]

    return run


def test_no_hint_on_a_run_that_learns(hints):
    assert hints() == []


def test_hint_on_a_loss_of_chance(hints):
    actual = hints(SOLVER.replace("0.1", "1e-9"), std=1e-5, filler="gaussian")
    assert sum("loss stays at ln(4) = 1.39, that of guessing, after 100 iterations" in hint for hint in actual) == 1


def test_no_hint_on_a_loss_that_falls_after_a_while(hints):
    assert not hints(SOLVER.replace("0.1", "0.005"), std=0.01, filler="gaussian")


def test_hint_on_chance_accuracy(hints):
    actual = hints(SOLVER.replace("0.1", "1e-9").replace("300", "250"), guess=True)
    assert (
        sum("accuracy is that of guessing among 4 classes (0.25) after 750 iterations" in hint for hint in actual) == 1
    )


def test_hint_on_dead_units(hints):
    actual = hints(SOLVER.replace("max_iter: 900", "max_iter: 200"), bias=-30)
    assert sum('16 of 16 units of "act" (ReLU) give 0 for every sample' in hint for hint in actual) == 1
    assert len(actual) == 2 and "stays at ln(4)" in actual[0]


def test_hint_on_exploding_gradients(hints):
    actual = hints(SOLVER.replace("0.1", "30").replace("max_iter: 900", "max_iter: 200"), act="TanH")
    assert any("gradients explode" in hint for hint in actual), actual


def test_hint_on_vanishing_gradients(hints):
    actual = hints(SOLVER.replace("max_iter: 900", "max_iter: 200"), act="Sigmoid", bias=20)
    assert any("gradients vanish" in hint and '"hidden"' in hint for hint in actual), actual


def test_hint_on_saturated_scores(hints):
    actual = hints(SOLVER.replace("0.1", "1e6").replace("max_iter: 900", "max_iter: 300"), act="TanH", guess=True)
    assert any("the loss of a probability of 0" in hint for hint in actual), actual


def test_hint_on_ignored_labels_is_logged_once(hints, monkeypatch):
    marked = NET.replace('top: "loss" }', 'top: "loss" loss_param {{ ignore_label: 7 }} }')
    monkeypatch.setitem(
        globals(), "NET", marked.replace("include {{", "accuracy_param {{ ignore_label: 7 }} include {{")
    )
    solver = SOLVER.replace("max_iter: 900", "max_iter: 60").replace("test_interval: 300", "test_interval: 20")
    assert hints(solver) == []
    assert sorted(hints(solver, label=7)) == [
        '"accuracy" is 0 because every label is 7, the ignore_label of layer "accuracy"',
        '"loss" is 0 because every label is 7, the ignore_label of layer "loss"',
    ]
