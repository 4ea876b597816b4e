"""Weights that are updated as their gradient is computed: the numbers are those of a stored gradient."""

import numpy as np
import pytest
from engines import with_onednn
from textnet import bind

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.devices import algorithms
from caffelite.errors import NOWHERE
from caffelite.training.diagnosis.tracing import trace
from caffelite.training.iteration import Passes
from caffelite.training.optim.updates import RULES, Updater, fused_passes
from caffelite.training.pipeline import Pipeline

NET = """
layer { name: "data" type: "DummyData" top: "data" top: "target" dummy_data_param {
  shape { dim: 3 dim: 4 dim: 80 } shape { dim: 3 dim: 64 } data_filler { type: "gaussian" } } }
layer { name: "first" type: "InnerProduct" bottom: "data" top: "first" param { lr_mult: 0.5 decay_mult: 2 }
  param { lr_mult: 2 } inner_product_param { num_output: 128 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "first" top: "first" }
layer { name: "fixed" type: "InnerProduct" bottom: "first" top: "fixed" param { lr_mult: 0 }
  inner_product_param { num_output: 64 weight_filler { type: "xavier" } } }
layer { name: "shared 1" type: "InnerProduct" bottom: "fixed" top: "shared 1" param { name: "shared" }
  inner_product_param { num_output: 64 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "shared 2" type: "InnerProduct" bottom: "shared 1" top: "shared 2" param { name: "shared" }
  inner_product_param { num_output: 64 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "turned" type: "InnerProduct" bottom: "shared 2" top: "turned"
  inner_product_param { num_output: 64 transpose: true weight_filler { type: "xavier" } } }
layer { name: "odd" type: "InnerProduct" bottom: "turned" top: "odd"
  inner_product_param { num_output: 63 weight_filler { type: "xavier" } } }
layer { name: "narrow" type: "InnerProduct" bottom: "odd" top: "narrow"
  inner_product_param { num_output: 64 weight_filler { type: "xavier" } } }
layer { name: "last" type: "InnerProduct" bottom: "narrow" top: "last"
  inner_product_param { num_output: 64 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "last" bottom: "target" }
"""
FIELDS = "base_lr: 0.1 weight_decay: 0.01 rms_decay: 0.9 delta: 1e-4 momentum2: 0.9 "


@pytest.fixture(autouse=True)
def small_weights_are_large(monkeypatch):
    monkeypatch.setattr(algorithms, "FEW_ROWS_WEIGHTS", 1)


@pytest.fixture(scope="module")
def dev():
    return with_onednn()


def solver(text):
    return prototxt.parse(FIELDS + text, pb.SolverParameter).message


class Training:
    """A net that trains. stored: all gradients are stored."""

    def __init__(self, dev, p, net=NET, stored=False):
        self.net = bind(net, dev=dev, fused_passes=0 if stored else fused_passes(p))
        self.updater = Updater(p, self.net, NOWHERE)
        self.passes = Passes(Pipeline(self.net, p.iter_size))

    def run(self, iterations):
        for i in range(iterations):
            self.passes.forward_backward(i)
            self.updater.run(0.001, i)
        return self

    def fused(self):
        return {self.net.params.parameters[i].node.name for i in self.net.params.fused_gradients}

    def arrays(self):
        """Parameters and history, by parameter."""
        params = self.net.params
        return [params.cut(flat, i) for flat in (params.data, *self.updater.history) for i in range(len(params.blobs))]


def pair(dev, text, iterations, net=NET):
    """The training with fused updates, and the one without."""
    return tuple(Training(dev, solver(text), net, stored).run(iterations) for stored in (False, True))


