"""What the tests of captured iterations share: a solver, nets, and runs with graphs and runs without."""

import numpy as np

SOLVER = """
net: "everything.prototxt" base_lr: 0.01 momentum: 0.9 weight_decay: 0.001 lr_policy: "inv" gamma: 0.1 power: 0.75
test_iter: 3 test_interval: 9 max_iter: 34 display: 7 snapshot: 10 snapshot_prefix: "s" random_seed: 5
"""


def trained(train, device, text, **options):
    """The log of a run, without lines on files of an earlier run and on the time that is left, its losses and
    weights."""
    run = train(text, device=device, **options)
    log = [line for line in run.log if ": moved to " not in line and not line.endswith(" left")]
    return log, run.solver.loss_window(8), [device.download(p) for p in run.params()]


def assert_same(one, other) -> None:
    """Two results of ``trained``."""
    assert one[:2] == other[:2]
    np.testing.assert_equal(one[2], other[2])


def compare(train, device, text, **options):
    """(number of graphs, number of launches) after runs with graphs and without, which must agree."""
    device.eager = "as requested"
    log, losses, params = trained(train, device, text, **options)
    assert not device.backend.graphs
    log.remove("Running eagerly, not as CUDA graphs: as requested")
    device.eager = ""
    assert_same(trained(train, device, text, **options), (log, losses, params))
    assert not device.why_eager()
    return len(device.backend.graphs), sum(graph.runs for graph in device.backend.graphs)


STANDING = """
name: "standing"
layer { name: "images" type: "Data" top: "image" top: "label"
  transform_param { crop_size: 6 mirror: true scale: 0.0039 }
  data_param { source: "images" backend: LMDB batch_size: 4 shuffle: true } }
layer { name: "class" type: "InnerProduct" bottom: "image" top: "class"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "class" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "class" bottom: "label" top: "accuracy" include { phase: TEST } }
"""


FIXED = 'net: "standing.prototxt" base_lr: 0.1 lr_policy: "fixed" random_seed: 1'
TRAVELING = f"{FIXED} test_iter: 2 test_interval: 9 max_iter: 40"


CONVOLVING = """
name: "convolving"
layer { name: "images" type: "Data" top: "image" top: "label" transform_param { scale: 0.0039 }
  data_param { source: "images" backend: LMDB batch_size: 4 } }
layer { name: "conv1" type: "Convolution" bottom: "image" top: "conv1"
  convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "conv2" type: "Convolution" bottom: "conv1" top: "conv2"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "ip1" type: "InnerProduct" bottom: "conv2" top: "ip1"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "class" type: "InnerProduct" bottom: "ip1" top: "class"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "class" bottom: "label" top: "loss" }
"""


class LibraryError(Exception):
    """As the errors of cuDNN, cuBLAS and NCCL, which are not CuPy's."""
