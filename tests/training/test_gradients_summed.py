"""Buckets of gradients that processes sum: every parameter that learns is in one, after the step that completes it."""

from dataclasses import replace

import pytest
from textnet import bind, inputs

from caffelite.devices import open_device
from caffelite.training import gradients

NORMED = (
    inputs(x=(2, 3, 6, 5))
    + """
layer { name: "c" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 4 kernel_size: 3
  bias_term: false weight_filler { type: "xavier" } } }
layer { name: "n" type: "BatchNorm" bottom: "c" top: "c" }
layer { name: "s" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true } }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" }
layer { name: "i" type: "InnerProduct" bottom: "c" top: "i" inner_product_param { num_output: 2
  weight_filler { type: "xavier" } } }
layer { name: "p" type: "PReLU" bottom: "i" top: "p" }
layer { name: "l" type: "Reduction" bottom: "p" top: "l" loss_weight: 1 }
"""
)


@pytest.mark.parametrize("fuse", [True, False])
def test_every_gradient_is_summed(fuse):
    """Also those that a step computes for layers which run as part of it, as a batch norm for its Scale."""
    dev = open_device()
    dev.traits = replace(dev.traits, little_work=0)
    net = bind(NORMED, dtype="float32", fuse=fuse, dev=dev)
    fused = {node.name for step in net.compiled.backward for node in step.fused}
    assert ("s" in fused) == fuse
    summed = {
        parameter.node.name
        for parameter, piece in zip(net.params.parameters, gradients.pieces(net), strict=True)
        if any(bucket.start <= piece.start < bucket.stop for bucket in gradients.buckets(net))
    }
    assert summed == {"c", "s", "i", "p"}
