"""Every kernel under sanitizers, each of which must see a fault that is planted."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from caffelite.devices import cuda

pytestmark = [pytest.mark.slow, pytest.mark.host]

TESTS = Path(__file__).parents[1]
KERNELS = {
    name
    for file in Path(cuda.__file__).parent.glob("*.cu")
    for name in re.findall(r"^KERNEL (\w+)", file.read_text(), re.M)
}
FORMULAS = {f"formula_{name}" for name in ("map", "sum", "channel_map", "channel_sums", "update")}
BARRIER = "__syncthreads();"


def run(sanitizer: str, *fault: str) -> subprocess.CompletedProcess:
    """Runs the kernels in a process of their own, with the sanitizer's library loaded first."""
    name = {"address": "libasan.so", "thread": "libtsan.so"}[sanitizer]
    library = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip(f"g++ has no {name}")
    environment = os.environ | {
        "CAFFELITE_HOST_SANITIZE": sanitizer,
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0",
        "TSAN_OPTIONS": "halt_on_error=1 exitcode=66",
        "PYTHONPATH": os.pathsep.join((str(TESTS.parent), str(TESTS))),
        "OPENBLAS_NUM_THREADS": "1",
    }
    script = TESTS / "devices/host/every_kernel.py"
    return subprocess.run([sys.executable, script, *fault], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_every_kernel(sanitizer):
    done = run(sanitizer)
    assert done.returncode == 0, done.stderr[-4000:]
    assert set(done.stdout.split()) == KERNELS | FORMULAS


@pytest.mark.parametrize(
    ("text", "replacement", "seen"),
    [
        ("i < (n); i +=", "i <= (n); i +=", "heap-buffer-overflow"),
        ("idx row =", "volatile int far = 2147483647; far = far + 1; idx row =", "signed integer overflow"),
    ],
    ids=["address", "overflow"],
)
def test_an_address_or_a_value_out_of_range_is_seen(text, replacement, seen):
    done = run("address", "copies", "transpose_few", text, replacement)
    assert done.returncode and seen in done.stderr, done.stderr[-4000:]


TILE = "tile[y][x] = source[image + (a0 + y) * b + b0 + x];\n    "
READERS = "  // the last sum's readers are done"


@pytest.mark.parametrize(
    ("group", "kernel", "text", "replacement"),
    [
        ("copies", "transpose_tiles", TILE + BARRIER, TILE),
        ("losses", "softmax_loss", BARRIER + READERS, ""),
        ("losses", "accuracy", "atomicAdd(come, 1u)", "(*come)++"),
    ],
    ids=["tiles", "sums", "atomic"],
)
def test_a_barrier_that_is_missing_is_seen(group, kernel, text, replacement):
    done = run("thread", group, kernel, text, replacement)
    assert done.returncode == 66 and "data race" in done.stderr, done.stderr[-4000:]
