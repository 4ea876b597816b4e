"""kill -9 at random moments: what is on disk always resumes, and ends as if nothing had happened."""

import importlib.util
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("kill", Path(__file__).with_name("kill.py"))
kill = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kill)


def test_a_few_kills(tmp_path):
    assert kill.campaign(tmp_path, kills=4, seed=4) > 4


@pytest.mark.slow
def test_more_kills(tmp_path):
    """`python tests/training/kill.py` has a hundred and more, and test_snapshot_faults.py one at each call of a
    snapshot."""
    assert kill.campaign(tmp_path, kills=10, seed=5) > 10
