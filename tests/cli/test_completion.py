"""Shell completion, which click does, with our options of one dash and our files."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
RUN = [sys.executable, "-c", "from caffelite.cli import main; main()"]


def completed(line: str) -> list[str]:
    """What bash is offered for the last word of a line: kind,value."""
    words = line.split(" ")
    env = {**os.environ, "_CAFFELITE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return subprocess.run(RUN, env=env, capture_output=True, text=True, check=True).stdout.split()


def completed_by_fish(line: str) -> list[str]:
    env = {**os.environ, "_CAFFELITE_COMPLETE": "fish_complete", "COMP_WORDS": line, "COMP_CWORD": line.split(" ")[-1]}
    return subprocess.run(RUN, env=env, capture_output=True, text=True, check=True).stdout.splitlines()


def test_options_in_fish():
    for dash in ("-", "--"):
        (actual,) = completed_by_fish(f"caffelite train {dash}solv")
        assert actual.startswith("plain,--solver")


def test_commands():
    assert completed("caffelite dep") == ["plain,deploy"]
    assert {"plain,mnist", "plain,digits"} <= set(completed("caffelite dataset "))


@pytest.mark.parametrize("dash", ["-", "--"])
def test_options(dash):
    assert completed(f"caffelite train {dash}solv") == ["plain,--solver"]
    assert "plain,--snapshot" in completed(f"caffelite train {dash}solver x.prototxt {dash}")


def test_choices_and_files():
    assert set(completed("caffelite test -phase T")) == {"plain,train", "plain,test"}
    for line in (
        "caffelite train -solver s",
        "caffelite test -model m",
        "caffelite test -weights ",
        "caffelite summary -solver ",
        "caffelite classify -model m.prototxt ",
        "caffelite deploy -out d",
    ):
        assert re.match(r"file,", completed(line)[0]), line


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
