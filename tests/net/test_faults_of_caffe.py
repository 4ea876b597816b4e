"""Nets whose gradients Caffe gets wrong and ours rightly does not: each fault of docs/differences.md."""

import numpy as np
import pytest
from textnet import bind, feed, inputs, run

IP = 'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 4 %s } }\n'
IP %= 'weight_filler { type: "xavier" }'
FLATTEN = (
    'layer { name: "f" type: "Flatten" bottom: "m" top: "f" }\n'
    'layer { name: "l" type: "Reduction" bottom: "f" top: "l" loss_weight: 1 reduction_param { operation: SUMSQ } }\n'
)
FILL = 'recurrent_param { num_output: 2 weight_filler { type: "xavier" } }'
LEARNS = {
    "Reshape": IP
    + 'layer { name: "r" type: "Reshape" bottom: "ip" top: "m" reshape_param { shape { dim: 0 dim: 2 dim: 2 } } }',
    "Slice with one top": IP + 'layer { name: "r" type: "Slice" bottom: "ip" top: "m" }',
    "RNN": f'layer {{ name: "ip" type: "RNN" bottom: "x" bottom: "c" top: "m" {FILL} }}',
    "LSTM": f'layer {{ name: "ip" type: "LSTM" bottom: "x" bottom: "c" top: "m" {FILL} }}',
}


@pytest.mark.parametrize("kind", LEARNS)
def test_a_layer_below_a_flatten_learns(kind, seed):
    net = bind(inputs(x=(3, 2, 5), c=(3, 2)) + LEARNS[kind] + FLATTEN, seed=seed)
    feed(net, x=np.random.default_rng(seed).normal(size=(3, 2, 5)), c=np.ones((3, 2)))
    run(net, 0)
    assert np.abs(net.params.diffs[0]).max() > 0


def test_a_loss_on_an_in_place_top_adds_to_its_gradient():
    text = (
        inputs(x=(2, 3)) + 'layer { name: "s" type: "Power" bottom: "x" top: "y" power_param { scale: 3 } }\n'
        'layer { name: "r" type: "ReLU" bottom: "y" top: "y" loss_weight: 0.5 }\n'
        'layer { name: "l" type: "Reduction" bottom: "y" top: "l" loss_weight: 1 }\n'
    )
    net = bind("force_backward: true\n" + text)
    feed(net, x=np.ones((2, 3)))
    run(net, 0)
    np.testing.assert_allclose(net.diff[net.graph.values["x"]], np.full((2, 3), 4.5), rtol=1e-6)


def trained(net: str, name: str, folder, **fields) -> np.ndarray:
    """The first parameter of a layer after an update."""
    import caffelite.pycaffe as caffe

    (folder / "net.prototxt").write_text(net)
    settings = " ".join(f"{field}: {value}" for field, value in fields.items())
    text = f'net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 1 solver_mode: CPU {settings}'
    (folder / "solver.prototxt").write_text(text)
    solver = caffe.SGDSolver("solver.prototxt")
    solver.step(1)
    return solver.net.params[name][0].data.copy()


DATA = """layer { name: "d" type: "DummyData" top: "x" dummy_data_param {
  shape { dim: 1 dim: 3 } data_filler { type: "constant" value: 2 } } }
"""
SUM = 'layer { name: "l" type: "Reduction" bottom: "y" top: "l" loss_weight: 1 }\n'
ADDED = {
    "Scale of one row": 'layer { name: "p" type: "Scale" bottom: "x" top: "y" scale_param { axis: 1 } }',
    "Scale of axis 0": 'layer { name: "p" type: "Scale" bottom: "x" top: "y" scale_param { axis: 0 num_axes: 1 } }',
    "Parameter": 'layer { name: "p" type: "Parameter" top: "w" parameter_param { shape { dim: 1 dim: 3 } } }\n'
    'layer { name: "y" type: "Eltwise" bottom: "x" bottom: "w" top: "y" eltwise_param { operation: PROD } }',
}


@pytest.mark.parametrize("kind", ADDED)
def test_gradients_add_up_over_iter_size(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    once, twice = (trained(DATA + ADDED[kind] + SUM, "p", tmp_path, iter_size=size) for size in (1, 2))
    np.testing.assert_allclose(once, twice, rtol=1e-6)
    assert (once < (0 if kind == "Parameter" else 1)).all()


def test_frozen_parameters_do_not_count_in_clip_gradients(tmp_path, monkeypatch):
    """The frozen scale multiplies the gradient of the layer below it, and would have a gradient of its own."""
    monkeypatch.chdir(tmp_path)
    net = (
        DATA + 'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 1 } }\n'
        'layer { name: "s" type: "Scale" bottom: "ip" top: "y" param { lr_mult: 0 }\n'
        "  scale_param { filler { value: 3 } } }\n"
    )
    change = trained(net + SUM, "ip", tmp_path, clip_gradients=1)
    norm = np.sqrt(3 * 6**2 + 3**2)  # of weights and bias
    np.testing.assert_allclose(change, np.full((1, 3), -0.1 * 6 / norm), rtol=1e-5)
