"""Shell completion, which click does, with our options of one dash and our files."""

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from caffelite import cli

ROOT = Path(__file__).parent.parent.parent
RUN = [sys.executable, "-c", "from caffelite.cli import main; main()"]


@pytest.fixture
def offered(monkeypatch):
    """Gives what a shell is offered for the last word of a line, as lines; cword: what the shell says of that word."""

    def lines(line: str, shell: str = "bash", cword: str | None = None) -> list[str]:
        monkeypatch.setenv("_CAFFELITE_COMPLETE", f"{shell}_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(line.count(" ")) if cword is None else cword)
        out = io.TextIOWrapper(io.BytesIO())
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as end:
            patch.setattr("sys.stdout", out)
            cli.main([])
        assert not end.value.code
        return out.buffer.getvalue().decode().splitlines()

    return lines


def test_options_in_fish(offered):
    for dash in ("-", "--"):
        (actual,) = offered(f"caffelite train {dash}solv", "fish", f"{dash}solv")
        assert actual.startswith("plain,--solver")


def test_commands():
    """In a process, as the shell starts it."""
    env = {**os.environ, "_CAFFELITE_COMPLETE": "bash_complete", "COMP_WORDS": "caffelite dep", "COMP_CWORD": "1"}
    assert subprocess.run(RUN, env=env, capture_output=True, text=True, check=True).stdout == "plain,deploy\n"


def test_names_of_data_sets(offered):
    assert {"plain,mnist", "plain,digits"} <= set(offered("caffelite dataset "))


@pytest.mark.parametrize("dash", ["-", "--"])
def test_options(offered, dash):
    assert offered(f"caffelite train {dash}solv") == ["plain,--solver"]
    assert "plain,--snapshot" in offered(f"caffelite train {dash}solver x.prototxt {dash}")


def test_choices_and_files(offered):
    assert set(offered("caffelite test -phase T")) == {"plain,train", "plain,test"}
    for line in (
        "caffelite train -solver s",
        "caffelite test -model m",
        "caffelite test -weights ",
        "caffelite summary -solver ",
        "caffelite classify -model m.prototxt ",
        "caffelite deploy -out d",
    ):
        assert re.match(r"file,", offered(line)[0]), line


def documented() -> list[str]:
    text = (ROOT / "docs/getting-started.md").read_text()
    return re.findall(r"_CAFFELITE_COMPLETE=(\w+)_source", text)


def test_the_document_s_lines_give_scripts():
    assert documented() == ["bash", "zsh", "fish"]
    for shell in documented():
        if shell == "bash" and not shutil.which("bash"):
            continue
        done = subprocess.run(
            RUN, env={**os.environ, "_CAFFELITE_COMPLETE": f"{shell}_source"}, capture_output=True, text=True
        )
        assert "_CAFFELITE_COMPLETE" in done.stdout and done.returncode == 0, done.stderr
        if shell == "bash":
            subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=True)
