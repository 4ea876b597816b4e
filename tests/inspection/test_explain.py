"""The reasons for a layer's shape, its weights' start, its backward pass and its memory."""

import re

import numpy as np
import pytest
from textnet import build, inputs

from caffelite import caffelite_pb2 as pb
from caffelite.errors import CaffeliteError
from caffelite.inspection import nets
from caffelite.inspection.explain import explain, initial_values
from caffelite.layers import ParameterSpec
from caffelite.layers.base import fillers

LOSS = 'layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "loss" }'


def reported(text: str, name: str, phase: str = "TRAIN"):
    graph = build(text, phase)
    return explain(graph, nets.node_of(graph, name))


@pytest.mark.parametrize(
    "layer, text",
    [
        (
            '"Convolution" convolution_param { num_output: 2 kernel_size: 3 stride: 2 pad: 1 }',
            "H: ⌊(8 + 2 · 1 - 3) / 2⌋ + 1 = 4 (1",
        ),
        (
            '"Convolution" convolution_param { num_output: 2 kernel_size: 3 dilation: 2 }',
            "kernel reaches 5; ⌊(8 + 2 · 0 - 5) / 1⌋ + 1 = 4",
        ),
        ('"Pooling" pooling_param { kernel_size: 3 stride: 2 }', "⌈(8 + 2 · 0 - 3) / 2⌉ + 1 = 4"),
        ('"Pooling" pooling_param { kernel_size: 2 stride: 2 pad: 1 }', "⌉ + 1 = 5"),
        ('"Pooling" pooling_param { global_pooling: true }', "one window, the image"),
        (
            '"Deconvolution" convolution_param { num_output: 2 kernel_size: 4 stride: 2 }',
            "2 · (8 - 1) + 4 - 2 · 0 = 18",
        ),
        (
            '"InnerProduct" inner_product_param { num_output: 2 }',
            "3×8×8 = 192 inputs of each of 2 rows become num_output = 2",
        ),
        ('"TanH"', "the bottom's shape"),
    ],
)
def test_shape(layer, text):
    lines = reported(inputs(x=(2, 3, 8, 8)) + f'layer {{ name: "y" bottom: "x" top: "y" type: {layer} }}', "y").shape
    assert any(text in line for line in lines), lines


def test_shape_of_a_concat():
    text = (
        inputs(x=(2, 3, 4, 4), z=(2, 5, 4, 4)) + 'layer { name: "y" type: "Concat" bottom: "x" bottom: "z" top: "y" }'
    )
    assert "along axis 1: 3 + 5 = 8" in reported(text, "y").shape


@pytest.mark.parametrize(
    "filler, text",
    [
        ({"type": "constant", "value": 0.5}, "starts at 0.5"),
        ({"type": "xavier"}, "±√(3 / 50) = ±0.2449 (fan_in); fan-in 50: deviation 0.1414 keeps"),
        ({"type": "msra"}, "√(2 / 50) = 0.2 (fan_in); fan-in 50: deviation 0.2 keeps"),
        ({"type": "gaussian", "std": 0.01}, "deviation 0.01; fan-in 50: deviation 0.01 shrinks"),
        ({"type": "uniform", "min": -3, "max": 3}, "deviation 1.732 grows"),
        ({"type": "positive_unitball"}, "positive_unitball: from "),
    ],
)
def test_initial_values(filler, text):
    assert text in initial_values(ParameterSpec((4, 2, 5, 5), pb.FillerParameter(**filler)))


def test_initial_values_of_the_file():
    text = 'layer { name: "y" type: "InnerProduct" bottom: "x" top: "y" '
    text += "inner_product_param { num_output: 1 bias_term: false } blobs { shape { dim: 1 dim: 2 } data: [1, 2] } }"
    assert any("starts with the blobs" in line for line in reported(inputs(x=(2, 2)) + text, "y").parameters)


def test_initial_values_match_the_filler():
    """The deviation that is reported is the one that is drawn."""
    every = (
        {"type": "xavier", "variance_norm": 2},
        {"type": "msra", "variance_norm": 1},
        {"type": "gaussian", "std": 2, "sparse": 10},
    )
    for fields in (*every, {"type": "uniform", "min": -1, "max": 5}):
        filler, shape = pb.FillerParameter(**fields), (40, 20, 5, 5)
        drawn = fillers.fill(filler, shape, np.random.default_rng(3)).std()
        assert float(
            re.findall(r"deviation ([\d.]+)", initial_values(ParameterSpec(shape, filler)))[-1]
        ) == pytest.approx(drawn, rel=0.03)


NET = (
    inputs(x=(2, 3), t=(2, 4))
    + """
layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" inner_product_param { num_output: 3 } }
layer { name: "r" type: "ReLU" bottom: "a" top: "a" }
layer { name: "frozen" type: "InnerProduct" bottom: "x" top: "f" param { lr_mult: 0 } param { lr_mult: 0 }
  inner_product_param { num_output: 3 } }
layer { name: "idle" type: "InnerProduct" bottom: "f" top: "i" inner_product_param { num_output: 3 } }
layer { name: "y" type: "InnerProduct" bottom: "a" top: "y" inner_product_param { num_output: 4 } }
"""
)


@pytest.mark.parametrize(
    "name, phase, text",
    [
        ("a", "TRAIN", "runs: parameters 0, 1 learn"),
        ("y", "TRAIN", 'runs: parameters 0, 1 learn and "a" gets a gradient'),
        ("frozen", "TRAIN", "its own lr_mult is 0"),
        ("idle", "TRAIN", "no loss above it gives it a gradient"),
        ("x", "TRAIN", "it brings the data"),
        ("a", "TEST", "the phase is TEST"),
    ],
)
def test_backward(name, phase, text):
    lines = reported(NET + LOSS, name, phase).backward
    assert text in lines[0], lines


def test_backward_of_bottoms():
    assert 'no gradient for bottom "t": nothing below it learns' in reported(NET + LOSS, "loss").backward
    assert 'no gradient for bottom "x": nothing below it learns' in reported(NET + LOSS, "a").backward
    assert "does not run: the net has no loss" in reported(NET, "a").backward


def test_plan():
    assert "fused with r (ReLU): one step computes all" in reported(NET + LOSS, "a").plan
    assert "fused with a (InnerProduct): one step computes all" in reported(NET + LOSS, "r").plan
    text = (
        inputs(x=(2, 3))
        + 'layer { name: "t" type: "TanH" bottom: "x" top: "t" } layer { name: "u" type: "TanH" bottom: "t" top: "u" }'
    )
    assert 'top "u" shares the memory of its bottom: no memory of its own' in reported(text, "u").plan


def test_shared_parameters():
    text = inputs(x=(2, 3)) + "".join(
        f'layer {{ name: "{n}" type: "InnerProduct" bottom: "x" top: "{n}" inner_product_param {{ num_output: 3 }} '
        f'param {{ name: "w" }} }}'
        for n in "ab"
    )
    assert 'shared, as "w", with layer a, which owns it' in reported(text, "b").parameters[0]


def test_a_layer_that_is_not_there():
    with pytest.raises(CaffeliteError, match='no layer "losss" in TRAIN; did you mean "loss"'):
        reported(NET + LOSS, "losss")
    left_out = 'layer { name: "acc" type: "Accuracy" bottom: "y" bottom: "t" top: "acc" include { phase: TEST } }'
    with pytest.raises(CaffeliteError, match="it is left out: phase is TRAIN"):
        reported(NET + LOSS + left_out, "acc")
