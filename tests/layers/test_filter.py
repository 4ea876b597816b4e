"""Filter: what follows it takes the shape of the samples that pass, again and again."""

import numpy as np
import pytest
from textnet import bind, feed, forward, inputs, layer, run

from caffelite.errors import CaffeliteError

FILTER = (
    'layer { name: "filter" type: "Filter" bottom: "x" bottom: "label" bottom: "select" top: "some" top: "marks" }\n'
)
HEAD = """
layer { name: "flat" type: "Reshape" bottom: "@x" top: "flat" reshape_param { shape { dim: 0 dim: -1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "flat" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "gaussian" } bias_filler { type: "gaussian" } } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" }
layer { name: "square" type: "Power" bottom: "ip" top: "square" loss_weight: 0.5 power_param { power: 2 shift: 0.3 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "@label" top: "loss" }
"""
SELECTIONS = [[1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 2], [0, 1, -1, 0, 0], [1, 0, 1, 1, 0]]


@pytest.mark.parametrize("keep", [False, True])
def test_as_if_the_others_were_not_there(seed, keep):
    rng = np.random.default_rng(seed)
    text = "force_backward: true\n" + inputs(x=(5, 2, 3), label=(5,), select=(5,)) + FILTER
    text += HEAD.replace("@x", "some").replace("@label", "marks")
    net = bind(text, keep=keep)
    for selection in SELECTIONS:
        x, label, chosen = rng.normal(size=(5, 2, 3)), rng.integers(0, 4, 5), np.flatnonzero(selection)
        plain = "force_backward: true\n" + inputs(x=(len(chosen), 2, 3), label=(len(chosen),)) + HEAD.replace("@", "")
        alone = bind(plain, keep=True)
        alone.params.data[...] = net.params.data
        feed(alone, x=x[chosen], label=label[chosen])
        assert run(net, x=x, label=label, select=selection) == pytest.approx(run(alone), rel=1e-12)
        net.check_faults()
        assert net.blobs["square"].shape == (len(chosen), 4)
        np.testing.assert_allclose(net.params.diff, alone.params.diff, rtol=1e-12, atol=1e-15)
        expected = np.zeros_like(x)
        expected[chosen] = alone.diff[alone.graph.values["x"]]
        np.testing.assert_allclose(net.diff[net.graph.values["x"]], expected, rtol=1e-12, atol=1e-15)


def test_a_batch_of_which_nothing_passes():
    net = bind(inputs(x=(3, 2), label=(3,), select=(3,)) + FILTER)
    feed(net, x=0, label=0, select=0)
    with pytest.raises(CaffeliteError, match='"select" selects no sample of the batch'):
        net.forward()


def test_parameters_that_depend_on_the_count():
    text = inputs(x=(3, 2), label=(3,), select=(3,)) + FILTER
    net = bind(text + layer("InnerProduct", "some", body="num_output: 2 axis: 0"))
    feed(net, x=0, label=0, select=[1, 0, 1])
    with pytest.raises(CaffeliteError, match="its parameters change their shape with the data"):
        net.forward()


def test_an_output_without_a_mean():
    net = bind(inputs(x=(3, 2), label=(3,), select=(3,)) + FILTER, "TEST")
    forward(net, x=0, label=0, select=[1, 0, 1])
    with pytest.raises(CaffeliteError, match="changes its shape with the data, and has no mean"):
        net.outputs()


def test_shapes_vary_from_pass_to_pass_in_test():
    text = inputs(x=(3, 2), select=(3,)) + 'layer { name: "f" type: "Filter" bottom: "x" bottom: "select" top: "some" }'
    text += "".join(
        f'layer {{ name: "{top}" type: "Power" bottom: "{bottom}" top: "{top}" power_param {{ scale: 2 }} }}'
        for bottom, top in (("some", "y"), ("y", "z"))
    )
    net, x = bind(text, "TEST", "float32"), np.arange(6, dtype=np.float32).reshape(3, 2)
    for chosen in ([1, 1, 1], [1, 1, 1], [0, 1, 0], [0, 1, 0], [1, 0, 1]):
        forward(net, x=x, select=np.array(chosen, np.float32))
        assert net.blobs["z"].tolist() == (4 * x[np.array(chosen) > 0]).tolist()
