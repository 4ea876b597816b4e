"""Every kernel compiles for the GPUs that it is meant for; nothing runs."""

import functools
import os
import shutil
import subprocess
import warnings

import numpy as np
import pytest
from devices.host.backend import HostBackend, signatures

from caffelite.devices import Window
from caffelite.devices.formula import Formula
from caffelite.devices.gpu import GPU

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
    """A backend that keeps the sources of the kernels that are asked for."""

    def __init__(self):
        self.sources = set()

    def kernel(self, source, name):
        assert name in signatures(source)
        self.sources.add(source)


@functools.cache
def sources(dtype: str, huge: bool = False) -> list[str]:
    """The sources of every family of kernels and of a formula of each kind."""
    backend = Collector()
    dev = GPU(0, dtype, backend)
    scale = 1 << 24 if huge else 1
    dev.kernel("elementwise", "add", 100 * scale)
    dev.pooling("MAX", (scale, 1, 8, 8), (scale, 1, 4, 4), Window((2, 2), (2, 2)))
    dev.softmax(scale, 100, 1)
    dev.top_k(scale, 100, 1, 1)
    formula = Formula(ALL, ("x",), ("s",), ("k",))
    dev.map(formula, k=1)
    dev.sum(formula, k=1)
    both = Formula(f"y * ({ALL})", ("x", "y"), ("s",), ("k",))
    dev.channel_map(both, ("y",), scale, 100, 1, k=1)
    dev.channel_sum(both, ("y",), scale, 100, 1, k=1)
    rule = "g = g + decay * sign(w); h = mu * h + rate * g; w -= h"
    dev.updater(Formula(rule, ("w", "g", "h"), constants=("rate", "decay", "mu")), np.array([[0, 5]]), np.ones(1), np.ones(1))
    return sorted(backend.sources)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiles(compile_for, dtype, tmp_path):
    every = sources(dtype)
    assert len(every) == 9
    for source in every:
        compile_for(source, "sm_90", tmp_path)


def test_compiles_for_older_gpus_and_huge_arrays(compile_for, tmp_path):
    huge = [s for s in sources("float32", True) if "typedef long long idx" in s]
    assert len(huge) == 9
    for source in huge[:1] if compile_for is nvcc else huge:
        compile_for(source, "sm_80", tmp_path)


def test_a_mistake_is_found(compile_for, tmp_path):
    with pytest.raises(Exception, match="nowhere"):
        compile_for(sources("float32")[0] + "KERNEL wrong() { nowhere(); }", "sm_90", tmp_path)
