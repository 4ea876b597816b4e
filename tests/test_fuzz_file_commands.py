"""A sample of tests/fuzz_file_commands.py: commands end with a result or with reported mistakes on damaged files."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cv2")
pytest.importorskip("plyvel")
sys.path.insert(0, str(Path(__file__).parent))
import fuzz_file_commands  # noqa: E402
from fuzz_kinds import KINDS  # noqa: E402

KINDS_OF_COMMANDS = ("tar", "npy", "idx", "caffemodel", "binary net", "list")


def test_every_kind_that_a_command_reads_is_damaged():
    assert set(KINDS) - set(fuzz_file_commands.COMMANDS) == {"datum", "hierarchy"}  # read by functions


@pytest.mark.slow
def test_commands_read_or_report_damaged_files():
    """In a process of its own, with one thread, as it forks."""
    words = [word for kind in KINDS_OF_COMMANDS for word in ("--kind", kind)]
    command = [sys.executable, fuzz_file_commands.__file__, "--runs", str(4 * len(KINDS_OF_COMMANDS)), *words]
    one = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=one)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(ast.literal_eval(done.stdout.splitlines()[-1]).values()) == 4 * len(KINDS_OF_COMMANDS)
