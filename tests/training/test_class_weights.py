"""Class weights by hand, from a file and measured; uneven classes learned with them and with a balanced sampler."""

import re

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, devices, prototxt
from caffelite.data.writers import write_hdf5, write_lmdb
from caffelite.errors import CaffeliteError
from caffelite.runs.open_net import open_net
from caffelite.training.nets import NetSpec

# Two overlapping clouds of points, 1 of 50 in the second class; the test set has as many of each.
NET = """
name: "uneven"
layer { name: "points" type: "Data" top: "x" top: "label" include { phase: TRAIN }
  transform_param { mean_value: 100 scale: 0.05 }
  data_param { source: "train" backend: LMDB batch_size: 64 SAMPLER } }
layer { name: "points" type: "Data" top: "x" top: "label" include { phase: TEST }
  transform_param { mean_value: 100 scale: 0.05 }
  data_param { source: "test" backend: LMDB batch_size: 100 } }
layer { name: "score" type: "InnerProduct" bottom: "x" top: "score" inner_product_param { num_output: 2 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "loss" LOSS }
layer { name: "accuracy" type: "Accuracy" bottom: "score" bottom: "label" top: "accuracy" top: "recall"
  include { phase: TEST } }
"""
SOLVER = """
net: "net.prototxt" test_iter: 4 test_interval: 300 base_lr: 0.1 lr_policy: "fixed" momentum: 0.9 max_iter: 300
random_seed: 1 snapshot_prefix: "run" display: 100
"""
BALANCED = "loss_param { class_weight_balanced: true }"


def points(path, counts, rng):
    """LMDB of clouds of pixels in two dimensions, one standard deviation apart in each."""
    records = []
    for label, count in enumerate(counts):
        records += [((100 + 20 * (rng.normal(size=(2, 1, 1)) + label)).astype(np.uint8), label) for _ in range(count)]
    write_lmdb(path, [records[i] for i in rng.permutation(len(records))])


@pytest.fixture
def uneven(folder):
    rng = np.random.default_rng(2)
    points(folder / "train", (1000, 20), rng)
    points(folder / "test", (200, 200), rng)
    return folder


def write(folder, loss="", sampler=""):
    (folder / "net.prototxt").write_text(NET.replace("LOSS", loss).replace("SAMPLER", sampler))


def recalls(log):
    """The recall of each class in the last test."""
    actual = [re.search(r"recall = (\S+)", line) for line in log]
    return [float(m[1]) for m in actual if m][-2:]


def test_balanced_training_finds_the_rare_class(uneven, train):
    write(uneven)
    plain = recalls(train(SOLVER).log)
    assert plain[1] < 0.4
    ways = {"weights": (BALANCED, ""), "sampler": ("", "shuffle: true sampler: BALANCED")}
    for name, (loss, sampler) in ways.items():
        write(uneven, loss, sampler)
        actual = recalls(train(SOLVER.replace('"run"', f'"{name}"')).log)
        assert actual[1] >= 2 * plain[1] and min(actual) > 0.6, name


def test_measured_weights_are_those_of_the_records(uneven, train):
    write(uneven, BALANCED)
    run = train(SOLVER.replace("300", "10"))
    expected = [1020 / 2000, 1020 / 40]
    text = "Class weights of layer loss, from samples: 0: 0.51 (1000), 1: 25.5 (20)"
    assert text in run.log
    specs: list[NetSpec] = [run.solver.specs[0], *run.solver.specs[1]]
    assert len(specs) == 2
    for spec in specs:
        p = next(layer for layer in spec.message.layer if layer.name == "loss").loss_param
        assert list(p.class_weight) == pytest.approx(expected) and not p.class_weight_balanced
    for net in (run.solver.net, run.solver.tests[0][0]):
        node = next(node for node in net.graph.nodes if node.name == "loss")
        assert node.layer.class_weights.tolist() == pytest.approx(expected)


def test_measured_weights_train_as_the_same_by_hand(uneven, train):
    short = SOLVER.replace("300", "20")
    write(uneven, BALANCED)
    measured = train(short)
    write(uneven, "loss_param { class_weight: 0.51 class_weight: 25.5 }")
    by_hand = train(short)
    (uneven / "weights.txt").write_text("0.51\n\n25.5\n")
    write(uneven, 'loss_param { class_weight_source: "weights.txt" }')
    from_file = train(short)
    for run in (by_hand, from_file):
        np.testing.assert_equal(measured.params(), run.params())
    write(uneven)
    assert (train(short).params()[0] != by_hand.params()[0]).any()


def test_a_weighted_run_resumes_exactly(uneven, train):
    write(uneven, BALANCED, "shuffle: true sampler: BALANCED")
    text = SOLVER.replace("300", "20") + "snapshot: 8"
    whole = train(text)
    resumed = train(text.replace('"run"', '"again"'), resume="run_iter_8.solverstate")
    np.testing.assert_equal(whole.params(), resumed.params())
    note = "sampler BALANCED draws every class equally often already; class_weight_balanced weighs them too"
    assert any(note in line for line in whole.log)


def test_a_test_measures_the_train_set(uneven):
    """The net of `caffelite test`: the weights are those of the train set, though only the test set is scored."""
    write(uneven, BALANCED)
    net = open_net(prototxt.read_net("net.prototxt"), devices.open_device(), pb.TEST)
    try:
        node = next(node for node in net.graph.nodes if node.name == "loss")
        assert node.layer.class_weights.tolist() == pytest.approx([0.51, 25.5])
        net.forward()
    finally:
        net.close()


