"""A whole net gives the same numbers on the GPU's kernels, run by the host, as on the CPU: blobs, gradients,
updates."""

import numpy as np
import pytest
from devices.host import plans
from devices.host.backend import HostBackend
from textnet import bind

from caffelite import caffelite_pb2 as pb
from caffelite.devices import Window, open_device, ops
from caffelite.devices.cuda import packing
from caffelite.errors import NOWHERE
from caffelite.inspection import summary
from caffelite.training.optim.updates import Updater

pytestmark = pytest.mark.host

NET = """
layer { name: "data" type: "DummyData" top: "x" top: "label" dummy_data_param {
  shape { dim: 4 dim: 2 dim: 9 dim: 8 } shape { dim: 4 } data_filler { type: "gaussian" }
  data_filler { type: "constant" value: 2 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 group: 2
    weight_filler { type: "xavier" } bias_filler { type: "constant" value: 0.1 } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" relu_param { negative_slope: 0.1 } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { kernel_size: 3 stride: 2 } }
layer { name: "ave" type: "Pooling" bottom: "pool" top: "ave" pooling_param { pool: AVE kernel_size: 2 pad: 1 } }
layer { name: "ip" type: "InnerProduct" bottom: "ave" top: "ip"
  inner_product_param { num_output: 11 weight_filler { type: "xavier" } } }
layer { name: "sigmoid" type: "Sigmoid" bottom: "ip" top: "s" }
layer { name: "drop" type: "Dropout" bottom: "s" top: "d" dropout_param { dropout_ratio: 0.4 } }
layer { name: "ip2" type: "InnerProduct" bottom: "d" top: "score"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "score" bottom: "label" top: "accuracy" }
"""


