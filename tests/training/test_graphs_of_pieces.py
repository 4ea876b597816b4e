"""Nets with layers that need the host: what lies between these runs as graphs, and gives the bits of eager passes."""

import numpy as np
import pytest
from devices.host.backend import HostBackend
from textnet import inputs

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.devices.cuda import GPU
from caffelite.net import graph
from caffelite.net.net import Net

pytestmark = pytest.mark.host

FILTERED = (
    "force_backward: true\n"
    + inputs(x=(6, 5), label=(6,), select=(6,))
    + """
layer { name: "ip1" type: "InnerProduct" bottom: "x" top: "ip1"
  inner_product_param { num_output: 7 weight_filler { type: "gaussian" } } }
layer { name: "tanh" type: "TanH" bottom: "ip1" top: "tanh" }
layer { name: "filter" type: "Filter" bottom: "tanh" bottom: "label" bottom: "select" top: "some" top: "marks" }
layer { name: "drop" type: "Dropout" bottom: "some" top: "drop" }
layer { name: "ip2" type: "InnerProduct" bottom: "drop" top: "ip2"
  inner_product_param { num_output: 4 weight_filler { type: "gaussian" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "marks" top: "loss" }
"""
)


def opened(eager: str = "") -> Net:
    dev = GPU(0, "float32", HostBackend(), eager=eager)
    message = prototxt.parse(FILTERED, pb.NetParameter).message
    return Net.of(graph.build(message, pb.NetState(phase=pb.TRAIN)), dev, seed=1)


def passes(net: Net, selections: list[list[int]]) -> list[np.ndarray]:
    rng, results = np.random.default_rng(2), []
    for iteration, selection in enumerate(selections):
        net.set_inputs(x=rng.normal(size=(6, 5)), label=rng.integers(0, 4, 6), select=np.array(selection))
        net.clear_loss()
        net.forward(iteration)
        net.backward()
        results += [net.dev.download(net.loss), net.dev.download(net.params.diff)]
    return results


FEW, MANY = [1, 0, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0]


def test_shapes_that_stay_are_captured():
    """Those that change are not."""
    net, eager = opened(), opened("as requested")
    selections = [FEW] * 6 + [MANY, FEW] * 4 + [MANY] * 6
    np.testing.assert_equal(passes(net, selections), passes(eager, selections))
    assert net.pieces and not eager.dev.backend.graphs and not net.dev.why_eager()
    # Below the filter one graph for each side of the input buffer and each pass; above it as many for each time that a
    # shape has stayed.
    assert len(net.dev.backend.graphs) == 4 + 2 * 4
    assert sum(g.runs for g in net.dev.backend.graphs) > 4 * len(selections) - 30


def test_operations_that_are_made_again_void_a_graph():
    net = opened()
    passes(net, [FEW] * 4)
    before, node = len(net.dev.backend.graphs), next(n for n in net.graph.nodes if n.name == "ip1")
    net.rebuild(node)
    passes(net, [FEW] * 4)
    assert before == 8 and len(net.dev.backend.graphs) == before + 4
