"""Training with mixup: which losses take its labels, and a resumed run."""

import re

import numpy as np
import pytest

from caffelite.errors import CaffeliteError

NET = """
layer { name: "data" type: "Data" top: "x" top: "y" include { phase: TRAIN }
  transform_param { scale: 0.01 mixup_param { alpha: 0.5 classes: 3 } }
  data_param { source: "images" backend: LMDB batch_size: 4 shuffle: true } }
layer { name: "data" type: "Data" top: "x" top: "y" include { phase: TEST } transform_param { scale: 0.01 }
  data_param { source: "images" backend: LMDB batch_size: 4 } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "gaussian" std: 0.1 } } }
layer { name: "loss" type: "LOSS" bottom: "ip" bottom: "y" top: "loss" FIELDS }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "y" top: "accuracy" include { phase: TEST } }
"""
SOLVER = """net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 max_iter: 12 snapshot: 5
snapshot_prefix: "run" test_iter: 3 test_interval: 12 display: 1 random_seed: 3"""


@pytest.fixture
def net(folder):
    """Writes the net with this loss."""

    def write(loss="SoftmaxWithLoss", fields="", text=NET):
        (folder / "net.prototxt").write_text(text.replace("LOSS", loss).replace("FIELDS", fields))

    return write


def test_a_resumed_run_sees_the_same_mixtures(net, train):
    net()
    whole = train(SOLVER)
    resumed = train(SOLVER.replace('"run"', '"again"'), resume="run_iter_5.solverstate")
    assert resumed.losses() == whole.losses()[-len(resumed.losses()) :]
    np.testing.assert_equal(whole.params(), resumed.params())
    assert any("accuracy" in line for line in whole.log), "the test has plain labels"


def test_mixtures_train_another_net(net, train):
    net()
    mixed = train(SOLVER)
    net(text=NET.replace("mixup_param { alpha: 0.5 classes: 3 }", ""))
    plain = train(SOLVER)
    assert mixed.losses() != plain.losses()


@pytest.mark.parametrize("fields", ["class_weight: 1 class_weight: 2 class_weight: 1", "ignore_label: 1"])
def test_distributions_exclude_weights_and_ignored_labels(net, make, fields):
    net(fields=f"loss_param {{ {fields} }}")
    error = 'the labels "y" are distributions, as of mixup_param; leave out class weights, ignore_label and a third top'
    with pytest.raises(CaffeliteError, match=re.escape(error)):
        make(SOLVER)


@pytest.mark.parametrize("loss", ["HingeLoss", "MultinomialLogisticLoss"])
def test_losses_of_one_label_name_what_does_not_fit(net, make, loss):
    net(loss)
    with pytest.raises(CaffeliteError, match=r"(?s)expected 4 labels, one for each .* found 12 \[4, 3\]"):
        make(SOLVER)
