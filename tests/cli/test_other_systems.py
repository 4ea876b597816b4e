"""What macOS lacks: these functions of Python, and /proc."""

import subprocess
import sys

import pytest

AS_ON_MACOS = """
import builtins, io, os, sys
for name in ("sched_getaffinity", "sched_yield", "posix_fallocate", "pidfd_open"):
    delattr(os, name)
opened = io.open
def without_proc(file, *arguments, **options):
    if str(file).startswith("/proc") and not str(file).endswith("maps"):  # threadpoolctl reads these, on Linux alone
        raise FileNotFoundError(2, "No such file or directory", str(file))
    return opened(file, *arguments, **options)
builtins.open = io.open = without_proc
from caffelite.cli import main
main()
"""


@pytest.mark.parametrize(
    "words, expected",
    [
        (["train", "-solver", "solver.prototxt"], "Optimization Done"),
        pytest.param(["dataset", "shapes", "-images", "20", "-test_images", "10"], "images", marks=pytest.mark.slow),
        pytest.param(
            ["plan", "-model", "net.prototxt", "-gpus", "2", "-iterations", "1"], "bottleneck", marks=pytest.mark.slow
        ),
    ],
)
def test_without_what_linux_alone_has(folder, words, expected):
    result = subprocess.run([sys.executable, "-c", AS_ON_MACOS, *words], capture_output=True, text=True, check=False)
    assert result.returncode == 0 and expected in result.stdout + result.stderr, result.stderr


def test_control_needs_linux(folder, call):
    assert call("train", "-solver", "solver.prototxt").ok
    words = [sys.executable, "-c", AS_ON_MACOS, "control", "kill", "run_run"]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert result.returncode == 2 and result.stderr.startswith("caffelite: "), result.stderr
