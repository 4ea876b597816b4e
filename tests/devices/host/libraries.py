"""NVIDIA's libraries on a machine without a GPU: what tests of them need, and what they do where it is missing."""

import ctypes
import functools
import os
import subprocess
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

HERE = Path(__file__).parent


def lacking(what: str) -> NoReturn:
    """Skips a test whose library is missing; fails it where $CAFFELITE_CUDA names the extra that brings the library."""
    extra = os.environ.get("CAFFELITE_CUDA")
    if extra:
        pytest.fail(f"{what}, though the extra {extra} is installed")
    pytest.skip(what)


@functools.cache
def driver() -> None:
    """Loads a stand-in for the NVIDIA driver's library where there is none; libraries that link to it then load."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "libcuda.so.1"
            subprocess.run(
                ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", path, HERE / "libcuda.c"], check=True
            )
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)  # later loads find it by its soname
