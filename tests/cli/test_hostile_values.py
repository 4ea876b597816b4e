"""Names and numbers that no friend would give: control codes never reach a terminal, numbers out of range and a folder
that is gone are one line."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import click
import cv2
import numpy as np
import pytest

from caffelite import cli
from caffelite.errors import CaffeliteError
from caffelite.runs.config import RunConfig

EVIL = "\x1b]0;PWNED\x07\x1b[31m\x9b1.png"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture
def pictures(folder):
    """The folder with pictures of two classes, whose names have control codes."""
    for label in ("a", "b\x1b[7m"):
        (folder / "images" / label).mkdir(parents=True)
        for i in range(4):
            grays = np.full((8, 8, 3), 50 * i, np.uint8)
            (folder / "images" / label / f"{i}{EVIL}").write_bytes(cv2.imencode(".png", grays)[1].tobytes())
        (folder / "images" / label / f"bad{EVIL}").write_bytes(b"none")
    (folder / EVIL.replace(".png", ".txt")).write_text(f"absent{EVIL} 0\n")
    return folder


COMMANDS = [
    ["dataset", "info", "images"],
    ["dataset", "info", "images", "-near"],
    ["dataset", "info", "images", "-json"],
    ["dataset", "info", EVIL.replace(".png", ".txt")],
    ["dataset", "folder", "images", "-name", "set\x1b[1m", "-skip"],
    ["dataset", "show", "images", "-out", f"sheet{EVIL}"],
    ["convert_imageset", "images", EVIL.replace(".png", ".txt"), f"db{EVIL}", "-skip"],
    ["convert_imageset", "images", "images", "db"],
    ["new", f"pets{EVIL}", "images", "-skip"],
    ["check", EVIL.replace(".png", ".txt")],
    ["check", "-lint\x1b[31m"],
    ["check", "net.prototxt", "-level", "\x1b[31m"],
    ["draw", "-model", "net.prototxt", "-out", f"net{EVIL}"],
    ["queue", "add", "-after", EVIL, "train", "-solver", EVIL],
    ["no\x1b[31m"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda words: repr(" ".join(words))[:40])
def test_names_reach_a_terminal_without_control_codes(pictures, call, arguments):
    result = call(*arguments)
    assert result.status in (0, 1, 2) and not CONTROL.search(result.out + result.err)
    assert result.out + result.err


def test_folders_of_runs_are_listed_without_control_codes(folder, call):
    assert call("train", "-solver", "solver.prototxt", "-iterations", 1, "-record", "run\x1b[31m").status == 0
    for command in (["runs"], ["runs", "-json"], ["plot", "run\x1b[31m", "-out", "\x1b[31m.svg"]):
        result = call(*command)
        assert result.status == 0 and "31m" in result.out + result.err
        assert not CONTROL.search(result.out + result.err)


def number_options(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Option]]:
    """(words of the command, the option) of all options whose values are numbers."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from number_options(command.get_command(context, name), (*path, name))
        return
    numbers = (click.types.IntParamType, click.types.FloatParamType)
    yield from ((path, p) for p in command.params if isinstance(p.type, numbers))


def test_numbers_out_of_range_are_mistakes():
    """What a field of the schema cannot hold, no option of any command takes, nor what is no finite number."""
    taken = []
    for path, option in number_options(cli.caffelite):
        for value in ("99999999999", "-99999999999", "9" * 30, "nan", "inf", "-inf", "1e999", "x", ""):
            bounded = isinstance(option.type, click.types.FloatParamType) and value.strip("-9") == ""
            try:
                option.type.convert(value, option, None)
            except click.BadParameter:
                continue
            if not bounded:
                taken.append(f"{' '.join(path)} {option.name} {value}")
    assert not taken


@pytest.mark.parametrize(
    "words",
    [
        "check net.prototxt -level 99999999999",
        "train -solver solver.prototxt -level 99999999999",
        "summary -model net.prototxt -batch 99999999999999999999",
        "summary -model net.prototxt -memory 99999999999999999999999G",
        "summary -model net.prototxt -batch 2147483647",
        "classify -model net.prototxt -threshold nan x.png",
        "classify -model net.prototxt -size 99999999999x99999999999 x.png",
        "export -model net.prototxt -shape x=99999999999999999999x3",
        "check net.prototxt -shape x=3x99999999999",
        "plot run -out x.svg -watch 1e12",
        "queue run -gpu -1",
        "time -model net.prototxt -gpu -1",
        "train -solver solver.prototxt -gpu 0,-1",
    ],
)
def test_numbers_too_large_are_one_line(folder, call, words):
    result = call(words).refused
    assert len(result.err.strip().splitlines()) <= 4


def test_a_configuration_has_the_bounds_of_its_options():
    with pytest.raises(CaffeliteError, match="level of a run is too large; expected at most 2147483647"):
        RunConfig(solver="s.prototxt", level=1 << 31)


@pytest.mark.parametrize("record", [".", "..", "../..", "../here"])
def test_records_never_replace_the_current_folder(folder, call, monkeypatch, record):
    """Nor one that holds it: it would be renamed."""
    (folder / "here").mkdir()
    for name in ("net.prototxt", "solver.prototxt", "rows.h5", "rows.txt"):
        (folder / "here" / name).write_bytes((folder / name).read_bytes())
    monkeypatch.chdir(folder / "here")
    before = sorted(os.listdir(".")), sorted(os.listdir(".."))
    result = call("train", "-solver", "solver.prototxt", "-iterations", 1, "-record", record)
    assert result.status == 2 and "-record" in result.err and "as in -record run_1" in result.err
    assert (sorted(set(os.listdir(".")) - {".run.lock"}), sorted(os.listdir(".."))) == before


@pytest.mark.parametrize("start", [["-m", "caffelite"], ["-c", "from caffelite.cli import main; main()"]])
def test_a_deleted_folder_is_one_line(tmp_path, start):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = "import os, sys; os.chdir(sys.argv[1]); os.rmdir(sys.argv[1]); os.execv(sys.executable, sys.argv[2:])"
    command = [sys.executable, "-c", script, str(gone), sys.executable, *start, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert done.returncode == 2 and done.stderr.startswith("caffelite: cannot find the current folder: No such file")
    assert done.stderr.count("\n") == 1
