"""What the rows of rows_forks.py cannot show: states between passes, limited gradients, mistakes."""

import numpy as np
import pytest
import reference
from textnet import bind, feed, forward, inputs, layer, over, run

from caffelite.errors import CaffeliteError
from caffelite.layers.base.layer import REGISTRY
from caffelite.layers.base.registry import FAMILIES

FILL = 'weight_filler { type: "gaussian" std: 0.5 } bias_filler { type: "gaussian" }'


def lstm(more: str = "", tail: str = "", **shapes: tuple[int, ...]):
    text = over("Lstm", f"num_output: 3 {more} {FILL}", **shapes)
    return bind("force_backward: true\n" + text + tail, keep=True)


def states(net, x, k):
    w_x, w_h, b = (np.array(blob, float) for blob in net.params.blobs)
    return reference.lstm(x[:, None], k.reshape(-1, 1), None, [np.zeros((1, 3))] * 2, [w_x, b, w_h])[0][:, 0]


def test_lstm_continues_where_its_second_bottom_says_so(seed):
    rng = np.random.default_rng(seed)
    x, k = rng.normal(size=(6, 2)), np.array([0, 1, 1, 1, 1, 0.0])
    net = lstm(x=(3, 2), k=(3, 1))
    actual = []
    for part in (slice(0, 3), slice(3, 6)):
        forward(net, x=x[part], k=k[part][:, None])
        actual.append(net.blobs["y"].copy())
    np.testing.assert_allclose(np.concatenate(actual), states(net, x, k), 1e-9)


def test_lstm_without_a_second_bottom_starts_with_each_pass(seed):
    x = np.random.default_rng(seed).normal(size=(3, 2))
    net = lstm(x=(3, 2))
    feed(net, x=x)
    for _ in range(2):
        net.forward()
        np.testing.assert_allclose(net.blobs["y"], states(net, x, np.array([0, 1, 1.0])), 1e-9)


def test_lstm_limits_the_gradients_of_a_step(seed):
    """The bias' gradient is the sum of the limited ones."""
    rng = np.random.default_rng(seed)
    tail = inputs(t=(4, 3)) + layer("EuclideanLoss", "y", "t", body="loss_weight: 1000", tops="loss")
    fed = {"x": rng.normal(size=(4, 2)), "t": rng.normal(size=(4, 3))}
    actual = {}
    for limit in (0.125, 0):
        net = lstm(f"clipping_threshold: {limit}", tail, x=(4, 2))
        run(net, **fed)
        actual[limit] = bias_gradient(net)
    assert np.abs(actual[0]).max() > 4 * 0.125 > 0
    assert np.abs(actual[0.125]).max() <= 4 * 0.125


def bias_gradient(net):
    bias, flat = net.params.blobs[2], net.params.data
    start = (bias.ctypes.data - flat.ctypes.data) // flat.itemsize
    return net.params.diff[start : start + bias.size]


@pytest.mark.parametrize(
    ("kind", "shapes", "body", "what"),
    [
        ("Lstm", [(4, 2)], "", "num_output must be positive"),
        ("Lstm", [(4, 2)], "lstm_param { num_output: 2 batch_size: 3 }", "does not fit batch_size"),
        ("Lstm", [(4, 2), (3,)], "lstm_param { num_output: 2 }", "does not fit"),
        ("Lstm", [(4, 2)], "lstm_param { num_output: 2 clipping_threshold: -1 }", "a bad clipping_threshold"),
        ("Transpose", [(4, 2)], "transpose_param { dim: 1 }", "has 1 values of dim"),
        ("Transpose", [(4, 2)], "transpose_param { dim: 1 dim: -1 }", "outside the bottom's 2 axes"),
        ("Reverse", [(4, 2)], "reverse_param { axis: 2 }", "axis"),
        ("SeLuDropout", [(4, 2)], "selu_dropout_param { dropout_ratio: 1 }", "a bad dropout_ratio"),
        ("Gather", [(4, 2)] * 2, "", "has 1 tops for 2 bottoms"),
    ],
)
def test_mistakes_in_layers_of_forks(kind, shapes, body, what):
    with pytest.raises(CaffeliteError, match=what):
        bind(over(kind, body, **{f"x{i}": shape for i, shape in enumerate(shapes)}))


def test_types_of_no_family_are_upstream_or_of_forks():
    """The types that BVLC's layer sources register, at 9b891540, are those that a user's file cannot replace."""
    upstream = """AbsVal Accuracy ArgMax BNLL BatchNorm BatchReindex Bias Clip Concat ContrastiveLoss
    Convolution Crop Data Deconvolution Dropout DummyData ELU Eltwise Embed EuclideanLoss Exp Filter Flatten
    HDF5Data HDF5Output HingeLoss Im2col ImageData InfogainLoss InnerProduct Input LRN LSTM LSTMUnit Log MVN
    MemoryData MultinomialLogisticLoss PReLU Parameter Pooling Power Python RNN ReLU Reduction Reshape SPP Scale
    Sigmoid SigmoidCrossEntropyLoss Silence Slice Softmax SoftmaxWithLoss Split Swish TanH Threshold Tile
    WindowData"""
    own = {name for name, kind in REGISTRY.items() if not kind.__module__.startswith(f"{FAMILIES}.")}
    assert {name for name in own if REGISTRY[name].upstream} == set(upstream.split())
