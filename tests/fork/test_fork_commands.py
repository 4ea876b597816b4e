"""Commands with -fork: the record of a run, resuming, reproducing, comparing; and who may not run a fork's code."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from devices.host import installed
from forks import make

from caffelite.cli import caffelite
from caffelite.errors import CaffeliteError
from caffelite.fork import build, option
from caffelite.fork.worker import Server
from caffelite.layers import REGISTRY
from caffelite.runs import control, registry, reproduce
from caffelite.runs.limits import Bounds, refuse_command
from caffelite.weights import read_model

FORK = Path(__file__).parent / "small_fork"
NET = """
layer { name: "data" type: "DummyData" top: "x" top: "t" dummy_data_param {
  shape { dim: 4 dim: 3 } shape { dim: 4 dim: 3 } data_filler { type: "gaussian" std: 1 } data_filler { value: 0.3 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y" inner_product_param {
  num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "r" type: "ReLU" bottom: "y" top: "y" }
layer { name: "bend" type: "Bend" bottom: "y" top: "b" bend_param { slope: 2 } }
layer { name: "loss" type: "EuclideanLoss" bottom: "b" bottom: "t" top: "loss" }
"""
SOLVER = (
    'net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 4 snapshot: 2 snapshot_prefix: "s" random_seed: 3'
)


@pytest.fixture(autouse=True)
def no_fork():
    yield
    option.leave()
    option._refused = False


def call(*words, status=0):
    option.leave()
    result = CliRunner().invoke(caffelite, list(map(str, words)))
    error = result.exception if isinstance(result.exception, CaffeliteError) else None
    assert error is not None if status == 2 else result.exit_code == status, (result.output, result.exception)
    return str(error) if error else result.stdout


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "solver.prototxt").write_text(SOLVER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def own_fork(folder, tmp_path_factory):
    """A copy that a test may change, in one folder for all tests, so that they compile it once."""
    tree = tmp_path_factory.getbasetemp() / "small-caffe"
    shutil.rmtree(tree, ignore_errors=True)
    return Path(shutil.copytree(FORK, tree))


@pytest.mark.slow
def test_a_report_says_what_compiles_and_why_not(own_fork):
    types = {one["name"]: one for one in json.loads(call("fork", own_fork, "--json"))["types"]}
    assert types["Bend"]["compiled"] and types["Bend"]["error"] is None
    for name, why in (("Broken", "broken_layer.cpp:"), ("Together", "threads that work together cannot run on a CPU")):
        assert not types[name]["compiled"] and why in types[name]["error"]
    again = {one["name"]: one["error"] for one in json.loads(call("fork", own_fork, "--json"))["types"]}
    assert again == {name: one["error"] for name, one in types.items()}, "from the cache"


def change(fork):
    source = fork / "src/caffe/layers/bend_layer.cpp"
    source.write_text(f"{source.read_text()}\nint another;\n")


@pytest.mark.slow
def test_a_run_records_its_fork_and_is_reproduced_with_it(folder, own_fork, monkeypatch):
    warned = []
    monkeypatch.setattr(reproduce.log, "warning", lambda text, *values: warned.append(text % values))
    call("train", "--solver=solver.prototxt", f"--fork={own_fork}")
    run = json.loads((folder / "s_run/run.json").read_text())
    recorded = run["sessions"][0]["fork"]
    assert (recorded["path"], recorded["layers"]) == (str(own_fork), "missing")
    assert "bend_param" in (folder / "s_run/net.prototxt").read_text()
    assert "trained with layers of the fork" in call("reproduce", "s_run", status=2)
    assert "the same to the last bit" in call("reproduce", "s_run", f"--fork={own_fork}")
    assert not warned
    change(own_fork)
    call("reproduce", "s_run", f"--fork={own_fork}")
    assert "the fork's sources differ" in warned[0]


@pytest.mark.slow
def test_resuming_with_other_sources_is_no_exact_continuation(folder, own_fork):
    call("train", "--solver=solver.prototxt", f"--fork={own_fork}", "--record=none", "--until=2")
    resume = ["train", "--solver=solver.prototxt", f"--fork={own_fork}", "--snapshot=s_iter_2.solverstate", "--strict"]
    call(*resume, "--record=none")
    change(own_fork)
    assert "was trained with the fork of sources" in call(*resume, "--record=none", status=2)


@pytest.mark.slow
def test_a_run_is_resumed_with_the_fork_that_the_user_names(folder, own_fork, monkeypatch):
    call("train", "--solver=solver.prototxt", f"--fork={own_fork}", "--until=2")
    monkeypatch.setattr(control, "RESUMABLE", (*control.RESUMABLE, registry.FINISHED))
    with pytest.raises(CaffeliteError, match="trained with a fork's layers that its records name.*-fork"):
        control.continuation(folder / "s_run")
    config, _ = control.continuation(folder / "s_run", fork=str(own_fork))
    assert config.fork == str(own_fork)


@pytest.mark.slow
def test_a_changed_type_is_found_by_comparing(folder, own_fork):
    rows = {row["type"]: row for row in json.loads(call("fork", own_fork, "--compare", "--types", "--json"))}
    assert rows["AbsVal"]["verdict"] == "equal"
    source = own_fork / "src/caffe/layers/absval_layer.cpp"
    text = source.read_text()
    assert "factor * caffe_sign" in text
    source.write_text(text.replace("factor * caffe_sign", "2 * factor * caffe_sign"))
    command = [sys.executable, "-m", "caffelite", "fork", str(own_fork), "-compare", "-types"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "the first layer that differs: - (AbsVal)" in done.stdout


@pytest.fixture
def whole_fork(own_fork):
    """The small fork with a core, a Net and a Solver of its own."""
    core = Path(build.__file__).parent / "cpp/core"
    for tree in (core, FORK.parent / "small_net"):
        shutil.copytree(tree, own_fork, dirs_exist_ok=True)
    return own_fork


MIXED = """
layer { name: "data" type: "DummyData" top: "x" top: "t" dummy_data_param {
  shape { dim: 4 dim: 3 dim: 2 } shape { dim: 4 dim: 3 dim: 2 } data_filler { type: "gaussian" std: 1 }
  data_filler { value: 0.3 } } }
layer { name: "mix" type: "ChannelMix" bottom: "x" top: "y"
  channel_mix_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "abs" type: "AbsVal" bottom: "y" top: "y" }
layer { name: "loss" type: "HuberLoss" bottom: "y" bottom: "t" top: "loss" }
"""


@pytest.mark.slow
def test_a_net_is_compared_with_the_forks_own_net_and_solver(folder, whole_fork):
    (folder / "net.prototxt").write_text(MIXED)
    (folder / "solver.prototxt").write_text(f"{SOLVER} momentum: 0.9")
    words = ("fork", whole_fork, "--compare", "--model=net.prototxt", "--json")
    said = json.loads(call(*words, "--solver=solver.prototxt", "--iterations=3"))
    reasons = {row["layer"]: row["reason"] or row["verdict"] for row in said["layers"]}
    both = "only the fork has it"
    assert reasons == {"input x": "data", "input t": "data", "mix": both, "abs": "equal", "loss": both}
    assert all(one["most"] < 1e-6 for row in said["layers"] for one in row["in_net"])
    losses = said["training"]["losses"]
    assert losses[0][0] > losses[2][0] > 0 and all(one == pytest.approx(other) for one, other in losses)
    params = said["training"]["params"]
    assert [(one["layer"], one["number"]) for one in params] == [("mix", 0), ("mix", 1)]
    assert all(one["of_change"] < 1e-5 and one["alone"]["most"] < 1e-6 for one in params)
    source = whole_fork / "src/caffe/solver.cpp"
    text = source.read_text()
    assert "momentum * history_" in text
    source.write_text(text.replace("momentum * history_", "momentum * momentum * history_"))
    said = json.loads(call(*words, "--solver=solver.prototxt", "--iterations=3", status=1))
    assert all(one["alone"]["most"] > 0.01 for one in said["training"]["params"])
    assert {row["layer"]: row["verdict"] for row in said["layers"]}["abs"] == "equal"


@pytest.mark.slow
def test_sgd_is_compared_where_no_registry_is_caffes(folder, whole_fork):
    """Its class in a header of its own; another solver is an error, never SGD in its place."""
    header, source = whole_fork / "include/caffe/solver.hpp", whole_fork / "src/caffe/solver.cpp"
    text = header.read_text()
    start, end = text.index("template <typename Dtype>\nclass SGDSolver"), text.index("}  // namespace caffe")
    header.write_text(text[:start] + text[end:])
    own = f'#pragma once\n#include "caffe/solver.hpp"\nnamespace caffe {{\n{text[start:]}'
    (whole_fork / "include/caffe/sgd_solvers.hpp").write_text(own)
    source.write_text(source.read_text().replace("caffe/solver.hpp", "caffe/sgd_solvers.hpp"))
    (folder / "net.prototxt").write_text(MIXED)
    words = ("fork", whole_fork, "--compare", "--model=net.prototxt", "--solver=solver.prototxt", "--iterations=2")
    (folder / "solver.prototxt").write_text(f'{SOLVER} type: "SGD"')
    params = json.loads(call(*words, "--json"))["training"]["params"]
    assert params and all(one["of_change"] < 1e-5 for one in params)
    (folder / "solver.prototxt").write_text(f'{SOLVER} type: "Adam"')
    assert "the fork makes the solver Adam neither by GetSolver" in call(*words, status=2)


@pytest.mark.slow
def test_a_net_that_the_forks_own_cannot_run_is_an_error(folder, whole_fork):
    (folder / "net.prototxt").write_text(MIXED.replace("AbsVal", "TanH"))
    words = ("fork", whole_fork, "--compare", "--model=net.prototxt")
    assert 'layer "abs": small-caffe has no type "TanH", so its Net cannot run this net' in call(*words, status=2)
    (whole_fork / "src/caffe/net.cpp").unlink()
    (folder / "net.prototxt").write_text(MIXED)
    assert "has no source of caffe::Net" in call(*words, status=2)


@pytest.mark.host
def test_on_a_gpu_the_log_says_once_what_runs_through_the_host(folder, own_fork):
    words = ("train", "-solver=solver.prototxt", f"-fork={own_fork}", "-record=none")
    ends = []
    for gpu in ([], ["-gpu=0"]):
        command = [sys.executable, "-m", "caffelite", *words, *gpu]
        done = subprocess.run(command, env=installed.environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said = re.findall(r'layers of the fork run through the host: ("\w+"); [\d.]+ ms for one batch', done.stderr)
        assert said == ['"bend"'] * len(gpu)
        ends.append(read_model("s_iter_4.caffemodel")["ip"][0])
    np.testing.assert_allclose(*ends, rtol=1e-5)


def test_a_folder_that_is_gone_does_not_stop_the_next_net(tmp_path, monkeypatch):
    server = Server()
    server.layers[1] = SimpleNamespace(where=os.getcwd)
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (folder := tmp_path / name).mkdir()
        assert server.answer("where", 1, str(folder), ()) == str(folder)
        folder.rmdir()


# who may not


def test_a_server_takes_no_job_with_a_fork(tmp_path):
    with pytest.raises(CaffeliteError, match="runs no code of a fork.*found -fork"):
        refuse_command(Bounds((tmp_path,), False), ["train", "--solver=s.prototxt", "--fork=x"], tmp_path)


def test_a_refused_process_uses_no_fork(tmp_path, monkeypatch):
    folder = make(tmp_path / "own")
    monkeypatch.setenv(option.VARIABLE, str(folder))
    option.refuse()
    option.use()
    assert option.current() is None
    with pytest.raises(CaffeliteError, match="no code of a fork may run here"):
        option.use(folder)


def test_the_variable_names_a_fork(tmp_path, monkeypatch):
    monkeypatch.setenv(option.VARIABLE, str(make(tmp_path / "own")))
    option.use()
    assert option.current().name == "own"


def test_a_command_leaves_no_fork_behind(folder):
    from caffelite.cli import main

    (folder / "net.prototxt").write_text(NET.replace('"Bend"', '"Power"').replace("bend_param { slope: 2 }", ""))
    with pytest.raises(SystemExit):
        main(["check", "net.prototxt", "-fork", str(make(folder / "own"))])
    assert option.current() is None


FED = """
layer { name: "d" type: "OwnData" top: "data" top: "label"
  transform_param { crop_size: 8 ignore_label: 255 } own_param { batch_size: 5 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "y" inner_product_param { num_output: 3 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "loss" }
"""
OWN_DATA = """message LayerParameter { optional OwnParameter own_param = 901; }
message TransformationParameter { optional int32 ignore_label = 901; }
message OwnParameter { optional uint32 batch_size = 1; }"""


def test_data_that_a_fork_reads_leaves_the_rest_checkable(folder):
    """Without compiling anything; training names what to do."""
    fork = make(folder / "own", OWN_DATA, types=("OwnData",))
    (folder / "net.prototxt").write_text(FED)
    assert "no mistakes" in call("check", "net.prototxt", f"--fork={fork}")
    assert "OwnData reads data by code of the fork" in call("check", "net.prototxt", f"--fork={fork}")
    text = call("summary", "--model=net.prototxt", f"--fork={fork}", "--shape=data=1x4x4", "--shape=label=")
    assert "5×1×4×4" in text.replace(" x ", "×").replace("x", "×")
    said = call("train", "--solver=solver.prototxt", f"--fork={fork}", "--record=none", status=2)
    assert "data layer of Caffe's or a Python layer" in said and "-shape data=3x224x224 -shape label" in said


CPM_DATA = """message LayerParameter { optional CPMDataParameter cpmdata_param = 901; }
message CPMDataParameter { optional uint32 batch_size = 1; }"""


def test_a_fork_may_have_other_data_by_the_name_of_a_family(folder):
    """Fields that caffelite's type lacks are then no mistakes; nor is it another type afterwards."""
    fork = make(folder / "own", CPM_DATA, types=("CPMData",))
    net = FED.replace("OwnData", "CPMData").replace("own_param", "cpmdata_param").replace("ignore_label: 255", "")
    (folder / "net.prototxt").write_text(net)
    said = call("check", "net.prototxt", f"--fork={fork}")
    assert "CPMData reads data by code of the fork" in said and "no mistakes" in said
    option.leave()
    assert REGISTRY["CPMData"].__module__.startswith("caffelite.families.")
    known = net.replace("cpmdata_param {", 'data_param { source: "none"')
    (folder / "net.prototxt").write_text(known)
    assert "by code of the fork" not in call("check", "net.prototxt", f"--fork={fork}", status=1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["check", "net.prototxt", "--fork=absent"], "absent is no folder"),
        (["check", "net.prototxt", "--fork_layers=all"], "-fork-layers goes with -fork"),
        (["fork", "."], "has no sources of a fork of Caffe"),
    ],
)
def test_mistakes_of_the_option_are_errors(folder, words, text):
    assert text in call(*words, status=2)


def test_a_net_that_speaks_of_a_fork_runs_nothing(folder):
    text = 'layer { name: "f" type: "ReLU" top: "x" fork { type: "ReLU" message: "" } }'
    (folder / "net.prototxt").write_text(text)
    assert 'unknown field "fork"' in call("upgrade", "net.prototxt", "new.prototxt", status=2)
