"""A top with a loss weight that a later layer reads is an output: it counts in the loss, and Caffe prints it."""

import numpy as np
import pytest
from textnet import bind, feed, inputs

NET = (
    inputs(x=(2, 3, 6, 6))
    + """
layer { name: "c" type: "Convolution" bottom: "x" top: "c" loss_weight: 0.25
  convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "r" type: "ReLU" bottom: "c" top: "r" }
layer { name: "ip" type: "InnerProduct" bottom: "r" top: "ip" loss_weight: 1
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "s" type: "Reduction" bottom: "ip" top: "s" loss_weight: 2 }
"""
)


@pytest.mark.parametrize(
    "net", [NET, NET.replace('"r"\n', '"c"\n').replace('top: "r"', 'top: "c"').replace('bottom: "r"', 'bottom: "c"')]
)
@pytest.mark.parametrize("phase", ["TRAIN", "TEST"])
def test_a_loss_that_is_read_is_an_output(phase, net, seed):
    """Also where the layer that reads it has its top in place."""
    net = bind(net, phase, seed=seed)
    feed(net, x=np.random.default_rng(seed).normal(size=(2, 3, 6, 6)))
    net.clear_loss()
    net.forward()
    outputs = {value.name: (weight, values) for value, weight, values in net.outputs()}
    assert list(outputs) == ["c", "ip", "s"]
    assert float(net.loss[0]) == pytest.approx(
        sum(weight * values.sum() for weight, values in outputs.values()), rel=1e-5
    )
