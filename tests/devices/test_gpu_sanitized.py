"""Kernels under sanitizers, each of which must see a fault that is planted."""

import json
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
PATH = os.pathsep.join((str(TESTS.parent), str(TESTS)))
SCRIPT = TESTS / "devices/host/every_kernel.py"
PASSED = json.loads((TESTS / "devices/host/sanitized.json").read_text())


def run(sanitizer: str, *words: str) -> subprocess.CompletedProcess:
    """Runs kernels in a process of their own, with the sanitizer's library loaded first."""
    name = {"address": "libasan.so", "thread": "libtsan.so"}[sanitizer]
    library = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip(f"g++ has no {name}")
    environment = os.environ | {
        "CAFFELITE_HOST_SANITIZE": sanitizer,
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0",
        "TSAN_OPTIONS": "halt_on_error=1 exitcode=66",
        "PYTHONPATH": PATH,
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.run([sys.executable, SCRIPT, *words], env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def changed() -> list[str]:
    """The groups whose kernels are others than those that passed."""
    words, environment = [sys.executable, SCRIPT, "--digests"], os.environ | {"PYTHONPATH": PATH}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return [group for group, digest in json.loads(done.stdout).items() if PASSED.get(group) != digest]


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_changed_kernels(sanitizer, changed):
    if changed:
        done = run(sanitizer, ",".join(changed))
        assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.full
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
    done = run("address", "recurrent", "lstm_forward", text, replacement)
    assert done.returncode and seen in done.stderr, done.stderr[-4000:]


TILE = "tile[y * (columns + 1) + x] = source[image + (a0 + y) * b + b0 + x];\n    "
READERS = "  // the last sum's readers are done"


@pytest.mark.parametrize(
    ("group", "kernel", "text", "replacement"),
    [
        ("copies", "transpose", TILE + BARRIER, TILE),
        ("losses", "softmax_loss", BARRIER + READERS, ""),
        ("losses", "accuracy", "atomicAdd(come, 1u)", "(*come)++"),
    ],
    ids=["tiles", "sums", "atomic"],
)
def test_a_barrier_that_is_missing_is_seen(group, kernel, text, replacement):
    done = run("thread", group, kernel, text, replacement)
    assert done.returncode == 66 and "data race" in done.stderr, done.stderr[-4000:]
