"""A net and a solver on disk, with data and without."""

import numpy as np
import pytest

from caffelite.data.writers import write_lmdb

NET = """name: "small"
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  data_param { source: "train_lmdb" batch_size: 4 backend: LMDB } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST }
  data_param { source: "test_lmdb" batch_size: 5 backend: LMDB } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" RATES
  convolution_param { num_output: 6 kernel_size: 3 stride: 2 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { kernel_size: 3 stride: 2 } }
layer { name: "score" type: "InnerProduct" bottom: "pool" top: "score" RATES
  inner_product_param { num_output: 3 weight_filler { type: "gaussian" std: 0.01 } } }
layer { name: "accuracy" type: "Accuracy" bottom: "score" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "loss" }
""".replace("RATES", "param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }")
SOLVER = """net: "net.prototxt"
test_iter: 2
test_interval: 10
base_lr: 0.01
lr_policy: "step"
gamma: 0.1
stepsize: 20
momentum: 0.9
weight_decay: 0.001
max_iter: 50
snapshot: 25
snapshot_prefix: "run"
"""


@pytest.fixture
def folder(tmp_path, in_tmp_path):
    """The working directory, with net.prototxt and solver.prototxt but without data."""
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "solver.prototxt").write_text(SOLVER)
    return tmp_path


@pytest.fixture
def data(folder):
    """train_lmdb of 12 images 2×9×9 in 3 classes, test_lmdb of 10."""
    for name, count in (("train_lmdb", 12), ("test_lmdb", 10)):
        write_lmdb(folder / name, [(np.full((2, 9, 9), i, np.uint8), i % 3) for i in range(count)], count)
    return folder
