"""Complete passes of nets for Python run a fused plan; every blob still reads as if none were fused."""

import numpy as np
import pytest

import caffelite
import caffelite.pycaffe as caffe
from caffelite.pycaffe.fused_passes import MOST_BLOBS

NET = """
name: "residual"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 9 dim: 8 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" convolution_param { num_output: 8 kernel_size: 3
  pad: 1 weight_filler { type: "xavier" } bias_filler { type: "constant" value: 0.1 } } }
layer { name: "norm1" type: "BatchNorm" bottom: "conv1" top: "norm1" }
layer { name: "scale1" type: "Scale" bottom: "norm1" top: "norm1" scale_param { bias_term: true
  filler { value: 1.5 } } }
layer { name: "relu1" type: "ReLU" bottom: "norm1" top: "norm1" }
layer { name: "conv2" type: "Convolution" bottom: "norm1" top: "conv2" convolution_param { num_output: 8 kernel_size: 3
  pad: 1 weight_filler { type: "xavier" } } }
layer { name: "sum" type: "Eltwise" bottom: "conv2" bottom: "norm1" top: "sum" }
layer { name: "relu2" type: "ReLU" bottom: "sum" top: "sum" }
layer { name: "left" type: "Convolution" bottom: "sum" top: "left" convolution_param { num_output: 8 kernel_size: 1
  weight_filler { type: "xavier" } } }
layer { name: "right" type: "Convolution" bottom: "sum" top: "right" convolution_param { num_output: 8 kernel_size: 3
  pad: 1 weight_filler { type: "xavier" } } }
layer { name: "concat" type: "Concat" bottom: "left" bottom: "right" top: "concat" }
layer { name: "pool" type: "Pooling" bottom: "concat" top: "pool" pooling_param { pool: AVE global_pooling: true } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip" inner_product_param { num_output: 5
  weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""
INNER = ["conv1", "norm1", "conv2", "sum", "left", "right", "concat", "pool", "ip"]


def values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape or (2, 3, 9, 8)).astype(np.float32)


@pytest.fixture(params=[caffe.Net, caffelite.Net])
def nets(request, write) -> tuple[caffe.Net, caffe.Net]:
    """A net, and one with the same weights that fuses nothing."""
    path = write(NET)
    caffe.set_random_seed(3)
    net = request.param(path, caffe.TEST)
    rng = np.random.default_rng(7)
    for blob, low in zip(net.params["norm1"], (-0.2, 0.5, 1), strict=True):
        blob.data[...] = rng.uniform(low, 1, blob.shape)
    net.save("weights.caffemodel")
    return request.param(path, "weights.caffemodel", caffe.TEST), request.param(
        path, "weights.caffemodel", caffe.TEST, fused=False
    )


def fused(net: caffe.Net) -> bool:
    """Whether the last pass ran the fused plan."""
    return net._fused is not None and net._fused.stale


def close(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_outputs_and_blobs_of_a_fused_pass(nets):
    net, plain = nets
    expected = np.array(plain.forward(data=values(1))["prob"])
    outputs = net.forward(data=values(1))["prob"]
    assert fused(net) and not fused(plain)
    close(outputs, expected)
    shown = np.array(net.blobs["prob"].data)
    net.blobs["data"].data[...] = 9  # written after the pass
    for name in INNER:
        np.testing.assert_array_equal(net.blobs[name].data, plain.blobs[name].data)
    np.testing.assert_array_equal(net.blobs["prob"].data, shown)
    assert np.all(net.blobs["data"].data == 9)


def test_blobs_that_were_read_are_stored_from_then_on(nets):
    net, plain = nets
    net.forward(data=values(1))
    np.array(net.blobs["conv1"].data), np.array(net.blobs["right"].data)
    for seed in (2, 3):
        net.forward(data=values(seed)), plain.forward(data=values(seed))
        for name in ("conv1", "right"):
            close(net.blobs[name].data, plain.blobs[name].data)
            assert fused(net)
    np.testing.assert_array_equal(net.blobs["sum"].data, plain.blobs["sum"].data)
    assert not fused(net)


def test_blobs_of_the_call_are_stored(nets):
    net, plain = nets
    for seed in (1, 2):
        outputs, expected = (n.forward(blobs=["norm1", "concat"], data=values(seed)) for n in (net, plain))
        assert fused(net)
        for name in ("prob", "norm1", "concat"):
            close(outputs[name], expected[name])


def test_an_array_that_is_held_shows_each_pass(nets):
    net, plain = nets
    held = net.blobs["pool"].data[0], net.blobs["left"].data.transpose(0, 2, 3, 1)[1:]
    for seed in (1, 2, 3):
        net.forward(data=values(seed)), plain.forward(data=values(seed))
        assert fused(net)
        close(held[0], plain.blobs["pool"].data[0])
        close(held[1], plain.blobs["left"].data.transpose(0, 2, 3, 1)[1:])


def test_many_blobs_are_read_after_passes_that_fuse_nothing(nets):
    net, plain = nets
    assert len(INNER) > MOST_BLOBS
    net.forward(data=values(1))
    for seed in (2, 3):
        assert all(net.blobs[name].data.ndim for name in INNER)
        net.forward(data=values(seed)), plain.forward(data=values(seed))
        assert not fused(net)
        for name in [*INNER, "prob"]:
            np.testing.assert_array_equal(net.blobs[name].data, plain.blobs[name].data)
    net.forward(data=values(4))
    assert not fused(net)
    net.forward(data=values(5))
    assert fused(net)


def test_blobs_are_those_of_the_parameters_before_a_change(nets):
    net, plain = nets
    net.forward(data=values(1)), plain.forward(data=values(1))
    for one in nets:
        one.params["conv1"][0].data[...] *= 2
    np.testing.assert_array_equal(net.blobs["ip"].data, plain.blobs["ip"].data)
    for seed in (2, 3):
        outputs, expected = (n.forward(data=values(seed))["prob"] for n in nets)
        close(outputs, expected)
    assert fused(net)
    net.copy_from("weights.caffemodel")
    np.testing.assert_array_equal(net.blobs["ip"].data, (plain.forward(data=values(3)), plain.blobs["ip"].data)[1])
    plain.copy_from("weights.caffemodel")
    close(net.forward(data=values(4))["prob"], plain.forward(data=values(4))["prob"])


def test_parameters_that_a_program_holds_may_change_at_any_time(nets):
    net, plain = nets
    held = [one.params["conv2"][0].data for one in nets]
    for seed in (1, 2):
        net.forward(data=values(seed)), plain.forward(data=values(seed))
        for array in held:
            array += 0.01
        np.testing.assert_array_equal(net.blobs["sum"].data, plain.blobs["sum"].data)
    del array, held
    net.forward(data=values(1))
    assert fused(net)


def test_passes_over_some_layers_start_from_complete_blobs(nets):
    net, plain = nets
    for one in nets:
        one.forward(data=values(1))
        one.forward(start="conv2", end="pool")
    np.testing.assert_array_equal(net.blobs["pool"].data, plain.blobs["pool"].data)
    for one in nets:
        one.forward(data=values(2))
        one.blobs["pool"].data[...] = 0.5
        one.forward(start="ip")
    np.testing.assert_array_equal(net.blobs["prob"].data, plain.blobs["prob"].data)
    np.testing.assert_array_equal(net.blobs["conv2"].data, plain.blobs["conv2"].data)


def test_other_shapes_are_fused_from_the_second_pass_on(nets):
    net, plain = nets
    net.forward(data=values(1)), plain.forward(data=values(1))
    for one in nets:
        one.blobs["data"].reshape(1, 3, 12, 7)
    np.testing.assert_array_equal(net.blobs["pool"].data, plain.blobs["pool"].data)
    for seed, is_fused in ((1, False), (2, True)):
        outputs, expected = (n.forward(data=values(seed, 1, 3, 12, 7))["prob"] for n in nets)
        assert fused(net) == is_fused
        close(outputs, expected)
    np.testing.assert_array_equal(net.blobs["sum"].data, plain.blobs["sum"].data)


IN_PLACE = 'layer { name: "abs" type: "AbsVal" bottom: "data" top: "data" }\n'


@pytest.mark.parametrize(
    ("old", "new", "is_fused"),
    [
        ("", "", True),
        ('name: "residual"', "force_backward: true", False),
        ('type: "Input" top: "data" input_param', 'type: "DummyData" top: "data" dummy_data_param', False),
        ('layer { name: "conv1"', IN_PLACE + 'layer { name: "conv1"', False),
    ],
)
def test_which_nets_are_fused(write, old, new, is_fused):
    for phase in (caffe.TEST, caffe.TRAIN):
        net = caffe.Net(write(NET.replace(old, new, 1)), phase)
        net.forward()
        assert fused(net) == (is_fused and phase == caffe.TEST)


def test_backward_follows_a_fused_pass(write):
    text = NET.replace('"Softmax" bottom: "ip"', '"SoftmaxWithLoss" bottom: "ip" bottom: "label"').replace(
        'layer { name: "conv1"', 'layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }\n'
        'layer { name: "conv1"'
    )  # fmt: skip
    nets = []
    for options in ({}, {"fused": False}):
        caffe.set_random_seed(3)
        nets.append(caffe.Net(write(text), caffe.TEST, **options))
    for net in nets:
        net.forward(data=values(1), label=np.array([1, 4]))
    assert fused(nets[0])
    for net in nets:
        net.backward()
    for name in ("conv1", "ip"):
        one, other = (net.params[name][0].diff for net in nets)
        np.testing.assert_array_equal(one, other)
        assert np.any(one)
