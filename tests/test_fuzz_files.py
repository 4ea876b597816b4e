"""A sample of tests/fuzz_files.py: damaged files of every kind are read, or one line says what is wrong."""

import os
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("cv2")
pytest.importorskip("plyvel")
sys.path.insert(0, str(Path(__file__).parent))
from fuzz_files import FileFuzz  # noqa: E402
from fuzz_kinds import KINDS  # noqa: E402
from fuzz_workers import attempt  # noqa: E402

SLOW = [kind for kind in KINDS if "hdf5" in kind]  # each takes a process to read it


@pytest.fixture
def fuzz(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda kinds: FileFuzz(tmp_path, kinds)


@pytest.mark.slow
def test_damaged_files_are_read_or_reported(fuzz):
    kinds = [kind for kind in KINDS if kind not in SLOW]
    found = fuzz(kinds)
    found.run(12 * len(kinds))
    assert not found.failures
    assert found.outcomes["reports"] > 60 and found.outcomes["runs"] > 20


def test_damaged_hdf5_files_are_read_or_reported(fuzz):
    found = fuzz(SLOW)
    found.run(6 * len(SLOW))
    assert not found.failures


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
