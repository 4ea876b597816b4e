"""Kernels that are compiled beforehand: by tools/compile_kernels.py, for runs with CAFFELITE_KERNELS."""

import sys
from types import SimpleNamespace

import compile_kernels
import pytest
from devices.host.cupy import CUDAError

from caffelite.devices.cuda import prepared


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs the tool on a compiler that fails on "wrong", and one net less."""
    monkeypatch.setattr(compile_kernels, "ProcessPoolExecutor", lambda jobs: Pool())
    monkeypatch.setattr(compile_kernels.kernel_resources, "every", lambda numbers: [f"kernel of {numbers}"])

    def code(source: str, architecture: str):
        if "wrong" in source:
            raise ValueError("kernel.cu(1): error:\nno such name")
        return f"{architecture}: {source}".encode(), ""

    monkeypatch.setattr(compile_kernels, "compiler", lambda: code)

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["compile_kernels.py", *map(str, words), "-nets"])
        return (compile_kernels.main(), *capsys.readouterr())

    return run


class Pool:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def map(self, function, work):
        return map(function, work)


def test_all_kernels_and_those_that_a_run_lacked(command, tmp_path, monkeypatch):
    """A run leaves the source of what was not there; the tool compiles it, and each kernel once."""
    monkeypatch.setenv("CAFFELITE_KERNELS", str(tmp_path))
    cupy = SimpleNamespace(RawModule=None)
    assert prepared.module(cupy, "a kernel of a run", "run", (9, 0)) is None
    status, out, _ = command(tmp_path, "-arch", "80,90")
    assert status == 0 and "12 kernels compiled, 0 were there, 0 failed" in out
    assert "0 kernels compiled, 12 were there, 0 failed" in command(tmp_path, "-arch", "80,90")[1]
    path = tmp_path / f"{prepared.key('a kernel of a run')}.90.cubin"
    assert path.read_text() == "90: a kernel of a run"

    class Module:
        def __init__(self, path):
            self.path = path

        def get_function(self, name):
            assert name == "run"

    cupy.RawModule = Module
    assert prepared.module(cupy, "a kernel of a run", "run", (9, 0)).path == str(path)
    assert prepared.module(cupy, "a kernel of a run", "run", (7, 5)) is None


def test_a_kernel_that_does_not_compile(command, tmp_path):
    (tmp_path / "some.cu").write_text("wrong")
    status, out, err = command(tmp_path)
    assert status == 1 and "5 kernels compiled, 0 were there, 1 failed" in out
    assert err.strip() == f"{prepared.key('wrong')}: kernel.cu(1): error: no such name"


def test_machine_code_that_the_driver_refuses_is_compiled_again(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("CAFFELITE_KERNELS", str(tmp_path))
    (tmp_path / f"{prepared.key('x')}.90.cubin").write_bytes(b"of a newer CUDA")

    class Module:
        def __init__(self, path):
            pass

        def get_function(self, name):
            raise CUDAError("CUDA_ERROR_INVALID_IMAGE")

    errors = SimpleNamespace(driver=SimpleNamespace(CUDADriverError=CUDAError))
    errors.runtime = SimpleNamespace(CUDARuntimeError=CUDAError)
    assert prepared.module(SimpleNamespace(RawModule=Module, cuda=errors), "x", "x", (9, 0)) is None
    assert "cannot be loaded (CUDA_ERROR_INVALID_IMAGE); the kernel is compiled" in caplog.text
