"""A sample of the campaign of tests/fuzz_commands.py: damaged nets and solvers end in an answer or in mistakes."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from fuzz_commands import COMMANDS, Fuzz  # noqa: E402


@pytest.fixture
def fuzz(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *commands: Fuzz(tmp_path, commands or tuple(COMMANDS))


def test_damaged_prototxts_end_in_a_line(fuzz):
    found = fuzz()
    found.campaign(6 * len(COMMANDS))
    assert not found.failures
    assert found.outcomes["says"] > 10 and found.outcomes["runs"] > 10


def broken(*_, **__):
    raise KeyError("what nobody foresaw")


def silent(*_, **__):
    raise SystemExit(2)


def other_status(*_, **__):
    raise SystemExit(70)


@pytest.mark.parametrize("use, said", [(broken, "KeyError"), (silent, "without a word"), (other_status, "status 70")])
def test_a_command_that_fails_is_found(fuzz, monkeypatch, use, said):
    found = fuzz("upgrade")
    monkeypatch.setattr("caffelite.cli.upgrade.upgraded_text", use)
    assert found.one("upgrade", 0) == "traceback"
    assert said in found.failures[0][3]
