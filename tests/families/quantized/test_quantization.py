"""Gradients of quantized layers, and mistakes in their messages."""

import numpy as np
import pytest
from families.quantized.rows import binary
from reference import convolution_backward
from textnet import bind, feed, inputs, layer, over, run, slopes

from caffelite.devices import Window
from caffelite.errors import CaffeliteError


def judged(kind: str, body: str, x, target):
    """A net whose gradient of y is (y - target) · 2 / N."""
    loss = layer("EuclideanLoss", "y", "t", body="loss_weight: 2", tops="loss")
    net = bind("force_backward: true\n" + over(kind, body, x=x.shape) + inputs(t=target.shape) + loss, keep=True)
    feed(net, x=x, t=target)
    return net


@pytest.mark.parametrize(
    "body, slope",
    [
        ("centers: 1 clip_thr: 1.5", [0, 0, 1, 0]),
        ("centers: 1 negative_slope: 0.5", [0.5, 0.5, 1, 1]),
        ('forward_func: "sign" backward_func: "hard_tanh" clip_thr: 1.5', [0, 1, 1, 0]),
        ('forward_func: "sign" backward_func: "hard_tanh"', [1, 1, 1, 1]),
    ],
)
def test_quant_has_the_gradient_of_its_backward_function(body, slope):
    x, target = np.array([[-2.0, -0.5, 0.5, 2.0]]), np.array([[3.0, 4.0, 5.0, 6.0]])
    net = judged("Quant", body, x, target)
    run(net)
    np.testing.assert_allclose(slopes(net), 2 * (net.blobs["y"] - target) * slope)


def test_quant_keeps_nan():
    for name in ("hwgq", "sign", "hard_tanh", "relu"):
        body = f'forward_func: "{name}" centers: 1 centers: 2'
        net = judged("Quant", body, np.array([[np.nan, 1.5]]), np.zeros((1, 2)))
        net.forward()
        assert np.isnan(net.blobs["y"]).tolist() == [[True, False]]


def test_binary_weights_pass_their_gradient_to_the_full_ones(seed):
    rng = np.random.default_rng(seed)
    x, target = rng.normal(size=(2, 3, 4, 4)), rng.normal(size=(2, 2, 3, 3))
    body = "convolution_param { num_output: 2 kernel_size: 2 bias_term: false }"
    body += "binary_convolution_param { use_alpha: true }"
    net = judged("BinaryConvolution", body, x, target)
    w = rng.normal(size=(2, 3, 2, 2))
    net.params.blobs[0][...] = w
    run(net)
    dy = net.blobs["y"] - target
    dx, dw, _ = convolution_backward(x, binary(w), dy, Window((2, 2)))
    np.testing.assert_allclose(slopes(net), dx, 1e-9, 1e-12)
    np.testing.assert_allclose(net.params.diff[: dw.size], dw.ravel(), 1e-9)


def test_sparsify_decays_its_top():
    x, target = np.array([[-2.0, 0.25, 3.0]]), np.zeros((1, 3))
    net = judged("Sparsify", "thre: 0.5 coef: 0.125", x, target)
    run(net)
    np.testing.assert_allclose(slopes(net), [[-3 - 0.125, 0, 5 + 0.125]])


def test_loss_scale_scales_the_decay_of_sparsify():
    x, target = np.array([[-2.0, 0.25, 3.0]]), np.zeros((1, 3))
    net, factor = judged("Sparsify", "thre: 0.5 coef: 0.125", x, target), np.array([8.0])
    net.scale_losses(factor)
    run(net)
    np.testing.assert_allclose(slopes(net), [[-25, 0, 41]])
    factor[0] = 2  # as the loss scale adapts
    run(net)
    np.testing.assert_allclose(slopes(net), [[-6.25, 0, 10.25]])


@pytest.mark.parametrize(
    "kind, body, what",
    [
        ("Quant", 'forward_func: "step"', "unknown forward_func"),
        ("Quant", 'centers: 1 backward_func: "step"', "unknown backward_func"),
        ("Quant", "", "a bad number of centers"),
        ("Quant", "centers: 1 centers: -1", "a bad center"),
        ("Sparsify", "thre: -1", "thre is negative"),
        ("BinaryInnerProduct", "inner_product_param { num_output: 2 transpose: true }", "do not support transpose"),
    ],
)
def test_mistakes_in_quantized_layers(kind, body, what):
    with pytest.raises(CaffeliteError, match=what):
        judged(kind, body, np.zeros((1, 2)), np.zeros((1, 2)))
