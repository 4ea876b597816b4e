"""Solvers of caffelite.pycaffe."""

import gc
import os

import numpy as np
import pytest

import caffelite.pycaffe as caffe
from caffelite.errors import CaffeliteError

NET = """
layer { name: "x" type: "DummyData" top: "x" top: "t" dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 }
  data_filler { type: "gaussian" } data_filler { type: "constant" value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2
  weight_filler { type: "gaussian" std: 1 } } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "t" top: "loss" }
"""
SOLVER = """net: "net.prototxt" base_lr: 0.1 lr_policy: "step" gamma: 0.1 stepsize: 3 max_iter: 4 momentum: 0.9
  test_iter: 1 test_interval: 100 snapshot_prefix: "run" snapshot_after_train: false"""


@pytest.fixture
def path(write):
    write(NET)
    caffe.set_random_seed(1)
    return write(SOLVER, "solver.prototxt")


def test_steps_update_and_blobs_keep_their_values(path):
    solver = caffe.SGDSolver(path)
    before = solver.net.params["ip"][0].data.copy()
    assert solver.iter == 0 and solver.lr == pytest.approx(0.1) and len(solver.test_nets) == 1
    solver.step(1)
    assert solver.iter == 1
    out, t = solver.net.blobs["ip"].data, solver.net.blobs["t"].data
    assert solver.net.blobs["loss"].data == pytest.approx(((out - t) ** 2).sum() / 8, rel=1e-5)
    gradient = (np.where(out > 0, out - t, 0) / 4).T @ solver.net.blobs["x"].data
    np.testing.assert_allclose(solver.net.params["ip"][0].diff, gradient, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(solver.net.params["ip"][0].data, before - 0.1 * gradient, rtol=1e-4, atol=1e-6)
    assert solver.test_nets[0].params["ip"][0].data is solver.net.params["ip"][0].data


def test_solve_reaches_max_iter_at_the_policys_rate(path):
    solver = caffe.get_solver(path)
    assert type(solver) is caffe.SGDSolver
    solver.solve()
    assert solver.iter == solver.param.max_iter == 4 and solver.lr == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("kind", "expected"), [("Adam", caffe.AdamSolver), ("Nesterov", caffe.NesterovSolver), ("AdamW", caffe.Solver)]
)
def test_type_of_the_file_chooses_the_class(path, write, kind, expected):
    momentum2 = ' momentum2: 0.9 lr_policy: "fixed"' if kind.startswith("Adam") else ' lr_policy: "fixed"'
    text = SOLVER.replace('lr_policy: "step"', f'type: "{kind}"{momentum2}')
    solver = caffe.get_solver(write(text, "solver.prototxt"))
    assert type(solver) is expected
    solver.step(1)
    assert caffe.SGDSolver("solver.prototxt").param.type == "SGD"


def test_apply_update_uses_the_gradients_as_they_are(path):
    solver = caffe.SGDSolver(path)
    blob = solver.net.layers[1].blobs[0]
    blob.data[...], blob.diff[...] = 0, 1
    solver.apply_update()
    np.testing.assert_allclose(blob.data, -0.1, rtol=1e-6)
    assert solver.iter == 0


def test_rate_can_be_set(path):
    solver = caffe.SGDSolver(path)
    solver.param.base_lr = 0.5
    assert solver.lr == 0.5 == solver.param.base_lr and solver.param.display == 0


def test_snapshot_and_restore(path, write):
    write(SOLVER + " random_seed: 5", "solver.prototxt")
    solver = caffe.SGDSolver(path)
    solver.step(2)
    solver.snapshot()
    weights = solver.net.params["ip"][0].data.copy()
    solver.step(2)
    assert os.path.isfile("run_iter_2.caffemodel")
    other = caffe.SGDSolver(path)
    for each in (solver, other):
        each.restore("run_iter_2.solverstate")
        assert each.iter == 2
        np.testing.assert_array_equal(each.net.params["ip"][0].data, weights)
    other.solve()
    third = caffe.SGDSolver(path)
    third.solve("run_iter_2.solverstate")
    np.testing.assert_array_equal(third.net.params["ip"][0].data, other.net.params["ip"][0].data)


def test_callbacks_surround_the_gradient(path):
    solver, seen = caffe.SGDSolver(path), []
    frozen = solver.net.params["ip"][0].data.copy()

    def drop_gradients() -> None:
        seen.append("gradients")
        solver.net.clear_param_diffs()

    solver.add_callback(lambda: seen.append("start"), drop_gradients)
    solver.step(2)
    assert seen == ["start", "gradients"] * 2
    np.testing.assert_array_equal(solver.net.params["ip"][0].data, frozen)


@pytest.mark.parametrize("source", ["Input", "DummyData"])
def test_steps_start_from_what_a_program_wrote(write, source, rng):
    field = {"Input": "input_param", "DummyData": "dummy_data_param"}[source]
    head = f'layer {{ name: "x" type: "{source}" top: "x" top: "t" {field} {{ shape {{ dim: 4 dim: 3 }} '
    head += 'shape { dim: 4 dim: 2 } } } layer { name: "r" type: "ReLU" bottom: "x" top: "x" }'
    write(head + NET[NET.index('layer { name: "ip"') :])
    solver = caffe.SGDSolver(write('train_net: "net.prototxt" base_lr: 0 lr_policy: "fixed" snapshot_prefix: "s"', "s"))
    net, fed = solver.net, {"x": rng.normal(size=(4, 3)), "t": rng.normal(size=(4, 2))}
    for name, batch in fed.items():
        net.blobs[name].data[...] = batch
    solver.step(1)
    weights, bias = (blob.data for blob in net.params["ip"])
    out = np.maximum(np.maximum(fed["x"], 0) @ weights.T + bias, 0)
    np.testing.assert_allclose(net.blobs["ip"].data, out, rtol=1e-5)
    assert net.blobs["loss"].data == pytest.approx(((out - fed["t"]) ** 2).sum() / 8, rel=1e-5)


def test_nets_outlive_their_solver(path):
    solver = caffe.SGDSolver(path)
    nets = [solver.net, *solver.test_nets]
    del solver
    gc.collect()
    for net in nets:
        assert np.isfinite(net.forward()["loss"]).all()
        assert all(np.isfinite(p.data.sum() + p.diff.sum()) for ps in net.params.values() for p in ps)


def test_test_net_runs_from_a_layer_on(path):
    solver = caffe.SGDSolver(path)
    net = solver.test_nets[0]
    first = net.forward()["loss"].copy()
    x = net.blobs["x"].data.copy()
    assert net.forward(start="ip")["loss"] == pytest.approx(first)
    np.testing.assert_array_equal(net.blobs["x"].data, x)
    net.share_with(solver.net)
    solver.share_weights(net)
    with pytest.raises(CaffeliteError, match="keeps its own parameters"):
        solver.net.share_with(caffe.Net("net.prototxt", caffe.TRAIN))


def test_solvers_weights_are_loaded(path, write):
    first = caffe.SGDSolver(path)
    first.net.save("w.caffemodel")
    second = caffe.SGDSolver(write(SOLVER + ' weights: "w.caffemodel"', "second.prototxt"))
    np.testing.assert_array_equal(second.net.params["ip"][0].data, first.net.params["ip"][0].data)


def test_nccl_is_refused():
    assert not caffe.has_nccl()
    with pytest.raises(CaffeliteError, match="caffelite train -gpu all"):
        caffe.NCCL(None, b"")
