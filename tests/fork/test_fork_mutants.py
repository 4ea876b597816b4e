"""A sample of fuzz_fork.py: damaged sources, headers, schemas and nets of a fork are read, or reported in time."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "fuzz_fork.py"


def campaign(runs, *options):
    done = subprocess.run([sys.executable, SCRIPT, f"--runs={runs}", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_damaged_schemas_are_reported():
    campaign(3, "--kind=schema")


@pytest.mark.slow
def test_damaged_sources_and_headers_are_compiled_or_reported():
    campaign(8)


@pytest.mark.full
def test_two_hundred_damaged_forks_run_or_are_reported():
    campaign(200)
