"""Every kernel compiles by nvcc, without a warning, for the GPUs that it is meant for; nothing runs."""

import os
import shutil
import subprocess

import pytest
from kernel_resources import FAMILIES, FORMULAS, sources

from caffelite.devices.cuda.backend import SPIN

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")]


def nvcc(source, arch, folder):
    path = folder / "kernel.cu"
    path.write_text(source)
    command = ["nvcc", "-cubin", f"-arch={arch}", "-std=c++17", "-Werror", "all-warnings", "-o", os.devnull, path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("blob", ["float32", "uint16"])  # fp16: test_gpu_install.py
def test_compiles(blob, tmp_path):
    every = sources("float32", blob)
    assert len(every) == len(FAMILIES) + FORMULAS
    for source in every:
        nvcc(source, "sm_90", tmp_path)


@pytest.mark.parametrize("blob", ["float32", "uint16"])
def test_compiles_for_older_gpus_and_huge_arrays(blob, tmp_path):
    huge = [s for s in sources("float32", blob, True) if "typedef long long idx" in s]
    assert len(huge) == len(FAMILIES) + FORMULAS
    nvcc(huge[0], "sm_80", tmp_path)


def test_what_the_clock_waits_with_compiles(tmp_path):
    nvcc(SPIN, "sm_90", tmp_path)


def test_a_mistake_is_found(tmp_path):
    with pytest.raises(AssertionError, match="nowhere"):
        nvcc(sources("float32", "float32")[0] + "KERNEL wrong() { nowhere(); }", "sm_90", tmp_path)