def trained(dev, iterations=3):
    net = bind(NET, seed=3, dev=dev, keep=True)
    solver = pb.SolverParameter(momentum=0.9, weight_decay=0.01, iter_size=2)
    updater = Updater(solver, net, NOWHERE)
    for iteration in range(iterations):
        for part in range(2):
            net.clear_loss()
            net.forward(iteration, part)
            net.backward(add=part > 0)
        updater.run(0.1, iteration)
    net.check_faults()
    blobs = {name: dev.download(array) for name, array in net.blobs.items()}
    return {
        **blobs,
        "(weights)": dev.download(net.params.data),
        "(gradients)": dev.download(net.params.diff) / updater.clipping.factor(),
        "(norm)": updater.clipping.gradient_norm(),
    }


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_net_as_on_the_cpu(precision):
    """In TF32 blobs lie channels last."""
    dev = plans.device(precision)
    assert dev.traits.channels_last == (precision == "tf32")
    on_cpu, on_gpu = trained(open_device()), trained(dev)
    assert on_cpu.keys() == on_gpu.keys() and np.abs(on_cpu["(gradients)"]).max() > 1e-3
    for name, expected in on_cpu.items():
        np.testing.assert_allclose(on_gpu[name], expected, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("precision, tolerance", [("fp16", 0.01), ("bf16", 0.08)])
def test_net_of_16_bit_blobs(precision, tolerance):
    """Near the CPU's float32, and not quite that: images are of 16-bit numbers from the first convolution on."""
    dev = plans.device(precision)
    assert dev.traits.half and dev.traits.half_images
    on_cpu, on_gpu = trained(open_device(), 1), trained(dev, 1)
    for name in ("conv", "ave", "(weights)", "loss"):
        scale = np.abs(on_cpu[name]).max()
        error = np.abs(on_gpu[name] - on_cpu[name]).max() / scale
        assert error < tolerance and (name == "(weights)" or error > 1e-6), (name, error)
    assert np.abs(on_gpu["(gradients)"] - on_cpu["(gradients)"]).max() < tolerance * np.abs(on_cpu["(gradients)"]).max()


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_weights_are_packed_once_for_both_passes(precision, seed):
    """From the second iteration on; a backward pass of its own packs them again."""
    dev, rng = plans.device(precision), np.random.default_rng(seed)
    kind = np.float16 if precision == "fp16" else np.float32
    shapes = (2, 6, 6, 4), (2, 4, 4, 8)
    x, dy = (rng.normal(size=shape).astype(kind) for shape in shapes)

    def convolution():
        return dev.build(ops.Convolution((2, 4, 6, 6), (2, 8, 4, 4), Window((3, 3)), channels_last=True))

    def backward(op, w):
        dx, before = dev.empty(shapes[0], kind), dev.backend.launches
        op.backward(x, w, dy, dx, None, None)
        return dx, dev.backend.launches - before

    op, launches = convolution(), []
    for _ in range(3):
        w = rng.normal(size=(8, 4, 3, 3)).astype(np.float32)
        op.forward(x, w, None, dev.empty(shapes[1], kind), None)
        dx, count = backward(op, w)
        np.testing.assert_array_equal(dx, backward(convolution(), w)[0])
        launches.append(count)
    assert launches == [2, 1, 1]
    w = rng.normal(size=w.shape).astype(np.float32)
    dx, count = backward(op, w)
    np.testing.assert_array_equal(dx, backward(convolution(), w)[0])
    assert count == 2


class Named(HostBackend):
    """``names``: of the kernels that were launched or captured."""

    def __init__(self):
        super().__init__()
        self.names: list[str] = []

    def kernel(self, source, name):
        launch = super().kernel(source, name)

        def run(*arguments):
            self.names.append(name)
            launch(*arguments)

        return run


CONVOLUTIONS = """
layer { name: "data" type: "DummyData" top: "x" dummy_data_param {
  shape { dim: 2 dim: 8 dim: 9 dim: 8 } data_filler { type: "gaussian" } } }
layer { name: "a" type: "Convolution" bottom: "x" top: "a"
  convolution_param { num_output: 8 kernel_size: 3 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "b" type: "Convolution" bottom: "a" top: "b"
  convolution_param { num_output: 16 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "c" type: "Convolution" bottom: "b" top: "c"
  convolution_param { num_output: 8 kernel_size: 3 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "loss" type: "Reduction" bottom: "c" top: "loss" loss_weight: 1 reduction_param { operation: SUMSQ } }
"""


def passes(precision: str, text: str = CONVOLUTIONS):
    """The kernels, loss and gradients of each of twelve passes, before which weights change; the ninth with operations
    that are built again."""
    dev, rng = plans.device(precision, backend=Named()), np.random.default_rng(3)
    net, results = bind(text, seed=3, dev=dev, keep=True), []
    for iteration in range(12):
        dev.upload(net.params.data, rng.normal(scale=0.1, size=net.params.data.shape))
        if iteration == 8:
            net.rebuild(next(node for node in net.graph.nodes if node.name == "c"))
        dev.backend.names.clear()
        net.clear_loss()
        net.forward(iteration)
        net.backward(iteration % 4 == 3)
        results.append(([*dev.backend.names], dev.download(net.loss), dev.download(net.params.diff)))
    return results, dev


def compared(monkeypatch, precision: str, text: str = CONVOLUTIONS):
    """The kernels of each pass where weights and gradients are converted together, and one by one: with the same
    bits."""
    together, dev = passes(precision, text)
    assert dev.backend.graphs and not dev.why_eager()
    monkeypatch.setattr(packing.Conversions, "has", lambda *_: False)
    alone, _ = passes(precision, text)
    for (_, *mine), (_, *others) in zip(together, alone, strict=True):
        for one, other in zip(mine, others, strict=True):
            np.testing.assert_array_equal(one, other)
    return [names for names, *_ in together], [names for names, *_ in alone]


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_weights_of_a_net_are_packed_by_one_launch(precision, monkeypatch):
    """Also where weights and operations change; so are gradients unpacked."""
    together, alone = compared(monkeypatch, precision)
    count = 3 if precision == "fp16" else 2
    packs = [(names.count("pack_all"), names.count("pack_weights")) for names in together]
    # The first convolution's, whose bottom has no gradient, are packed by themselves.
    assert packs[0] == (0, 2 * count - 1) and (1, 1) in packs[2:8] and (1, 1) in packs[10:]
    assert all(names.count("pack_weights") <= count for names in alone[2:8])
    unpacks = [(names.count("unpack_all"), names.count("unpack_weights")) for names in together]
    assert unpacks[0] == (0, count) and (1, 0) in unpacks[2:8] and (0, count) in unpacks[8:] and (1, 0) in unpacks[10:]
    assert not any("unpack_all" in names for names in alone)


FURTHER = """
layer { name: "d" type: "Convolution" bottom: "c" top: "d" param { name: "shared" }
  convolution_param { num_output: 8 kernel_size: 3 bias_term: false } }
layer { name: "loss of d" type: "Reduction" bottom: "d" top: "loss of d" loss_weight: 1
  reduction_param { operation: SUMSQ } }
"""


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_gradients_of_shared_parameters_are_unpacked_one_by_one(precision, monkeypatch):
    text = CONVOLUTIONS.replace('top: "a"', 'top: "a" param { name: "shared" }') + FURTHER
    together, _ = compared(monkeypatch, precision, text)
    assert not any("unpack_all" in names for names in together)


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_gradients_of_several_bottoms_are_unpacked_one_by_one(precision, monkeypatch):
    text = CONVOLUTIONS.replace('bottom: "b" top: "c"', 'bottom: "b" bottom: "b" top: "c" top: "c2"')
    together, _ = compared(monkeypatch, precision, text + FURTHER.replace('bottom: "c" top', 'bottom: "c2" top'))
    assert any("unpack_all" in names and names.count("unpack_weights") == 2 for names in together)


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_weights_that_a_layer_makes_are_packed_after_that(precision, monkeypatch):
    """Signs of weights, which BinaryConvolution makes in each forward pass."""
    text = CONVOLUTIONS.replace('name: "c" type: "Convolution"', 'name: "c" type: "BinaryConvolution"')
    compared(monkeypatch, precision, text)


def test_graphs_do_not_outlive_operations_that_are_built_again():
    losses = []
    for eager in ("", "as requested"):
        dev = plans.device(eager=eager)
        net = bind(CONVOLUTIONS, seed=3, dev=dev)
        for iteration in range(5):
            net.forward(iteration)
        node = next(node for node in net.graph.nodes if node.name == "c")
        weights = node.layer.params[0]
        weights.data, old = dev.empty(weights.data.shape), dev.download(weights.data)
        dev.upload(weights.data, 2 * old)
        net.rebuild(node)
        net.clear_loss()
        net.forward(5)
        losses.append(float(dev.download(net.loss)[0]))
        assert bool(dev.backend.graphs) != bool(eager)
    assert losses[0] == losses[1] > 0


PACKED = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 8 dim: 9 dim: 9 } } }
layer { name: "a" type: "Convolution" bottom: "x" top: "a" convolution_param { num_output: 16 kernel_size: 3 } }
layer { name: "point" type: "Convolution" bottom: "a" top: "b" convolution_param { num_output: 8 kernel_size: 1 } }
layer { name: "fixed" type: "Convolution" bottom: "b" top: "c" param { lr_mult: 0 } param { lr_mult: 0 }
  convolution_param { num_output: 8 kernel_size: 3 } }
layer { name: "depth" type: "Convolution" bottom: "c" top: "d" convolution_param {
  num_output: 8 kernel_size: 3 group: 8 } }
layer { name: "loss" type: "Reduction" bottom: "d" top: "loss" loss_weight: 1 }
"""


@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp32"])
def test_packed_weights_and_gradients_are_forecast(precision):
    net = bind(PACKED, dev=plans.device(precision))
    for i in range(3):
        net.forward(i)
        net.backward()
    ops = [node.layer.op for node in net.compiled.graph.nodes if node.layer.spec.type == "Convolution"]
    kept = [a for op in ops for a in (*(op._packed or ()), op._packed_gradients) if a is not None]
    assert sum(a.nbytes for a in kept) == summary.packed(net.compiled)
    assert bool(kept) == (precision != "fp32")
