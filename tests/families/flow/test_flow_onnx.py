"""ONNX: warped images."""

import numpy as np
import pytest
from export.exported_nets import exported

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.proof.onnx_runner import OnnxRunner

LAYERS = {
    "flow warp": 'type: "FlowWarp"',
    "flow warp that marks": 'type: "FlowWarp" flow_warp_param { fill_value: NOT_A_NUMBER }',
    "warp": 'type: "Warp"',
    "warp to the nearest": 'type: "Warp" warp_param { outliers: NEAREST }',
}
INPUTS = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 6 dim: 5 } } }
layer { name: "f" type: "Input" top: "f" input_param { shape { dim: 2 dim: 2 dim: 6 dim: 5 } } }
"""


@pytest.mark.parametrize("name", LAYERS)
def test_warps(name, seed):
    layer = f'layer {{ name: "y" bottom: "x" bottom: "f" top: "y" {LAYERS[name]} }}'
    net, body = exported(prototxt.parse(INPUTS + layer, pb.NetParameter), seed, "float32")
    rng = np.random.default_rng(seed)
    fed = {"x": rng.normal(size=(2, 3, 6, 5)), "f": rng.normal(size=(2, 2, 6, 5)) * 3}
    fed["f"][0, :, 2] = [[0, 1, -1, 2, 0]] * 2  # at pixels
    fed["f"][1, 0, 0, 0], fed["f"][1, 1, 1, 1], fed["f"][1, 0, 2, 2] = np.nan, np.nan, np.inf
    fed["f"][1, :, 5, 4] = 0.5, 0.5  # behind the last pixel
    fed = {n: values.astype(np.float32) for n, values in fed.items()}
    net.set_inputs(**fed)
    net.forward(0)
    mine, theirs = net.blobs["y"], OnnxRunner(body, "the test").outputs(fed)["y"]
    assert np.isnan(mine).sum() >= 6 and (mine[np.isfinite(mine)] != 0).any()
    np.testing.assert_allclose(theirs, mine, rtol=1e-4, atol=1e-4)
