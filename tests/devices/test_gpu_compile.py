"""Every kernel compiles for the GPUs that it is meant for; nothing runs."""

import functools
import os
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
from devices.host.backend import HostBackend, signatures

from caffelite.devices import gpu
from caffelite.devices.formula import Formula
from caffelite.devices.gpu import GPU
from caffelite.devices.gpu.backend import SPIN

ALL = "where(0 < x < 3, min(x, 1), max(-x, 0.5)) + pow(abs(x), 2) + x ** 2 + sign(x) + exp(log(sqrt(tanh(log1p(s))))) * k"


@functools.cache
def nvrtc():
    """Compiles by the wheels cuda-core and nvidia-cuda-nvrtc; None without them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from cuda.core import Program, ProgramOptions

            Program("__global__ void f() {}", "c++", ProgramOptions(arch="sm_90")).compile("cubin")
    except Exception:  # noqa: BLE001  whatever keeps it from working, there is nothing to test with
        return None

    def compile_for(source, arch, folder):
        Program(source, "c++", ProgramOptions(arch=arch, std="c++17")).compile("cubin")

    return compile_for


def nvcc(source, arch, folder):
    path = folder / "kernel.cu"
    path.write_text(source)
    command = ["nvcc", "-cubin", f"-arch={arch}", "-std=c++17", "-Werror", "all-warnings", "-o", os.devnull, path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=["nvrtc", pytest.param("nvcc", marks=pytest.mark.slow)])
def compile_for(request):
    if request.param == "nvcc":
        if not shutil.which("nvcc"):
            pytest.skip("no nvcc")
        return nvcc
    if nvrtc() is None:
        pytest.skip("cuda-core and nvidia-cuda-nvrtc are not installed")
    return nvrtc()


class Collector(HostBackend):
    """A backend that keeps the sources of the kernels that are run."""

    def __init__(self):
        super().__init__()
        self.sources = set()

    def kernel(self, source, name):
        assert name in signatures(source)
        self.sources.add(source)
        return lambda grid, block, arguments: None


FAMILIES = sorted(path for path in Path(gpu.__file__).parent.glob("*.cu") if path.stem not in ("types", "prelude"))


@functools.cache
def sources(dtype: str, blob: str, huge: bool = False) -> list[str]:
    """The sources of every family of kernels and of a formula of each kind; blob: the type of its arrays."""
    backend = Collector()
    dev = GPU(0, dtype, backend)
    many = 1 << 30 if huge else 100
    x, y, s = np.zeros(4, blob), np.zeros(4, blob), np.zeros(1, dtype)
    for family in FAMILIES:
        dev.kernel(family.stem, re.search(r"^KERNEL (\w+)", family.read_text(), re.M)[1], many)(x)
    formula, both = Formula(ALL, ("x",), ("s",), ("k",)), Formula(f"y * ({ALL})", ("x", "y"), ("s",), ("k",))
    dev.map(formula, k=1)(x, s, y)
    dev.sum(formula, k=1)(x, s, s)
    for p in (1, 4):
        dev.channel_map(both, ("y",), many, 1, p, k=1)(x, s, s, y)
        dev.channel_sum(both, ("y",), many, 2, p, k=1)(x, s, s, s)
        dev.channel_sums((formula, both), ("y",), many, 2, p, k=1)(x, s, s, (s, s))
        dev.batch_moments(many, 2, p, 1e-5, 0.9)(x, s, s, s, s, s)
    rule = "g = g + decay * sign(w); h = mu * h + rate * g; w -= h"
    run = dev.updater(Formula(rule, ("w", "g", "h"), constants=("rate", "decay", "mu")), np.array([[0, 5]]), np.ones(1), np.ones(1), mu=0.5)
    run(s, s, s, s, s)
    return sorted(backend.sources)


@pytest.mark.parametrize("blob", ["float32", *(pytest.param(blob, marks=pytest.mark.slow) for blob in ("float64", "float16", "uint16"))])
def test_compiles(compile_for, blob, tmp_path):
    every = sources("float64" if blob == "float64" else "float32", blob)
    assert len(every) == len(FAMILIES) + 11
    for source in every:
        compile_for(source, "sm_90", tmp_path)


@pytest.mark.parametrize("blob", [pytest.param("float32", marks=pytest.mark.slow), "uint16"])
def test_compiles_for_older_gpus_and_huge_arrays(compile_for, blob, tmp_path):
    huge = [s for s in sources("float32", blob, True) if "typedef long long idx" in s]
    assert len(huge) == len(FAMILIES) + 11
    for source in huge[:1] if compile_for is nvcc else huge:
        compile_for(source, "sm_80", tmp_path)


def test_what_the_clock_waits_with_compiles(compile_for, tmp_path):
    compile_for(SPIN, "sm_90", tmp_path)


def test_a_mistake_is_found(compile_for, tmp_path):
    with pytest.raises(Exception, match="nowhere"):
        compile_for(sources("float32", "float32")[0] + "KERNEL wrong() { nowhere(); }", "sm_90", tmp_path)
