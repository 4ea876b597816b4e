"""Weight gradients of a pipeline stage that are computed once for all micro-batches of an iteration."""

import engines
import numpy as np
import pytest
from devices.host.backend import HostBackend
from textnet import bind, build, inputs

from caffelite.devices import open_device
from caffelite.devices.cuda import GPU
from caffelite.layers import inner_product
from caffelite.net import deferred
from caffelite.training.gradients import pieces
from caffelite.training.iteration import Passes
from caffelite.training.pipeline import Pipeline

DATA = (
    'layer { name: "data" type: "DummyData" top: "data" '
    'dummy_data_param { shape { dim: 3 dim: 20 } data_filler { type: "gaussian" } } }'
)
NET = (
    DATA
    + """
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 24 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" param { name: "shared" }
  inner_product_param { num_output: 24 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "ip3" type: "InnerProduct" bottom: "ip2" top: "ip3" param { name: "shared" }
  inner_product_param { num_output: 24 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "ip4" type: "InnerProduct" bottom: "ip3" top: "ip4" param { lr_mult: 1 } param { lr_mult: 0 }
  inner_product_param { num_output: 16 transpose: true weight_filler { type: "xavier" } } }
layer { name: "small" type: "InnerProduct" bottom: "ip4" top: "small"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "small" bottom: "zero" top: "loss" }
"""
)
NET = DATA.replace('"data"', '"zero"').replace("dim: 20", "dim: 2").replace("gaussian", "constant") + NET
DEVICES = {
    "cpu float64": lambda: open_device(None, "float64"),
    "cpu float32": lambda: open_device(None, "float32"),
    "cpu bf16": lambda: engines.with_onednn("bf16"),
    "gpu": lambda: GPU(0, "float32", HostBackend()),
    "gpu fp16": lambda: GPU(0, "float32", HostBackend(), "fp16"),
}
TOLERANCE = {"cpu float64": 1e-14, "cpu float32": 1e-6, "gpu": 1e-6}
MICRO_BATCHES = 3


@pytest.fixture(autouse=True)
def small_layers_defer(monkeypatch):
    monkeypatch.setattr(deferred, "LEAST_WEIGHTS", 1)
    monkeypatch.setattr(inner_product, "HALF_ROWS", 1)


@pytest.fixture(scope="module", params=DEVICES)
def device(request):
    return request.param, DEVICES[request.param]()


def gradients(dev, stages: int, backward=(), twice: bool = False):
    """(gradients by parameter, layers that defer them) after an iteration on the last of ``stages`` stages, which here
    has the complete net."""
    net = bind(NET, dev=dev)
    passes = Passes(Pipeline(net, MICRO_BATCHES, stages - 1, stages))
    actual = [observe(net) for observe in backward]
    for iteration in range(1 + twice):
        net.clear_loss()
        passes.forward_backward(iteration, backward=actual)
    held = {node.name for node in net.graph.nodes if getattr(node.layer, "deferred", None)}
    return [dev.download(diff).copy() for diff in net.params.diffs], held


@pytest.mark.host
def test_gradients_equal_those_added_pass_by_pass(device):
    kind, dev = device
    expected, none = gradients(dev, 1, twice=True)
    actual, held = gradients(dev, 2, twice=True)
    assert not none and held == {"ip1", "ip4"}, "not the shared ones, and not where the rows take more than the weights"
    for one, other in zip(actual, expected, strict=True):
        largest = np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE.get(kind, 1e-2) * largest)


def test_an_observer_reads_complete_gradients_after_each_pass():
    dev = open_device(None, "float64")
    seen: dict[str, list[np.ndarray]] = {}

    def observer(net):
        def observe(node):
            if node.name in ("ip1", "ip4"):
                seen.setdefault(node.name, []).append(net.params.blobs and node.layer.params[0].diff.copy())

        return observe

    expected, _ = gradients(dev, 1, [observer])
    added, seen = seen, {}
    observed, _ = gradients(dev, 2, [observer])
    for name, each in added.items():
        assert len(seen[name]) == len(each) == MICRO_BATCHES
        for one, other in zip(seen[name], each, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-14 * np.abs(other).max())
    unobserved, _ = gradients(dev, 2)
    np.testing.assert_equal(observed, unobserved)


def test_sums_over_processes_wait_for_deferred_gradients():
    net = bind(NET)
    pipeline = Pipeline(net, MICRO_BATCHES, 1, 2)
    last = len(net.compiled.backward)
    late = [i for i, piece in enumerate(pieces(net, None, pipeline.deferred.parameters)) if piece.step == last]
    assert {net.params.parameters[i].node.name for i in late} == {"ip1", "ip4"}


def test_replicas_keep_their_rows_in_one_place():
    net = bind(NET)
    pipeline = Pipeline(net, 4, 0, 3)
    assert len(pipeline.nets) == 3
    for _ in range(2):
        kept = {name: {id(n.graph.nodes[i].layer.deferred) for n in pipeline.nets} for i, name in ((2, "ip1"),)}
        assert all(len(actual) == 1 for actual in kept.values())
        pipeline.renew_replicas()


def test_rows_take_no_more_memory_than_the_weights(monkeypatch):
    graph = build(NET)
    assert [node.name for node in deferred.deferred_nodes(graph, 1)] == ["ip1", "ip4"]
    assert deferred.kept_bytes(graph, 3) == 4 * 9 * (20 + 24 + 24 + 16)
    assert deferred.deferred_nodes(graph, 100) == []
    monkeypatch.setattr(deferred, "LEAST_WEIGHTS", 481)
    assert deferred.deferred_nodes(build(inputs(x=(2, 3)) + NET), 3) == []