@pytest.mark.slow
@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("rule", RULES)
def test_arrays_equal_those_of_stored_gradients(dev, rule, passes):
    momentum = "" if rule in ("AdaGrad", "RMSProp") else "momentum: 0.5"
    fused, stored = pair(dev, f'type: "{rule}" iter_size: {passes} {momentum}', 3)
    assert fused.fused() == {"first", "last"}, "not what is fixed, shared, transposed, or of unfit width"
    assert not stored.fused()
    assert fused.net.params.size == stored.net.params.size
    assert stored.net.params.diff.size - fused.net.params.diff.size == 128 * 320 + 64 * 64
    for one, other in zip(fused.arrays(), stored.arrays(), strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.isfinite(one).all()


def test_l1_and_threads(dev, monkeypatch):
    for threads in (1, 5):
        monkeypatch.setattr(dev, "threads", threads)
        fused, stored = pair(dev, 'regularization_type: "L1"', 2)
        np.testing.assert_equal(fused.arrays(), stored.arrays())


def test_norms_and_clipping(dev):
    fused, stored = pair(dev, "clip_gradients: 0.05 iter_size: 2", 3)
    assert fused.fused()
    actual, expected = (training.updater.clipping.new_norms() for training in (fused, stored))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    assert len(expected) == 3 and min(expected) > 0.05, "clipped"
    for one, other in zip(fused.arrays(), stored.arrays(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    for training in (fused, stored):
        training.passes.forward_backward(3)
    norms = [
        [t.updater.clipping.gradient_norm(), *map(t.updater.clipping.norm_of_gradient, range(len(t.net.params.blobs)))]
        for t in (fused, stored)
    ]
    np.testing.assert_allclose(*norms, rtol=1e-4)


def test_gradients_that_are_read_are_computed(dev):
    fused, stored = (Training(dev, solver(""), stored=s) for s in (False, True))
    for training in (fused, stored):
        training.passes.forward_backward(0)
    for i in range(len(stored.net.params.blobs)):
        np.testing.assert_array_equal(fused.net.params.gradient(i), stored.net.params.gradient(i))
    traced = [[actual.record() for actual in trace(training.passes, 0)] for training in (fused, stored)]
    assert traced[0] == traced[1]


def test_the_number_of_rows_may_change(dev):
    fused, stored = (Training(dev, solver("iter_size: 2"), stored=s) for s in (False, True))
    for rows in (3, 5, 2):
        for training in (fused, stored):
            training.net.set_shapes({"data": (rows, 4, 80), "target": (rows, 64)})
            training.net.reshape()
            training.run(1)
        np.testing.assert_equal(fused.arrays(), stored.arrays())


@pytest.mark.parametrize(
    "text", ["debug_info: true", "snapshot_diff: true", "larc: true larc_eta: 0.01", "local_lr_auto: true"]
)
def test_gradients_that_others_read_are_stored(text):
    assert fused_passes(solver(text)) == 0
    assert fused_passes(solver("iter_size: 4")) == 4 and fused_passes(solver("iter_size: 4"), processes=2) == 0


def test_few_rows_alone(dev):
    many = NET.replace("dim: 3 ", f"dim: {algorithms.FEW_ROWS // 2 + 1} ")
    fused, stored = pair(dev, "iter_size: 2", 1, many)
    assert not fused.fused() and not stored.fused()


RUN = """
net: "net.prototxt" base_lr: 0.001 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.01 max_iter: 6 display: 1
snapshot: 3 snapshot_prefix: "{}" random_seed: 5 ema_decay: 0.9
"""


def test_a_run_equals_one_that_stores_gradients(dev, tmp_path, monkeypatch, train):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.prototxt").write_text(NET)
    fused = train(RUN.format("fused"), device=dev)
    stored = train(RUN.format("stored"), device=dev, keep=True)
    again = train(RUN.format("again"), device=dev, resume="fused_iter_3.solverstate")
    assert fused.solver.net.params.fused_gradients and not stored.solver.net.params.fused_gradients
    assert fused.losses() == stored.losses() and fused.losses()[3:] == again.losses()
    for one, *others in zip(fused.params(), stored.params(), again.params(), strict=True):
        for other in others:
            np.testing.assert_array_equal(one, other)
