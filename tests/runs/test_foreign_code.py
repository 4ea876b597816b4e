"""A run folder that somebody else wrote is data: no code that lies there, or that its records name, is executed."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from contextlib import closing

import pytest
from tiny_project import NET, SOLVER

from caffelite.errors import CaffeliteError
from caffelite.runs import control, launch, registry
from caffelite.runs.config import RunConfig
from caffelite.runs.queue import edit
from caffelite.runs.queue.local import Local, Slots
from caffelite.runs.queue.scheduler import Scheduler

# Names that Python, or a library of caffelite, imports or reads by itself.
MODULES = ("caffelite", "sitecustomize", "usercustomize", "numpy", "numba", "google", "click", "encodings", "json")
LAYER = """
from caffelite.extending import Layer, layer

@layer("Foreign")
class Foreign(Layer):
    def shapes(self, bottoms):
        return bottoms
"""


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """A folder with a stopped run, in which everything that could be executed writes the file ``executed``."""
    folder = tmp_path / "downloaded"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "net.prototxt").write_text(NET)
    (folder / "solver.prototxt").write_text(SOLVER)
    launch.train(RunConfig("solver.prototxt", until=2))
    run = folder / "tiny_run"
    record = json.loads((run / "run.json").read_text())
    record["sessions"][-1]["outcome"] = {"kind": "stopped early", "reason": "", "ended": "x", "iteration": 2}
    record["config"]["until"] = None
    (run / "run.json").write_text(json.dumps(record))
    code = f"open({str(tmp_path / 'executed')!r}, 'w').close()\n"
    for place in (folder, run):
        for name in MODULES:
            (place / name).mkdir(exist_ok=True)
            for file in ("__init__", "__main__", "cli"):
                (place / name / f"{file}.py").write_text(code)
        (place / "layers.py").write_text(code + LAYER)
        (place / ".numba_config.yaml").write_text(f"cache_dir: {place}/compiled\n")
        (place / "matplotlibrc").write_text("backend: module://layers\n")
    monkeypatch.chdir(tmp_path)
    return run


def named(run, *paths):
    """Makes the records of a run name code."""
    record = json.loads((run / "run.json").read_text())
    record["config"]["python_folders"] = list(paths)
    (run / "run.json").write_text(json.dumps(record))


def executed(run):
    return (run.parent.parent / "executed").exists()


def caffelite(*words, **variables):
    words = [sys.executable, "-m", "caffelite", *map(str, words)]
    return subprocess.run(words, env=os.environ | variables, capture_output=True, text=True, check=False)


def end_of(run):
    until = time.monotonic() + 60
    while time.monotonic() < until and registry.state(run) in (registry.RUNNING, registry.QUEUED):
        time.sleep(0.05)
    return registry.state(run)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        pytest.param({"PYTHONPATH": os.pathsep}, marks=pytest.mark.slow),  # the current folder, by an empty entry
        pytest.param({"PYTHONPATH": ".", "CAFFELITE_PYTHON": "."}, marks=pytest.mark.slow),  # that of the caller
    ],
)
def test_a_run_is_resumed_without_code_of_its_folder(foreign, variables):
    actual = caffelite("control", "resume", foreign, **variables)
    assert actual.returncode == 0, actual.stderr
    assert end_of(foreign) == registry.FINISHED, (foreign / "resume.txt").read_text()
    assert not executed(foreign)


def test_code_that_records_name_needs_the_option(foreign):
    """The error has the command, which works."""
    named(foreign, "layers.py")
    actual = caffelite("control", "resume", foreign)
    assert actual.returncode == 2 and not executed(foreign)
    command = re.search(r"caffelite (control resume .*)$", actual.stderr.strip())[1]
    assert command.endswith(f"-python {foreign.parent}/layers.py")
    actual = caffelite(*shlex.split(command))
    assert actual.returncode == 0 and end_of(foreign) == registry.FINISHED
    assert executed(foreign)  # the user named it
    assert json.loads((foreign / "run.json").read_text())["sessions"][-1]["command"][-1] != "--python=layers.py"


def test_a_run_is_continued_where_it_lies(foreign):
    """Its records may name any folder as that of the records, which a new run would rename."""
    precious = foreign.parent.parent / "precious"
    precious.mkdir()
    record = json.loads((foreign / "run.json").read_text())
    record["config"]["record"] = str(precious)
    (foreign / "run.json").write_text(json.dumps(record))
    config, _ = control.continuation(foreign)
    assert config.record in (None, str(foreign))


@pytest.mark.slow
def test_the_queue_resumes_without_code_of_the_folder(foreign):
    root = foreign.parent
    named(foreign, "layers.py")
    with pytest.raises(CaffeliteError, match=r"control resume .* -python"):
        edit.act(foreign, "resume", root)
    named(foreign)
    edit.act(foreign, "resume", root)
    with closing(Scheduler(root, Local(Slots()))) as scheduler:
        until = time.monotonic() + 60
        while time.monotonic() < until and not scheduler.idle():
            scheduler.step()
            time.sleep(0.05)
    assert end_of(foreign) == registry.FINISHED
    assert not executed(foreign)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["reproduce", "replay"])
def test_a_run_is_repeated_without_code_of_its_folder(foreign, command):
    named(foreign, "layers.py", str(foreign))
    caffelite(command, foreign, CAFFELITE_PYTHON=".")
    assert not executed(foreign)


def test_numba_reads_no_settings_of_the_working_directory(foreign, monkeypatch):
    """They may name a folder of compiled functions, which are pickles."""
    from numba.core import config

    from caffelite.devices import cpu  # noqa: F401

    monkeypatch.chdir(foreign)
    before = config.CACHE_DIR
    config.reload_config()
    assert config.CACHE_DIR == before
