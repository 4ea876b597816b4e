"""Which commands import the module that a Python layer names, and from where."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from turns import one_first

from caffelite import user_modules
from caffelite.data.writers import write_hdf5
from caffelite.inspection import memory
from caffelite.parallel.transports import star

MODULE = """
    import pathlib
    pathlib.Path("was_imported").touch()

    class Same:
        def setup(self, bottom, top):
            pass
        def reshape(self, bottom, top):
            top[0].reshape(*bottom[0].shape)
        def forward(self, bottom, top):
            top[0].data[...] = bottom[0].data
        def backward(self, top, propagate_down, bottom):
            bottom[0].diff[...] = top[0].diff
"""
NET = """
layer { name: "rows" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "rows.txt" batch_size: 4 } }
layer { name: "first" type: "InnerProduct" bottom: "x" top: "first"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "same" type: "Python" bottom: "first" top: "same" python_param { module: "MODULE" layer: "Same" } }
layer { name: "loss" type: "EuclideanLoss" bottom: "same" bottom: "y" top: "loss" }
"""
DEPLOY = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 5 } } }
layer { name: "same" type: "Python" bottom: "x" top: "same" python_param { module: "MODULE" layer: "Same" } }
layer { name: "first" type: "InnerProduct" bottom: "same" top: "first" inner_product_param { num_output: 2 } }
"""
SOLVER = 'net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 2 display: 1 snapshot_prefix: "run"\n'
LOOKING = {
    "check": ["check", "solver.prototxt"],
    "check a net": ["check", "net.prototxt"],
    "summary": ["summary", "-model", "net.prototxt"],
    "summary of a solver": ["summary", "-solver", "solver.prototxt"],
    "draw": ["draw", "-model", "net.prototxt"],
    "explain": ["explain", "first", "-model", "net.prototxt"],
    "diff": ["diff", "net.prototxt", "net.prototxt"],
    "schedule": ["schedule", "-solver", "solver.prototxt"],
    "deploy": ["deploy", "-model", "net.prototxt", "-out", "made.prototxt"],
    "export": ["export", "-model", "deploy.prototxt", "-weights", "run_iter_2.caffemodel", "-out", "made.onnx"],
    "plan": ["plan", "-model", "net.prototxt", "-gpus", "2", "-iterations", "1"],
    "find_batch": ["find_batch", "-solver", "solver.prototxt", "-memory", "4G"],
    "upgrade": ["upgrade", "net.prototxt", "new.prototxt"],
    "dataset show": ["dataset", "show", "net.prototxt", "-out", "sheet.png"],
}
RUNNING = {
    "train": ["train", "-solver", "solver.prototxt"],
    "test": ["test", "-model", "net.prototxt", "-weights", "run_iter_2.caffemodel", "-iterations", "2"],
    "time": ["time", "-model", "net.prototxt", "-iterations", "1"],
    "extract_features": ["extract_features", "run_iter_2.caffemodel", "net.prototxt", "same", "rows.npz", "1", "npz"],
    "find_lr": ["find_lr", "-solver", "solver.prototxt", "-iterations", "2"],
    "find_batch": ["find_batch", "-solver", "solver.prototxt"],
    "reproduce": ["reproduce", "run_run"],
}


@pytest.fixture
def nets(tmp_path, in_tmp_path, monkeypatch, request):
    """The working directory with nets, a solver, data, and the module. Gives the module's
    name."""
    monkeypatch.delenv("CAFFELITE_PYTHON", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = "user_" + "".join(c if c.isalnum() else "_" for c in request.node.name)
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(MODULE))
    for file, text in (("net.prototxt", NET), ("deploy.prototxt", DEPLOY), ("solver.prototxt", SOLVER)):
        (tmp_path / file).write_text(text.replace("MODULE", name))
    rng = np.random.default_rng(1)
    write_hdf5(tmp_path / "rows.h5", {"x": rng.standard_normal((12, 5)), "y": rng.standard_normal((12, 2))})
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize("arguments", LOOKING.values(), ids=LOOKING)
def test_commands_that_look_import_no_module(nets, call, monkeypatch, arguments):
    monkeypatch.setattr(sys, "path", [str(Path.cwd()), "", *sys.path])
    monkeypatch.setenv("CAFFELITE_PYTHON", str(Path.cwd()))
    result = call(*arguments)
    assert nets not in sys.modules and not Path("was_imported").exists()
    if arguments[0] in ("deploy", "export", "plan", "find_batch"):
        assert result.status == 2 and f'layer "same" (Python): its module "{nets}" is not imported' in result.err


