"""The line that says why a first run is slow to start; when kernels are compiled again."""

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from caffelite import system
from caffelite.devices.cpu.formulas import map_kernel
from caffelite.devices.cpu.kernels import dense, settings
from caffelite.devices.cuda import installation
from caffelite.devices.formula import Formula
from caffelite.errors import CaffeliteError

PROGRAM = """
import logging
logging.basicConfig(level=logging.INFO, format="%(message)s")
from caffelite.devices import open_device
from caffelite.devices.formula import Formula
from caffelite.errors import CaffeliteError
dev = open_device()
x = dev.zeros(3)
for constant in (1, 2):
    dev.map(Formula(f"x + {constant}", ("x",)))(x, x)
print(x.tolist())
"""


@pytest.mark.slow
def test_compiling_is_reported_once_and_only_where_it_happens(tmp_path):
    environment = {**os.environ, "CAFFELITE_CACHE": str(tmp_path)}
    for reported in (1, 0):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == "[3.0, 3.0, 3.0]\n"
        assert done.stderr.count("Compiling kernels for this processor") == reported


def test_kernels_are_compiled_again_when_an_import_changed(monkeypatch):
    formula = map_kernel(Formula("x + 1", ("x",)), "float32")

    def stamps():
        caches = [settings.KernelCache(kernel.py_func) for kernel in (dense.row_bias, formula)]
        return [cache._cache_file._source_stamp for cache in caches]

    before = stamps()
    assert stamps() == before
    monkeypatch.setattr(settings, "_sources", lambda: "changed")
    assert all(a != b for a, b in zip(stamps(), before, strict=True))


def kernel_files(folder):
    """The files of a kernel's machine code, as another process opens them."""
    return settings.KernelFiles(str(folder), "kernel", "stamp")


def test_code_that_processes_write_at_once_is_that_of_its_types(tmp_path):
    """Two processes compile a kernel for other types each: neither gets the other's code."""
    keys = [(f"types {i}", "processor", "source") for i in range(8)]
    with ThreadPoolExecutor(len(keys)) as pool:
        for i in range(20):
            folder = tmp_path / str(i)
            folder.mkdir()
            list(pool.map(lambda key, at=folder: kernel_files(at).save(key, key), keys))
            assert [kernel_files(folder).load(key) for key in keys] == keys


def test_code_of_other_sources_or_with_damage_is_not_loaded(tmp_path):
    key = ("types", "processor", "source")
    kernel_files(tmp_path).save(key, "code")
    assert settings.KernelFiles(str(tmp_path), "kernel", "other stamp").load(key) is None
    assert kernel_files(tmp_path).load(("other types", *key[1:])) is None
    assert kernel_files(tmp_path).load(key) == "code"
    (file,) = tmp_path.iterdir()
    of_an_old_version = b"ccaffelite.devices.cpu.kernels.settings\nGone\n."
    for damaged in (b"", b"no pickle", file.read_bytes()[:-3], of_an_old_version):
        file.write_bytes(damaged)
        assert kernel_files(tmp_path).load(key) is None


def test_a_kernel_that_another_process_compiles_is_waited_for(tmp_path):
    key, seen = ("types", "processor", "source"), []
    mine, other = kernel_files(tmp_path), kernel_files(tmp_path)

    def compile_it():
        other.claim(key)
        seen.append(other.load(key))
        other.release(key)

    mine.claim(key)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(compile_it)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.2)
        mine.save(key, "code")
        waiting.result(timeout=30)
    assert seen == ["code"]
    assert [path.suffix for path in tmp_path.iterdir()] == [".nbc"], "no lock is left"


def test_a_process_that_ended_in_a_compilation_holds_up_nobody(tmp_path):
    key = ("types", "processor", "source")
    code = f"""
from caffelite.devices.cpu.kernels.settings import KernelFiles
KernelFiles({str(tmp_path)!r}, "kernel", "stamp").claim({key!r})
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    files = kernel_files(tmp_path)
    files.claim(key)
    files.save(key, "code")
    assert files.load(key) == "code"


@pytest.mark.slow
def test_a_second_process_compiles_winograds_kernels(tmp_path):
    code = """
