"""A fork of 2014: types in a switch, tops by pointer, propagate_down a bool, losses that forward returns."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import caffelite.pycaffe as caffe
from caffelite import TRAIN, Net, weights
from caffelite.cli import caffelite
from caffelite.fork import option

pytestmark = pytest.mark.slow  # a C++ compiler works for ten seconds
FORK = Path(__file__).parent / "small_fork_2014"
X = np.random.default_rng(5).normal(size=(2, 3, 2, 2)).astype(np.float32)
LAYERS = """
layers { name: "scale" type: CHANNEL_SCALE bottom: "x" top: "y" channel_scale_param { start: 0.7 } }
layers { name: "loss" type: SCALED_LOSS bottom: "y" bottom: "t" scaled_loss_param { scale: 0.5 } }
"""
TRAINED = """
layers { name: "data" type: DUMMY_DATA top: "x" top: "t" dummy_data_param { num: 4 num: 4 channels: 3 channels: 2
  height: 1 height: 1 width: 1 width: 1 data_filler { type: "gaussian" std: 1 } data_filler { value: 0.3 } } }
layers { name: "scale" type: CHANNEL_SCALE bottom: "x" top: "y" channel_scale_param { start: 0.7 } }
layers { name: "ip" type: INNER_PRODUCT bottom: "y" top: "z" blobs_lr: 1 blobs_lr: 2
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layers { name: "loss" type: SCALED_LOSS bottom: "z" bottom: "t" }
"""
SOLVER = (
    'net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" momentum: 0.9 max_iter: 8 random_seed: 7 solver_mode: CPU '
    'snapshot: 4 snapshot_prefix: "s" test_iter: 2 test_interval: 8'
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    option.leave()


def call(*words):
    option.leave()
    result = CliRunner().invoke(caffelite, [*map(str, words), f"--fork={FORK}"])
    assert result.exit_code == 0 and not result.exception, (result.output, result.exception)
    return result.output


def model(folder):
    path = folder / "s_iter_8.caffemodel"
    return weights.decode_model(path.read_bytes(), path)


def test_numbers_are_those_of_the_forks_code(folder):
    inputs = "".join(f'input: "{name}" ' + "".join(f"input_dim: {n} " for n in X.shape) for name in "xt")
    (folder / "net.prototxt").write_text(f"force_backward: true {inputs} {LAYERS}")
    net = Net(folder / "net.prototxt", TRAIN, fork=FORK)
    net.blobs["x"].data[...] = X
    net.blobs["t"].data[...] = 0.1
    net.forward()
    net.backward()
    d = 0.7 * X.astype(float) - 0.1
    np.testing.assert_allclose(net.blobs["x"].diff, 0.7 * d / 2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(net.params["scale"][0].diff.ravel(), (d * X).sum((0, 2, 3)) / 2, rtol=1e-5)


def test_a_net_of_v1_layers_lives_from_training_to_deploy(folder):
    (folder / "net.prototxt").write_text(TRAINED)
    (folder / "solver.prototxt").write_text(SOLVER)
    call("train", "--solver=solver.prototxt", "--record=none")
    whole = model(folder)
    call("train", "--solver=solver.prototxt", "--record=none", "--snapshot=s_iter_4.solverstate", "--strict")
    resumed = model(folder)
    assert whole["scale"][0].shape == (1, 1, 1, 3) and whole["scale"][0].std() > 0
    for a, b in zip(whole["scale"] + whole["ip"], resumed["scale"] + resumed["ip"], strict=True):
        np.testing.assert_array_equal(a, b)
    assert "Loss: 0." in call("test", "--model=net.prototxt", "--weights=s_iter_8.caffemodel", "--iterations=1")
    call("deploy", "--model=net.prototxt", "--weights=s_iter_8.caffemodel", "--out=d.prototxt", "--samples=0")
    deployed = caffe.Net("d.prototxt", "s_iter_8.caffemodel", caffe.TEST, fork=str(FORK))
    top = deployed.forward(x=X[:1, :, :1, :1])
    assert top["z"].shape == (1, 2) and np.abs(top["z"]).max() > 0
