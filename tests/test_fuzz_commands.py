"""A sample of tests/fuzz_commands.py: commands end with a result or with reported mistakes on damaged prototxts."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from fuzz_commands import COMMANDS, CommandFuzz  # noqa: E402


@pytest.fixture
def fuzz(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *commands: CommandFuzz(tmp_path, commands or tuple(COMMANDS))


def test_damaged_prototxts_are_read_or_reported(fuzz):
    found = fuzz()
    found.run(6 * len(COMMANDS))
    assert not found.failures
    assert found.outcomes["reports"] > 10 and found.outcomes["runs"] > 10


def broken(*_, **__):
    raise KeyError("unforeseen")


def silent(*_, **__):
    raise SystemExit(2)


def other_status(*_, **__):
    raise SystemExit(70)


@pytest.mark.parametrize(
    "use, message", [(broken, "KeyError"), (silent, "without a message"), (other_status, "status 70")]
)
def test_a_command_that_fails_is_found(fuzz, monkeypatch, use, message):
    found = fuzz("upgrade")
    monkeypatch.setattr("caffelite.cli.upgrade.upgraded_text", use)
    assert found.one("upgrade", 0) == "traceback"
    assert message in found.failures[0][3]
