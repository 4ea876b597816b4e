"""tools/gpu_session.py: the commands that it runs start, and what fails does not stop the others."""

import subprocess
import sys

import gpu_session as tool
import pytest

COMMANDS = tool.commands(tool.ROOT, 840)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.slow
def test_each_command_of_a_session_takes_its_words(name):
    words = [sys.executable, *COMMANDS[name][0], "--help"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tool.ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.slow
def test_without_a_gpu_each_command_says_so(name, monkeypatch):
    if not tool.why_none():
        pytest.skip("there is a GPU")
    done = subprocess.run([sys.executable, *COMMANDS[name][0]], capture_output=True, text=True, cwd=tool.ROOT)
    said = (done.stderr or done.stdout.splitlines()[-1]).strip()
    assert done.returncode and "GPU" in said and len(said.splitlines()) == 1, done.stdout + done.stderr


def test_a_session_without_a_gpu_is_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(tool, "why_none", lambda: "no NVIDIA GPU here")
    monkeypatch.setattr(sys, "argv", ["gpu_session.py", str(tmp_path / "out")])
    assert tool.main() == 2 and not (tmp_path / "out").exists()
    assert capsys.readouterr() == ("", "no session: no NVIDIA GPU here\n")


def test_a_command_that_fails_does_not_stop_a_session(monkeypatch, capsys, tmp_path):
    """Each has the variables of its own, and the session's cache."""
    says = "import os; print(os.environ['CAFFELITE_CACHE'], os.environ.get('CAFFELITE_TUNE'))"
    chosen = {"bad": (("-c", "raise SystemExit(3)"), {}), "untuned": (("-c", says), tool.UNTUNED)}
    monkeypatch.setattr(tool, "why_none", lambda: "")
    monkeypatch.setattr(tool, "commands", lambda folder, seconds: chosen)
    monkeypatch.setattr(sys, "argv", ["gpu_session.py", str(tmp_path)])
    assert tool.main() == 1
    assert (tmp_path / "untuned.txt").read_text() == f"{tmp_path / 'cache'} 0\n"
    assert capsys.readouterr().out.splitlines()[-1] == "bad: exit status 3"


def test_a_command_that_takes_too_long_is_ended(monkeypatch, capsys, tmp_path):
    slow = {"slow": (("-c", "import time; time.sleep(60)"), {}), "late": (("-c", "print(1)"), {})}
    monkeypatch.setattr(tool, "why_none", lambda: "")
    monkeypatch.setattr(tool, "commands", lambda folder, seconds: slow)
    monkeypatch.setattr(sys, "argv", ["gpu_session.py", str(tmp_path), "--seconds", "0.5"])
    assert tool.main() == 1
    assert capsys.readouterr().out.splitlines()[-2:] == ["slow: ended after 0 s", "late: no time was left"]