def test_the_mean_over_a_test_is_weighted(uneven, train):
    """Whole batches of one class: the mean of batch means would weigh both classes alike."""
    records = [(np.full((2, 1, 1), i // 2, np.uint8), int(i >= 300)) for i in range(400)]
    write(uneven, "loss_param { class_weight: 0.5 class_weight: 3 }")
    (uneven / "net.prototxt").write_text((uneven / "net.prototxt").read_text().replace('"test"', '"sorted"'))
    write_lmdb(uneven / "sorted", records, len(records))
    run = train(SOLVER.replace("300", "1"))
    w, bias = (run.solver.net.params.blobs[i].astype(float) for i in (0, 1))
    index = np.arange(400)
    x = (index // 2 - 100) * 0.05
    scores = np.stack([x, x], 1) @ w.reshape(2, 2).T + bias
    nll = np.logaddexp(*scores.T) - scores[np.arange(400), (index >= 300).astype(int)]
    weights = np.where(index >= 300, 3, 0.5)
    losses = [float(m[1]) for line in run.log if (m := re.search(r"Test net output #\d: loss = (\S+)", line))]
    assert losses[-1] == pytest.approx((weights * nll).sum() / weights.sum(), rel=1e-4)


def multi_label(folder, loss, count=3):
    rng = np.random.default_rng(3)
    labels = (rng.random((200, 3)) < [0.5, 0.1, 0.0]).astype(float)
    write_hdf5(folder / "many.h5", {"x": rng.normal(size=(200, 4)), "t": labels})
    (folder / "many.txt").write_text("many.h5\n")
    (folder / "net.prototxt").write_text(f"""
layer {{ name: "rows" type: "HDF5Data" top: "x" top: "t" hdf5_data_param {{ source: "many.txt" batch_size: 8 }} }}
layer {{ name: "score" type: "InnerProduct" bottom: "x" top: "score" inner_product_param {{ num_output: {count} }} }}
layer {{ name: "loss" type: "SigmoidCrossEntropyLoss" bottom: "score" bottom: "t" top: "loss" {loss} }}
""")
    return labels


def test_positive_weights_of_several_labels(folder, train):
    labels = multi_label(folder, BALANCED)
    run = train('net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 2 snapshot_prefix: "run"')
    node = next(node for node in run.solver.net.graph.nodes if node.name == "loss")
    positive = labels.sum(0)
    expected = [*((200 - positive[:2]) / positive[:2]), 1]
    np.testing.assert_allclose(node.layer.class_weights, expected, rtol=1e-6)
    text = "layer loss: classes 2 have no positive and negative targets; their class weight is 1"
    assert text in run.log


@pytest.mark.parametrize(
    "loss, message",
    [
        ("class_weight: 1", "class weights do not fit; expected 2, one a class, found 1"),
        ("class_weight: 1 class_weight: -2", "weight 1 is not a finite number from 0; found -2"),
        ("class_weight: inf class_weight: 1", "weight 0 is not a finite number from 0; found inf"),
        ("class_weight: 0 class_weight: 0", "class weights are all 0"),
        ('class_weight_source: "absent.txt"', "cannot read class_weight_source absent.txt"),
        ('class_weight_source: "words.txt"', "words.txt:2: not a weight; expected a number, found one"),
        ("class_weight: 1 class_weight: 1 class_weight_balanced: true", "several kinds of class weights"),
        ("class_weight: 1 class_weight: 1 label_smoothing: 0.1", "label_smoothing excludes class weights"),
        ("ignore_label: 1 label_smoothing: 0.1", "label_smoothing excludes class weights and ignore_label"),
        ("label_smoothing: 1.5", "a bad label_smoothing; expected from 0 to 1, found 1.5"),
    ],
)
def test_mistakes_in_class_weights(uneven, make, loss, message):
    (uneven / "words.txt").write_text("1\none\n")
    write(uneven, f"loss_param {{ {loss} }}")
    with pytest.raises(CaffeliteError, match=re.escape(message)) as error:
        make(SOLVER)
    assert str(error.value).startswith(("net.prototxt:10:", "words.txt:2:"))


def test_losses_that_take_no_class_weights(uneven, make):
    write(uneven, "loss_param { class_weight: 1 }")
    text = (uneven / "net.prototxt").read_text().replace("SoftmaxWithLoss", "HingeLoss")
    (uneven / "net.prototxt").write_text(text)
    with pytest.raises(CaffeliteError, match="takes no class weights; expected SoftmaxWithLoss or SigmoidCrossEntropy"):
        make(SOLVER)


def test_labels_that_no_data_layer_has_cannot_be_measured(uneven, make):
    write(uneven, BALANCED)
    text = (uneven / "net.prototxt").read_text().replace('bottom: "label" top: "loss"', 'bottom: "copy" top: "loss"')
    copy = 'layer { name: "copy" type: "Power" bottom: "label" top: "copy" }\nlayer { name: "loss"'
    (uneven / "net.prototxt").write_text(text.replace('layer { name: "loss"', copy))
    with pytest.raises(CaffeliteError, match='cannot read the labels "copy" from layer "copy" .Power.*class_weight'):
        make(SOLVER)


def test_measured_labels_must_be_classes(uneven, make):
    write(uneven, BALANCED)
    text = (uneven / "net.prototxt").read_text().replace('"train"', '"three"')
    (uneven / "net.prototxt").write_text(text)
    points(uneven / "three", (5, 5, 5), np.random.default_rng(1))
    with pytest.raises(CaffeliteError, match="a label in the data is no class; expected 0 to 1, found 2"):
        make(SOLVER)