def test_check_reports_the_layer_and_finds_the_rest(nets, call):
    result = call("check", "net.prototxt").ok
    assert f'note: layer "same" (Python): its module "{nets}" is not imported' in result.out
    assert "-python DIR" in result.out
    Path("net.prototxt").write_text(NET.replace("MODULE", nets).replace("num_output: 2", "num_output: 0"))
    assert call("check", "net.prototxt").status == 1


def test_summary_and_draw_tell_of_the_layer(nets, call):
    for command in ("summary", "draw"):
        result = call(command, "-model", "net.prototxt")
        assert result.status == 1 and "first" in result.out and "is not imported" in result.err


@pytest.mark.parametrize(
    "name", ["check", "summary", "draw", "explain", "diff", "schedule", "deploy", "plan", "find_batch"]
)
def test_commands_that_look_take_a_folder(nets, call, name):
    result = call(*LOOKING[name], "-python", ".")
    assert result.status == 0 and Path("was_imported").exists(), result.err


@pytest.fixture
def trained(nets, call):
    """After a training, whose snapshot and records are there; the module is forgotten again."""
    assert call("train", "-solver", "solver.prototxt", "-python", ".").status == 0
    sys.modules.pop(nets)
    Path("was_imported").unlink()
    sys.path[:] = [folder for folder in sys.path if folder != str(Path.cwd())]
    return nets


@pytest.mark.parametrize("arguments", RUNNING.values(), ids=RUNNING)
def test_commands_that_run_import_from_given_folders_only(trained, call, arguments, monkeypatch):
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(memory, "available", lambda gpu: 100 << 20)  # for find_batch
    result = call(*arguments)
    assert result.status == 2 and f'there is no module "{trained}"' in result.err and "-python" in result.err
    assert not Path("was_imported").exists()
    assert call(*arguments, "-python", ".").status == 0 and Path("was_imported").exists()


@pytest.mark.parametrize("variable", ["CAFFELITE_PYTHON", "PYTHONPATH"])
def test_a_folder_from_the_environment(nets, call, monkeypatch, tmp_path, variable):
    (tmp_path / "mine").mkdir()
    Path(f"{nets}.py").rename(tmp_path / "mine" / f"{nets}.py")
    if variable == "PYTHONPATH":
        monkeypatch.syspath_prepend(str(tmp_path / "mine"))
    else:
        monkeypatch.setenv(variable, os.pathsep.join([str(tmp_path / "absent"), "mine", ""]))
    assert call("time", "-model", "net.prototxt", "-iterations", "1").status == 0


def test_an_absent_folder_is_a_mistake(nets, call):
    assert "absent" in call("time", "-model", "net.prototxt", "-python", "absent").refused.err


def test_a_command_leaves_no_permission_behind(nets, call):
    with user_modules.forbidden():
        assert call("time", "-model", "net.prototxt", "-iterations", "1", "-python", ".").status == 0
        assert not user_modules.permitted()


PLANTED = "import pathlib\npathlib.Path(__file__).with_name('was_imported').touch()\nraise ImportError('planted')\n"


@pytest.mark.parametrize(
    "pythonpath", one_first([None, os.pathsep, "."]), ids=["no PYTHONPATH", "an empty entry", "the folder"]
)
def test_as_a_module_the_current_folder_is_not_searched(nets, pythonpath, tmp_path):
    """`python -m` and an empty entry of PYTHONPATH put it first; only where PYTHONPATH names it is it meant."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | (
        {"PYTHONPATH": pythonpath} if pythonpath else {}
    )
    command = [sys.executable, "-m", "caffelite", "time", "-model", "net.prototxt", "-iterations", "1"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    if pythonpath == ".":
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 2 and f'there is no module "{nets}"' in done.stderr
        assert not Path("was_imported").exists()


def test_a_module_run_imports_nothing_from_the_folder(tmp_path):
    (tmp_path / "click.py").write_text(PLANTED)
    (tmp_path / "numpy.py").write_text(PLANTED)
    done = subprocess.run(
        [sys.executable, "-m", "caffelite", "--version"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0 and not (tmp_path / "was_imported").exists(), done.stderr


@pytest.mark.slow
def test_processes_import_nothing_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text(PLANTED)
    monkeypatch.chdir(tmp_path)
    assert star.launch(["--version"], 2) == 0
    assert star.launch(["check", str(Path(__file__))], 2) == 1  # no prototxt, but it is read
    assert not (tmp_path / "was_imported").exists()
