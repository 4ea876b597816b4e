"""Initial values that the net's file has for parameters: a layer's ``blobs``, as Caffe's Layer takes them."""

import numpy as np
import pytest
from parts import train_parts, train_whole
from test_shards import OUT, deep, divided, feed_images
from textnet import bind, build, inputs, mistakes

from caffelite import caffelite_pb2 as pb
from caffelite.weights import encode_net

IP = 'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y" %s inner_product_param { num_output: 2 } }\n'


def blob(values: np.ndarray, head: str = "") -> str:
    dims = " ".join(f"dim: {d}" for d in values.shape)
    return f"blobs {{ {head or f'shape {{ {dims} }}'} data: {values.ravel().tolist()} }} "


def parameters(text: str, name: str) -> list[np.ndarray]:
    net = bind(text, dtype="float32")
    return next(arrays for node, arrays in net.layer_blobs() if node.name == name)


def test_they_replace_the_fillers():
    weights, bias = np.arange(6.0).reshape(2, 3), np.array([0.5, -0.25])
    loaded = parameters(inputs(x=(4, 3)) + IP % (blob(weights) + blob(bias)), "ip")
    np.testing.assert_array_equal(loaded[0], weights)
    np.testing.assert_array_equal(loaded[1], bias)


def test_an_old_shape_of_four_axes_and_statistics():
    old = blob(np.arange(6.0), "num: 1 channels: 1 height: 2 width: 3") + blob(np.zeros(2))
    np.testing.assert_array_equal(parameters(inputs(x=(4, 3)) + IP % old, "ip")[0], np.arange(6.0).reshape(2, 3))
    mean, variance, factor = np.array([1.0, 2.0]), np.array([4.0, 9.0]), np.array([1.0])
    norm = f'layer {{ name: "n" type: "BatchNorm" bottom: "x" top: "y" {blob(mean) + blob(variance) + blob(factor)}}}\n'
    loaded = parameters(inputs(x=(4, 2)) + norm, "n")
    for actual, expected in zip(loaded, (mean, variance, factor), strict=True):
        np.testing.assert_array_equal(actual.ravel(), expected)


def test_a_caffemodel_has_each_blob_once():
    net = bind(inputs(x=(4, 3)) + IP % (blob(np.ones((2, 3))) + blob(np.zeros(2))))
    net.params.data[...] = 7
    written = encode_net(pb.NetParameter(), [(node.layer.spec, arrays) for node, arrays in net.layer_blobs()])
    (weights, bias) = pb.NetParameter.FromString(written).layer[-1].blobs
    assert list(weights.data) == [7] * 6 and list(bias.data) == [7] * 2


def test_a_divided_layer_takes_its_rows():
    weights = np.random.default_rng(3).normal(size=(8, 8)).astype(np.float32)
    given = deep(second=blob(weights) + blob(np.arange(8.0)) + "param { lr_mult: 0 } param { lr_mult: 0 }")
    graph = build(given)
    whole = train_whole(graph, 1, 1, feed_images).parameters
    divided_ = train_parts(graph, divided(2, b=OUT), 1, 1, feed_images).parameters
    np.testing.assert_array_equal(whole["b", 0], weights)
    np.testing.assert_array_equal(divided_["b", 0], weights)
    np.testing.assert_array_equal(divided_["b", 1], np.arange(8.0))


@pytest.mark.parametrize(
    "blobs, message",
    [
        (blob(np.ones((2, 3))), "expected 2, one for each parameter"),
        (blob(np.ones((3, 2))) + blob(np.ones(2)), "expected [2, 3], found [3, 2]"),
        (blob(np.ones(5), "shape { dim: 2 dim: 3 }") + blob(np.ones(2)), "a blob of shape [2, 3] with 5 values"),
    ],
)
def test_mistakes(blobs, message):
    mistakes(inputs(x=(4, 3)) + IP % ("@" + blobs), message)
