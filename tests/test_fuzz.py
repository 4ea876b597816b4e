"""Samples of fuzz.py, fuzz_commands.py, fuzz_files.py and fuzz_file_commands.py: damaged nets, solvers and files of
every kind are read, or reported."""

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("plyvel")
import fuzz_file_commands
from fuzz import NETS, Fuzz, texts, train
from fuzz_commands import COMMANDS, CommandFuzz
from fuzz_files import FileFuzz
from fuzz_kinds import KINDS
from fuzz_workers import attempt

from caffelite.errors import CaffeliteError

IN_HDF5 = [kind for kind in KINDS if "hdf5" in kind]  # each takes a process to read it
READ_BY_COMMANDS = ("tar", "npy", "idx", "caffemodel", "binary net", "list")


@pytest.fixture
def folder(tmp_path, in_tmp_path):
    return tmp_path


def campaign(script, kinds, runs, option="--kind"):
    """The outcomes of a campaign in a process of its own, with one thread, as it forks: forks of a process that has run
    many tests are slow."""
    words = [word for kind in kinds for word in (option, kind)]
    command = [sys.executable, Path(__file__).with_name(script), "--runs", str(runs * len(kinds)), *words]
    one = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=one)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = ast.literal_eval(done.stdout.splitlines()[-1])
    assert sum(outcomes.values()) == runs * len(kinds)
    return outcomes


def test_damaged_nets_and_solvers_train_or_are_reported():
    """The campaign trains each undamaged pair first."""
    outcomes = campaign("fuzz.py", NETS, 20, option="--net")
    assert outcomes["runs"] > 8 and outcomes["reports"] > 30, outcomes


CASES = {
    "a window beyond the image": ("lenet", "l_size: 2 stride: 2", "l_size: 2 stride: 255", "outside the image"),
    "a path too long": ("logistic", "logreg_train.txt", "a/" * 2500, "does not exist"),
    "a name that cannot be shown": ("lenet", 'type: "ReLU"', 'type: "Re\\0LU\\n"', r'unknown type "Re\x00LU\n"'),
    "a scale that is no number": ("lenet", "scale: 0.00390625", "scale: inf", "scale is no finite number"),
    "a filler with a negative deviation": ("autoencoder", "std: 1", "std: -1", "std of 0 or more"),
}


@pytest.mark.parametrize("which, old, new, said", CASES.values(), ids=CASES)
def test_what_mutations_found(folder, which, old, new, said):
    net, solver = texts(which)
    assert old in net
    fuzz = Fuzz(folder, [which])
    fuzz.write(folder / "work", net.replace(old, new), solver)
    with pytest.raises(CaffeliteError) as caught:
        train(fuzz.device)
    assert str(caught.value).startswith("net.prototxt:") and said in str(caught.value)


def test_a_net_that_learns_nothing_runs_and_says_so(folder, caplog):
    net, solver = texts("logistic")
    fuzz = Fuzz(folder, ["logistic"])
    frozen = re.sub(r"lr_mult: \d", "lr_mult: 0", net)
    fuzz.write(folder / "work", frozen, re.sub("display: .*", "display: 1 debug_info: true", solver))
    train(fuzz.device)
    assert "nothing is learned" in caplog.text


@pytest.mark.slow
def test_damaged_files_are_read_or_reported():
    outcomes = campaign("fuzz_files.py", [kind for kind in KINDS if kind not in IN_HDF5], 6)
    assert outcomes["reports"] > 30 and outcomes["runs"] > 10


@pytest.mark.slow
def test_damaged_hdf5_files_are_read_or_reported():
    campaign("fuzz_files.py", IN_HDF5, 6)


def test_undamaged_files_are_read(folder):
    for kind in FileFuzz(folder).subjects:
        os.chdir(kind.replace(" ", "_"))
        KINDS[kind].use()
        os.chdir("..")


@pytest.mark.slow
def test_commands_read_or_report_damaged_files():
    campaign("fuzz_file_commands.py", READ_BY_COMMANDS, 4)


def test_every_kind_that_a_command_reads_is_damaged():
    by_functions = {"datum", "hierarchy", "onnx", "onnx of attention", "compared onnx"}
    assert set(KINDS) - set(fuzz_file_commands.COMMANDS) == by_functions


def test_damaged_prototxts_are_read_or_reported():
    outcomes = campaign("fuzz_commands.py", COMMANDS, 6, option="--command")
    assert outcomes["reports"] > 10 and outcomes["runs"] > 10


def broken(*_, **__):
    raise KeyError("unforeseen")


def silent(*_, **__):
    raise SystemExit(2)


def other_status(*_, **__):
    raise SystemExit(70)


@pytest.mark.parametrize(
    "use, message", [(broken, "KeyError"), (silent, "without a message"), (other_status, "status 70")]
)
def test_a_command_that_fails_is_found(folder, monkeypatch, use, message):
    actual = CommandFuzz(folder, ["upgrade"])
    monkeypatch.setattr("caffelite.cli.upgrade.upgraded_text", use)
    assert actual.one("upgrade", 0) == "traceback"
    assert message in actual.failures[0][3]


def crash():
    os.kill(os.getpid(), 11)


def hang():
    while True:
        time.sleep(1)


def spin():
    while True:
        pass


ENDS = {
    "crash": (crash, "crash"),
    "hang": (hang, "hang"),
    "spin": (spin, "hang"),
    "memory": (lambda: bytes(3 << 30), "memory"),
    "traceback": (lambda: 1 / 0, "traceback"),
}


@pytest.mark.parametrize("use, outcome", ENDS.values(), ids=ENDS)
def test_how_a_child_process_ends_is_reported(monkeypatch, use, outcome):
    monkeypatch.setattr("fuzz_workers.SECONDS", 1)
    monkeypatch.setattr("fuzz_workers.WAIT", 3 if use is hang else 200)
    assert attempt(use)[0] == outcome