import json
from types import SimpleNamespace
from caffelite.devices.cpu import ahead
from caffelite.devices.cpu.kernels import winograd
from caffelite.devices.cpu.kernels.settings import is_compiled

names = "transform_weights", "convolve", "transform_images", "finish_weights"
kernels = [getattr(winograd, name) for name in names]
compiled = [[is_compiled(kernel) for kernel in kernels]]
for threads in 1, 2:
    ahead.begin(SimpleNamespace(threads=threads), 3)
    ahead.finish()
    compiled.append([is_compiled(kernel) for kernel in kernels])
print(json.dumps([compiled, sum(len(kernel.signatures) for kernel in kernels)]))
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[[False] * 4, [False] * 4, [True] * 4], 0], "not with one thread"


def test_a_full_disk_costs_the_next_run_time_and_no_more(tmp_path, monkeypatch):
    """Machine code that cannot be written is compiled again."""
    kernel_files(tmp_path / "missing").save(("types",), "code")
    assert kernel_files(tmp_path / "missing").load(("types",)) is None


@pytest.mark.parametrize(
    "limit", [{"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""}, {"NUMBA_CPU_NAME": "generic"}]
)
def test_registers_are_those_that_numba_compiles_for(limit):
    code = (
        "from caffelite.devices.processor import features; from caffelite.devices.cpu.kernels import direct; "
        "print(direct.has_registers(), direct.ROWS, len(features()))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_CPU_")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**environment, **limit}, capture_output=True, text=True, check=True)
    assert done.stdout == "False 6 0\n"


@pytest.mark.slow
def test_kernels_of_other_instructions_stay_beside_each_other(tmp_path):
    """Processes in one cache folder that use other instructions: each compiles once, and none gets another's code."""
    code = (
        "import numpy as np; from caffelite.devices.cpu.kernels.dense import row_bias as kernel; "
        "kernel(np.zeros((4, 8), np.float32), np.ones(8, np.float32), True, np.float32(0), False); "
        "print(sum(kernel.stats.cache_hits.values()))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    hits = []
    for limit in ({}, {"NUMBA_CPU_NAME": "generic"}) * 2:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env={**environment, **limit}, capture_output=True, text=True, check=True)
        hits.append((int(done.stdout), len(list(tmp_path.rglob("dense.row_bias*.nbc")))))
    assert hits == [(0, 1), (0, 2), (1, 2), (1, 2)]


@pytest.mark.slow
def test_compiled_kernels_load_without_numbas_registries():
    """They take half the start of a small command, and only a compilation needs them."""
    program = """
import sys
import caffelite
from caffelite.zoo import trained

net = caffelite.load("lenet_mnist")
print(net.classify(trained.find("lenet_mnist").pictures[7])[0].label, "numba.np.arrayobj" in sys.modules)
"""
    for _ in range(2):  # the first one compiles what is missing
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "7 False\n"


def test_code_is_loaded_from_a_folder_of_this_user_alone(tmp_path, monkeypatch):
    """Whatever the umask, and whoever made the folder."""
    monkeypatch.setenv("CAFFELITE_CACHE", str(tmp_path / "new/cache"))
    before = os.umask(0)
    try:
        folder = system.cache_folder()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for mode in (0o777, 0o770, 0o702):
        folder.chmod(mode)
        with pytest.raises(CaffeliteError, match=r"other users can write .*; expected mode 700.*CAFFELITE_CACHE"):
            system.cache_folder()
    folder.chmod(0o755)
    assert system.cache_folder() == folder
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(CaffeliteError, match="owned by you"):
        system.cache_folder()


def test_the_folder_of_a_gpus_kernels_is_private_too(tmp_path, monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "kernels"))
    folder = installation.kernel_cache()
    system.private_folder(folder, "CUPY_CACHE_DIR")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    with pytest.raises(CaffeliteError, match="other users can write .*CUPY_CACHE_DIR"):
        system.private_folder(folder, "CUPY_CACHE_DIR")
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    assert installation.kernel_cache() is None
