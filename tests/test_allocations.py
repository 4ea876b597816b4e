"""After the first iterations nothing is allocated: no array, whole or passing, in training and testing."""

import statistics
import tracemalloc

import engines
import numpy as np
import pytest
from textnet import bind, feed, inputs

from caffelite import caffelite_pb2 as pb
from caffelite.errors import NOWHERE
from caffelite.training.optim.updates import Updater

BATCH = 32  # enough for inner products of bfloat16
OBJECTS = 2000  # bytes: what Python's own objects may hold on to
PASSING = 4096  # bytes: views and argument tuples that come and go
FILL = 'weight_filler { type: "xavier" }'
LENET = (
    inputs(data=(BATCH, 1, 28, 28), label=(BATCH,))
    + f"""
layer {{ name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param {{ num_output: 20 kernel_size: 5 {FILL} }} }}
layer {{ name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param {{ kernel_size: 2 stride: 2 }} }}
layer {{ name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
  convolution_param {{ num_output: 50 kernel_size: 5 {FILL} }} }}
layer {{ name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2" pooling_param {{ kernel_size: 2 stride: 2 }} }}
layer {{ name: "ip1" type: "InnerProduct" bottom: "pool2" top: "ip1" inner_product_param {{ num_output: 500 {FILL} }} }}
layer {{ name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }}
layer {{ name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param {{ num_output: 10 {FILL} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }}
"""
)
NORMALIZED = LENET.replace(
    'layer { name: "pool1"',
    """layer { name: "norm" type: "BatchNorm" bottom: "conv1" top: "conv1" }
layer { name: "scale" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }
layer { name: "relu0" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "lrn" type: "LRN" bottom: "conv1" top: "lrn" }
layer { name: "drop" type: "Dropout" bottom: "lrn" top: "lrn" }
layer { name: "pool1\"""",
).replace('bottom: "conv1" top: "pool1" pooling_param {', 'bottom: "lrn" top: "pool1" pooling_param { pool: AVE')


@pytest.fixture(params=["onednn", "bf16", "plain"])
def dev(request):
    if request.param == "plain":
        return engines.without_onednn()
    return engines.with_onednn("bf16" if request.param == "bf16" else "fp32")


@pytest.mark.slow
@pytest.mark.parametrize("text", [LENET, NORMALIZED], ids=["LeNet", "with normalization"])
@pytest.mark.parametrize("phase", ["TRAIN", "TEST"])
def test_an_iteration_allocates_nothing(dev, text, phase):
    rng = np.random.default_rng(1)
    net = bind(text, phase, dev=dev)
    feed(net, data=rng.normal(size=(BATCH, 1, 28, 28)), label=rng.integers(0, 10, BATCH))
    updater = Updater(pb.SolverParameter(momentum=0.9, weight_decay=5e-4), net, NOWHERE) if phase == "TRAIN" else None
    held, passing = [], []
    tracemalloc.start()
    try:
        for iteration in range(8):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            net.clear_loss()
            net.forward(iteration)
            if updater:
                net.backward()
                updater.run(0.01, iteration)
            now, peak = tracemalloc.get_traced_memory()
            held.append(now - before)
            passing.append(peak - before)
    finally:
        tracemalloc.stop()
    # Medians, since a thread that an earlier test left behind may allocate for itself meanwhile.
    assert statistics.median(held[3:]) <= OBJECTS, held
    assert statistics.median(passing[3:]) <= PASSING, passing
    assert held[0] > OBJECTS, "tracemalloc sees arrays"
