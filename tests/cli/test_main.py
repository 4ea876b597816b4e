"""The command line as a whole: dashes, mistakes, help, what it imports, and streams that are closed."""

import subprocess
import sys

import pytest

from caffelite import cli


@pytest.mark.parametrize(
    "given, expected",
    [
        ("-solver", "--solver"),
        ("--solver", "--solver"),
        ("-solver=a-b.prototxt", "--solver=a-b.prototxt"),
        ("--sigint-effect", "--sigint_effect"),
        ("--sigint-effect=no-ne", "--sigint_effect=no-ne"),
        ("-gpu=0", "--gpu=0"),
        ("-h", "-h"),
        ("--", "--"),
        ("-", "-"),
        ("-1", "-1"),
        ("my-file", "my-file"),
    ],
)
def test_dashes(given, expected):
    assert cli.normalize(given) == expected


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["trian"], 'no command "trian"; did you mean "train"?'),
        (["zzz"], f'no command "zzz"; expected one of {", ".join(cli.COMMANDS)}'),
        (["train", "-slover", "x"], "--solver'?"),
        (["train"], "Missing option '--solver'"),
        (["test"], "Missing option '--model'"),
        (["train", "-solver", "x", "-iterations", "0"], "0 is not in the range x>=1"),
        (["train", "-solver", "x", "-sigint_effect", "stopp"], "'stopp' is not one of 'stop', 'snapshot', 'none'"),
        (["train", "-solver", "x", "-snapshot", "a", "-weights", "b"], "-snapshot and -weights exclude each other"),
        (["train", "-solver", "x", "-phase", "TEST"], "use caffelite test"),
        (["test", "-model", "x.prototxt"], "-weights is missing"),
        (["train", "-solver", "absent.prototxt"], "caffelite: cannot read absent.prototxt: no such file"),
        (["time", "-model", "absent.prototxt"], "caffelite: cannot read absent.prototxt: no such file"),
        (["train", "-solver", "sover.prototxt"], 'no such file; did you mean "solver.prototxt"?'),
        (["train", "-solver", "x", "extra"], "Got unexpected extra argument (extra)"),
    ],
)
def test_mistakes(folder, call, arguments, said):
    assert said in call(*arguments).refused.err


def test_help_and_version(call):
    for arguments in (["--help"], ["-h"], ["-help"]):
        assert all(name in call(*arguments).ok.out for name in cli.COMMANDS)
    assert call("--version").out.startswith("caffelite, version ")


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from caffelite.cli import main\ntry: main(['--help'])\nexcept SystemExit: "
        "pass\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    heavy = "numpy numba h5py google.protobuf scipy lmdb tqdm caffelite.training caffelite.caffelite_pb2"
    assert not loaded & set(heavy.split())
    assert "click" in loaded


def test_out_of_memory_is_a_line(call, monkeypatch):
    def starved(*_, **__):
        raise MemoryError("Unable to allocate 9 EiB")

    monkeypatch.setattr(cli.caffelite, "main", starved)
    result = call("train").refused
    assert result.err.startswith("caffelite: out of memory (Unable to allocate 9 EiB); use a smaller batch_size")


def test_ctrl_c_is_130_without_a_traceback(folder, call, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("caffelite.prototxt.read_net", interrupted)
    result = call("time", "-model", "net.prototxt")
    assert (result.status, result.err.strip()) == (130, "")


def test_ctrl_c_during_imports():
    code = """
import builtins, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background ignores
real = builtins.__import__
def slow(name, *rest):
    if name == "click":
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *rest)
builtins.__import__ = slow
from caffelite.cli import main
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")


def test_closed_standard_output():
    """As in `caffelite --help | true`: no traceback."""
    code = "import time, sys; sys.stdin.read(); from caffelite.cli import main; main(['--help'])"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    process.stdin.close()
    assert process.stderr.read() == b"" and process.wait() in (0, 1)
    process.stderr.close()


def test_as_a_module(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "caffelite", "no_such_command"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2 and "no_such_command" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [[], ["dataset"]])
def test_no_summary_of_a_command_is_cut(call, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    group = cli.caffelite.get_command(None, "dataset") if words else cli.caffelite
    shown = {heading: {} for heading in group.groups}
    for block in call(*words, "--help").out.split("\n\n"):
        heading, *rows = block.splitlines()
        if heading.rstrip(":") in shown:
            shown[heading.rstrip(":")] = dict(row.strip().split(maxsplit=1) for row in rows)
    assert {heading: tuple(rows) for heading, rows in shown.items()} == dict(group.groups)
    for name, summary in (row for rows in shown.values() for row in rows.items()):
        assert group.get_command(None, name).short_help == summary and len(summary) <= 50


@pytest.mark.parametrize(
    "command, said",
    [
        (["plan", "-solver", "solver.prototxt"], "No such option '--solver'. Did you mean '--model'?"),
        (["find_lr", "-model", "net.prototxt"], "No such option '--model'. Did you mean '--solver'?"),
        (["check", "-solver", "solver.prototxt"], "No such option '--solver'. Name the file without an option."),
        (["train", "-sovler", "solver.prototxt"], "Did you mean '--solver'?"),
        (["train", "-velocity", "1"], "No such option '--velocity'."),
        (["train", "-solver", "x", "-epochs", "5"], "It is a field: -set max_epoch=VALUE"),
        (["train", "-momentum=0.5"], "It is a field: -set momentum=VALUE"),
        (["train", "-batch_size", "5"], "It is a field: -set LAYER.data_param.batch_size=VALUE"),
        (["train", "my pets/solver.prototxt"], "needs its option: caffelite train -solver 'my pets/solver.prototxt'"),
        (["train", "-solver=a", "b.solverstate.h5"], "needs its option: caffelite train -snapshot b.solverstate.h5"),
        (["summary", "a_solver.prototxt"], "needs its option: caffelite summary -solver a_solver.prototxt"),
        (["summary", "net.prototxt"], "needs its option: caffelite summary -model net.prototxt"),
        (["find_lr", "s.prototxt"], "needs its option: caffelite find_lr -solver s.prototxt"),
        (["test", "-model", "a.prototxt", "b.caffemodel"], "its option: caffelite test -weights b.caffemodel"),
    ],
)
def test_usage_errors_suggest_what_was_meant(folder, call, command, said):
    assert call(*command).refused.err.rstrip().endswith(said)


def test_a_folder_without_an_option_is_that_of_a_solver(folder, call):
    (folder / "früchte").mkdir()
    assert "its option" not in call("train", "früchte").refused.err
    (folder / "früchte/solver.prototxt").write_text("")
    said = "A folder needs its option: caffelite train -solver 'früchte'"
    assert call("train", "früchte").refused.err.rstrip().endswith(said)
