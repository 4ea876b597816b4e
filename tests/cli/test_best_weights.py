"""Whoever uses a run's result gets its best weights, else its latest, by the deploy net that names one of its files."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from tiny_project import NET

import caffelite
from caffelite import pycaffe, weights
from caffelite.runs import snapshots

DEPLOY = """input: "data" input_shape { dim: 1 dim: 3 }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } }
deploy_param { weights: "WEIGHTS" }
"""
TESTED = """net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 6 snapshot: 2 snapshot_prefix: "runs/a"
test_iter: 1 test_interval: 2 best_score: "loss" random_seed: 1 display: 0
"""


def deploy(named, folder=".") -> Path:
    path = Path(folder) / "deploy.prototxt"
    path.write_text(DEPLOY.replace("WEIGHTS", named))
    return path


@pytest.fixture
def run(call, in_tmp_path):
    """The folder of a run with snapshots of iterations 2, 4 and 6 and with best weights."""
    Path("net.prototxt").write_text(NET)
    Path("solver.prototxt").write_text(TESTED)
    Path("runs").mkdir()
    assert call("train -solver solver.prototxt").ok
    return Path("runs")


def bias(path) -> np.ndarray:
    return weights.read_model(path)["ip"][1]


@pytest.mark.parametrize("named", ["a_iter_9.caffemodel", "a_best.caffemodel"])
def test_a_missing_file_of_a_run_is_its_best_then_its_latest(run, named):
    net = deploy(named, run)
    shutil.copy(run / "a_iter_2.caffemodel", run / "a_best.caffemodel")
    for expected in ("a_best", "a_iter_6", "a_iter_4"):
        file = run / f"{expected}.caffemodel"
        for one in (caffelite.Net(net), pycaffe.Net(str(net), pycaffe.TEST)):
            np.testing.assert_array_equal(one.params["ip"][1].data, bias(file))
        file.unlink()


def test_no_file_of_the_run_is_an_error(run, call):
    net = deploy("b_iter_6.caffemodel", run)
    refused = call("export", "-model", net, "-out", "a.onnx").refused
    assert "names the weights b_iter_6.caffemodel, which do not exist; train the net first" in refused.err
    other = call("export", "-model", deploy("a.caffemodel", run), "-out", "a.onnx").refused
    assert "name others with -weights" in other.err


def test_a_missing_snapshot_is_told_what_exists(run, call):
    refused = call("test -model net.prototxt -weights runs/a_iter_9.caffemodel").refused
    assert "cannot read runs/a_iter_9.caffemodel: no such file" in refused.err
    assert "runs/a_best.caffemodel exists, of the same run" in refused.err


def test_the_best_model_of_a_run_is_its_own(run, call):
    assert snapshots.best_model(run / "a_run") == Path.cwd() / "runs/a_best.caffemodel"
    assert call("train -solver solver.prototxt -set random_seed=2").ok
    assert snapshots.best_model(run / "a_run_1") == Path.cwd() / "runs/a_run_1/a_best.caffemodel", "moved aside"
    (run / "a_best.caffemodel").unlink()
    assert snapshots.best_model(run / "a_run") == Path.cwd() / "runs/a_iter_6.caffemodel"


@pytest.mark.parametrize("stopped", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_project_uses_its_best_weights(call, tmp_path, in_tmp_path, stopped):
    """Also where the run was stopped before its last iteration."""
    import cv2

    rng = np.random.default_rng(1)
    for name, value in (("dark", 60), ("light", 190)):
        (Path("pictures") / name).mkdir(parents=True)
        for i in range(10):
            cv2.imwrite(f"pictures/{name}/{i}.png", rng.normal(value, 20, (28, 28, 3)).clip(0, 255).astype(np.uint8))
    made = call("new tones pictures").ok.out
    assert re.search(r"^Time: at most about [\dhms.]+ for 500 iterations of ", made, re.MULTILINE), made
    end = ["-iterations", 3] if stopped else ["-set", "max_epoch=2", "-set", "step_epoch=1", "-set", "warmup_iter=0"]
    assert call("train", "-solver", "tones/solver.prototxt", "-set", "test_epoch=1", *end).ok
    assert Path("tones/tones_best.caffemodel").is_file()
    best = json.loads(call("classify pictures/dark/0.png -model tones/deploy.prototxt -json").ok.out)
    named = call("classify pictures/dark/0.png -model tones/deploy.prototxt -weights tones/tones_best.caffemodel -json")
    assert best[0]["answers"] == json.loads(named.ok.out)[0]["answers"]
    readme = Path("tones/README.md").read_text()
    assert "-weights tones/tones_best.caffemodel" in readme and "_iter_" not in readme
    shutil.move("tones/tones_best.caffemodel", "elsewhere")
    assert "tones_iter_" in call("classify pictures/dark/0.png -model tones/deploy.prototxt").ok.err


@pytest.mark.slow
def test_no_test_before_a_net_has_statistics(call, in_tmp_path):
    import cv2

    rng = np.random.default_rng(1)
    for name in ("a", "b"):
        (Path("pictures") / name).mkdir(parents=True)
        for i in range(10):
            cv2.imwrite(f"pictures/{name}/{i}.png", rng.integers(0, 255, (32, 32, 3), np.uint8))
    for net, expected in (("cifar10_resnet", True), ("lenet", False)):
        assert call("new", net, "pictures", "-net", net, "-gray" if net == "lenet" else "-color").ok
        solver = Path(net, "solver.prototxt").read_text()
        assert ("test_initialization: false" in solver) == expected
