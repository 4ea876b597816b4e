"""A sample of tests/fuzz_files.py: damaged files of every kind are read, or one line says what is wrong."""

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("cv2")
pytest.importorskip("plyvel")
sys.path.insert(0, str(Path(__file__).parent))
import fuzz_files  # noqa: E402
from fuzz_kinds import KINDS  # noqa: E402
from fuzz_workers import attempt  # noqa: E402

SLOW = [kind for kind in KINDS if "hdf5" in kind]  # each takes a process to read it


@pytest.fixture
def fuzz(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda kinds: fuzz_files.FileFuzz(tmp_path, kinds)


def campaign(kinds, runs):
    """The outcomes of a campaign in a process of its own: mutants are read in forks of it, and those of a process that
    has run many tests are slow."""
    words = [word for kind in kinds for word in ("--kind", kind)]
    command = [sys.executable, fuzz_files.__file__, "--runs", str(runs), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return ast.literal_eval(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_damaged_files_are_read_or_reported():
    kinds = [kind for kind in KINDS if kind not in SLOW]
    outcomes = campaign(kinds, 12 * len(kinds))
    assert outcomes["reports"] > 60 and outcomes["runs"] > 20


def test_damaged_hdf5_files_are_read_or_reported():
    outcomes = campaign(SLOW, 6 * len(SLOW))
    assert sum(outcomes.values()) == 6 * len(SLOW)


def test_undamaged_files_are_read(fuzz):
    for kind in fuzz(tuple(KINDS)).subjects:
        os.chdir(kind.replace(" ", "_"))
        KINDS[kind].use()
        os.chdir("..")


def crash():
    os.kill(os.getpid(), 11)


def hang():
    while True:
        time.sleep(1)


@pytest.mark.parametrize(
    "use, outcome", [(crash, "crash"), (hang, "hang"), (lambda: bytes(3 << 30), "memory"), (lambda: 1 / 0, "traceback")]
)
def test_how_a_child_process_ends_is_reported(monkeypatch, use, outcome):
    monkeypatch.setattr("fuzz_workers.SECONDS", 1)
    assert attempt(use)[0] == outcome
