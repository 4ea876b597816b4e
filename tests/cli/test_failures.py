"""What the command line does where something fails that is no mistake in a file: no traceback, a status, one line."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from turns import one_first

from caffelite import cli

COMMAND = [sys.executable, "-c", "from caffelite.cli import main; main()"]
MODELS = Path(__file__).parent.parent.parent / "models"
LENET = str(MODELS / "lenet/deploy.prototxt")


def raising(error):
    def main(*_, **__):
        raise error

    return main


def test_an_unexpected_error_is_a_line_and_a_report(call, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(cli.caffelite, "main", raising(KeyError("what\nnobody foresaw")))
    result = call("check", "net.prototxt")
    (line,) = result.err.splitlines()
    assert result.status == 70 and line.startswith("caffelite: an internal error (KeyError: ")
    assert "please report it" in line
    (path,) = tmp_path.glob("caffelite-*.txt")
    assert str(path) in line
    report = path.read_text()
    assert "Traceback (most recent call last)" in report and "arguments: ['check', 'net.prototxt']" in report
    assert re.search(r"^caffelite \d", report, re.MULTILINE) and re.search(r"^numpy \d", report, re.MULTILINE)


def test_a_recursion_error_is_a_line(call, monkeypatch):
    monkeypatch.setattr(cli.caffelite, "main", raising(RecursionError()))
    result = call("check", "net.prototxt")
    assert (result.status, result.err) == (2, "caffelite: the input is nested too deeply\n")


@pytest.mark.parametrize("opening", one_first(["layer { ", "<", "[", "layer { param { ", "x { "]))
def test_deep_nesting_is_a_mistake(folder, call, opening):
    Path("deep.prototxt").write_text(opening * 1500)
    for command in (("check",), ("summary", "-model"), ("upgrade",), ("train", "-solver")):
        result = call(*command, "deep.prototxt", *["new.prototxt"] * (command[0] == "upgrade"))
        assert result.status in (1, 2) and "internal error" not in result.err


@pytest.mark.parametrize(
    "number", ["9" * 5000, "-" + "9" * 5000, "0." + "1" * 5000, "0" + "7" * 5000, "0x" + "f" * 5000, "1e" + "9" * 5000]
)
def test_numbers_of_5000_digits(folder, call, number):
    net = (folder / "net.prototxt").read_text()
    Path("long.prototxt").write_text(net.replace("num_output: 2", f"num_output: {number}"))
    text = net + f'layer {{ name: "p" type: "Power" bottom: "x" top: "p" power_param {{ scale: {number} }} }}'
    Path("float.prototxt").write_text(text)
    for name in ("long.prototxt", "float.prototxt"):
        for command in (("check",), ("summary", "-model"), ("draw", "-model")):
            assert "internal error" not in call(*command, name).err
    for option in (f"value.inner_product_param.num_output={number}", f"value.param[{number}].lr_mult=1"):
        assert "internal error" not in call("summary", "-model", "net.prototxt", "-set", option).refused.err
    for words in (("-shape", f"x={number}"), ("-batch", number), ("-memory", number), ("-level", number)):
        assert "internal error" not in call("summary", "-model", "net.prototxt", *words).err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["check", LENET],
        pytest.param(["summary", "-model", LENET], marks=pytest.mark.slow),
        pytest.param(["draw", "-model", LENET], marks=pytest.mark.slow),
    ],
)
def test_a_full_standard_output_is_a_line(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "caffelite: cannot write to standard output: no space left on device\n"


@pytest.mark.parametrize(
    "error, said",
    [
        (
            OSError(errno.EIO, "Input/output error"),
            "caffelite: cannot write or read a file: input/output error; check the disk",
        ),
        (OSError(errno.ENOSPC, "No space", "a.txt"), "caffelite: cannot write or read a.txt: no space; check the disk"),
    ],
)
def test_a_disk_that_fails_is_not_called_standard_output(call, monkeypatch, error, said):
    """The error of a file that is closed has no name."""

    def fail(*_, **__):
        raise error

    monkeypatch.setattr("caffelite.inspection.check.check", fail)
    result = call("check", LENET)
    assert (result.status, result.err.strip()) == (2, said)


@pytest.mark.parametrize(
    "words", one_first([["check", LENET], ["summary", "-model", LENET], ["explain", "conv2", "-model", LENET]])
)
@pytest.mark.parametrize("encoding", ["ascii", pytest.param("latin-1", marks=pytest.mark.slow)])
def test_a_standard_output_of_another_encoding(words, encoding):
    env = {**os.environ, "PYTHONIOENCODING": encoding, "LANG": "C"}
    done = subprocess.run([*COMMAND, *words], capture_output=True, env=env)
    assert (done.returncode, done.stderr) == (0, b"") and len(done.stdout) > 20


def test_an_argument_that_is_not_utf_8(tmp_path):
    for words in (
        [b"check", b"caf\xe9.prototxt"],
        [b"\xff"],
        [b"train", b"-solver", b"s", b"-set", b"snapshot_prefix=\xff"],
    ):
        done = subprocess.run([*map(os.fsencode, COMMAND), *words], capture_output=True, cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.startswith(b"caffelite: an argument is not UTF-8; found ")
        assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("words", [["classify", "-model", LENET, ""], ["models", "lenet_mnist", ""], ["new", ""]])
def test_an_empty_argument_is_no_folder(words, call):
    result = call(*words)
    assert result.status == 2 and result.err.startswith("caffelite: an argument is empty; expected a name, found ")
