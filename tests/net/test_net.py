"""Several nets: what a TEST net takes from its TRAIN net."""

import cProfile
import gc

import numpy as np
import pytest
from textnet import build, inputs

from caffelite.devices import open_device
from caffelite.errors import CaffeliteError
from caffelite.net.net import Net

FILL = 'weight_filler {{ type: "xavier" }}'
IP = (
    'layer {{ name: "{}" type: "InnerProduct" bottom: "x" top: "{}" inner_product_param {{ num_output: {} '
    + FILL
    + " }} }}\n"
)


@pytest.fixture
def train():
    return Net.of(build(inputs(x=(2, 3)) + IP.format("a", "a", 4), "TRAIN"), open_device(), seed=1)


def test_parameters_are_shared_by_layer_name_and_take_no_room(train):
    test = Net.of(
        build(inputs(x=(5, 3)) + IP.format("a", "a", 4) + IP.format("b", "b", 2), "TEST"),
        train.dev,
        seed=2,
        share=train,
    )
    weights, own = train.graph.nodes[1].layer.params[0].data, test.graph.nodes[2].layer.params[0].data
    assert test.graph.nodes[1].layer.params[0].data is weights
    weights[...] = 7
    assert (test.graph.nodes[1].layer.params[0].data == 7).all() and own.any()
    assert test.params.size == 2 * 16  # those of b: each starts on a cache line


def test_a_shape_that_differs_is_named_with_its_place(train):
    graph = build(inputs(x=(2, 3)) + IP.format("a", "a", 6), "TEST")
    message = r'net.prototxt:2:1: parameter 0 of layer "a" differs .* expected \[4, 3\], found \[6, 3\]'
    with pytest.raises(CaffeliteError, match=message):
        Net.of(graph, train.dev, share=train)


def test_loss_adds_up_until_it_is_cleared():
    text = (
        inputs(x=(2, 3), t=(2, 3))
        + 'layer { name: "l" type: "EuclideanLoss" bottom: "x" bottom: "t" top: "l" loss_weight: 3 }\n'
    )
    net = Net.of(build(text, "TEST"), open_device())
    net.dev.upload(net.blobs["x"], np.full((2, 3), 2.0))
    for _ in range(2):
        net.forward()
    assert net.loss.tolist() == [2 * 3 * 6.0]
    net.clear_loss()
    assert net.loss.tolist() == [0]


def test_calls_to_build_a_net_grow_with_its_layers():
    """Counts function calls, built-in ones too, of graph, compilation and binding."""
    chain = (
        'layer {{ name: "c{0}" type: "Convolution" bottom: "{1}" top: "c{0}" convolution_param {{ num_output: 2 '
        "kernel_size: 1 }} }}\n"
    )
    chain += 'layer {{ name: "r{0}" type: "ReLU" bottom: "c{0}" top: "c{0}" }}\n'
    dev = open_device()

    def calls(count):
        text = inputs(x=(1, 2, 4, 4)) + "".join(chain.format(i, f"c{i - 1}" if i else "x") for i in range(count))
        profile = cProfile.Profile()
        gc.collect()
        gc.disable()  # what other tests left is not to be finalised, and counted, meanwhile
        try:
            profile.runcall(lambda: Net.of(build(text, "TRAIN"), dev))
        finally:
            gc.enable()
        return sum(entry.callcount for entry in profile.getstats())

    calls(2)  # makes what is made once
    one, two, three = (calls(count) for count in (50, 100, 150))
    assert three - two <= 1.1 * (two - one)
