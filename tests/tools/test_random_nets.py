"""tools/random_nets.py: nets drawn from the registry have the same numbers however they are computed."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from textnet import inputs

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.layers import REGISTRY

TOOL = Path(__file__).parents[2] / "tools" / "random_nets.py"


@pytest.fixture(scope="module")
def tool():
    """The tool as a module; what it adds to the path is removed."""
    spec = importlib.util.spec_from_file_location("random_nets_tool", TOOL)
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


@pytest.mark.slow
@pytest.mark.parametrize("first", (0, 48, 96))
def test_nets_are_the_same_however_they_are_computed(tool, first, in_tmp_path):
    """Each net in two of the ways, in turn."""
    campaign = tool.Campaign(share=2)
    for seed in range(first, first + 48):
        campaign.run(seed)
    assert not campaign.failures
    assert len(campaign.types) > 50


def test_every_type_is_drawn(tool):
    """Those that read boxes, priors or objects too."""

    def drawn(kind: str, seed: int) -> bool:
        drawing = sys.modules["net_drawing"].Drawing(seed)
        drawing.shapes["data"] = drawing.image
        return drawing.add(kind, "layer")

    assert [kind for kind in tool.DRAWN if not any(drawn(kind, seed) for seed in range(90))] == []


def test_a_wrong_gradient_is_found(tool, monkeypatch):
    text = inputs(x=(2, 3), t=(2, 4)) + 'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y" '
    text += "inner_product_param { num_output: 4 } }\n"
    text += 'layer { name: "l" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "l" }'
    compared = tool.Compared(tool.RandomNet(1, prototxt.parse(text, pb.NetParameter).message))
    assert compared.gradients() == {} and compared.way(tool.ways()["float64, fused"], wide=True) == {}
    right = REGISTRY["InnerProduct"].backward

    def wrong(self, x, y, dy, dx):
        right(self, x, y, dy, dx)
        self.params[0].diff[...] *= 1.5

    monkeypatch.setattr(REGISTRY["InnerProduct"], "backward", wrong)
    assert compared.gradients()


def test_values_that_meet_in_a_place_have_no_derivative(tool):
    """Each gets the place's gradient, as in DeconvNet, though the last one alone is there."""
    text = inputs(x=(1, 1, 4, 4), p=(1, 1, 4, 4)) + 'layer { name: "u" type: "Unpooling" bottom: "x" bottom: "p" '
    text += 'top: "y" loss_weight: 1 unpooling_param { unpool_size: 2 kernel_size: 2 } }'
    message = prototxt.parse(f"force_backward: true {text}", pb.NetParameter).message
    random = tool.RandomNet(1, message, values={"p": lambda rng, shape: rng.integers(0, 2, shape)})  # places 0 and 1
    assert tool.Compared(random).gradients() == {}


@pytest.mark.parametrize("normalize", [False, True])
def test_passes_that_change_weights_are_a_state(tool, normalize):
    """Unit rows are made in the forward pass: more passes for an update bring them closer to length 1."""
    text = inputs(x=(2, 3)) + 'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y" '
    text += f"inner_product_param {{ num_output: 4 normalize: {str(normalize).lower()} }} }}"
    random = tool.RandomNet(1, prototxt.parse(text, pb.NetParameter).message)
    assert tool.has_state(random) is normalize


@pytest.mark.parametrize("ratio", [0, 0.1])
def test_rare_random_numbers_are_noticed(tool, ratio):
    text = inputs(x=(1, 1)) + 'layer { name: "drop" type: "Dropout" bottom: "x" top: "y" '
    random = tool.RandomNet(
        1, prototxt.parse(f"{text} dropout_param {{ dropout_ratio: {ratio} }} }}", pb.NetParameter).message
    )
    assert tool.draws_numbers(random) is bool(ratio)


def test_a_number_makes_a_net(tool):
    assert tool.shown(tool.random_net(7)) == tool.shown(tool.random_net(7)) != tool.shown(tool.random_net(8))
    done = subprocess.run([sys.executable, TOOL, "--seed", "7", "--show"], capture_output=True, text=True)
    assert done.stdout == tool.shown(tool.random_net(7)) + "\n", done.stderr
