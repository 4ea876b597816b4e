"""Finds CuPy, the NVIDIA driver and GPUs; what is missing or unsuitable is an error with its remedy."""

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path

from ...errors import CaffeliteError, missing_extra
from . import presence

ON_THE_CPU = "leave -gpu out to run on the CPU"


def requested_by(mistake: CaffeliteError, request: str, instead: str) -> CaffeliteError:
    """The error of a GPU that something other than -gpu requested. instead: what to do to run on the CPU."""
    named = "-gpu" in mistake.what
    what = mistake.what.replace("-gpu", request, 1) if named else f"{request}: {mistake.what}"
    other = re.sub(f"(, or )?{ON_THE_CPU}", "", mistake.remedy or "")
    return mistake.replaced(what=what, remedy=f"{other}{', or ' if other else ''}{instead}")


def driver_version() -> int | None:
    """The newest CUDA that the NVIDIA driver speaks, as 13000 for 13.0; None without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int(0)
    return version.value if driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def spelled(version: int) -> str:
    """A version of CUDA, as 13.0 for 13000."""
    return f"{version // 1000}.{version % 1000 // 10}"


def cupy_module(use: str = "-gpu"):
    """CuPy, imported; where it is missing, an error that says that there is no GPU, or names the extra that fits the
    driver."""
    try:
        import cupy
    except ImportError as mistake:
        if isinstance(mistake, ModuleNotFoundError) and mistake.name == "cupy":
            _check_presence(use)
            version = driver_version()
            raise missing_extra("cupy", "cuda12" if version and version < 13000 else "cuda13", use) from None
        raise CaffeliteError(f"{use}: CuPy is installed but cannot be loaded", found=first_line(mistake)) from mistake
    return cupy


def _check_presence(use: str) -> None:
    if not presence.present():
        raise CaffeliteError(f"{use}: this machine has no NVIDIA GPU", remedy=ON_THE_CPU if use == "-gpu" else None)


def device_count(cupy) -> int:
    """How many GPUs CUDA shows; an error that says what is missing where it shows none."""
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as mistake:
        _check_presence("-gpu")
        version = driver_version()
        if version is None:
            what, remedy = "no NVIDIA driver (libcuda.so.1 is missing)", f"install the driver, or {ON_THE_CPU}"
        else:
            what = f"a driver for CUDA {spelled(version)}: {mistake}"
            remedy = f"match the extra (cuda12, cuda13) with the driver, or {ON_THE_CPU}"
        raise CaffeliteError("no usable GPU", expected="an NVIDIA GPU", found=what, remedy=remedy) from None
    if count == 0:
        found, remedy = "a driver that shows none", "is CUDA_VISIBLE_DEVICES set to nothing?"
        raise CaffeliteError("no usable GPU", expected="an NVIDIA GPU", found=found, remedy=remedy)
    return count


def checked_number(number: int, count: int) -> int:
    if not 0 <= number < count:
        gpus = "1 GPU" if count == 1 else f"{count} GPUs"
        raise CaffeliteError(f"no GPU {number}", expected="0" if count == 1 else f"0 to {count - 1}", found=gpus)
    return number


def first_line(mistake: Exception) -> str:
    return (str(mistake).strip() or type(mistake).__name__).splitlines()[0]


def install_extra(cupy) -> str:
    """The command that installs what goes with this CuPy."""
    return f'pip install "caffelite[cuda{cupy.cuda.runtime.runtimeGetVersion() // 1000}]"'


def bring_libraries(cupy) -> str:
    return f"install CUDA's headers and libraries: {install_extra(cupy)}, or set CUDA_PATH to a CUDA toolkit"


def kernel_cache() -> Path | None:
    """Where CuPy keeps compiled kernels; None: in memory."""
    if os.environ.get("CUPY_CACHE_IN_MEMORY", "0") not in ("", "0"):
        return None
    return Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache")


@contextlib.contextmanager
def set_up(cupy, number: int) -> Iterator[None]:
    """Turns what CuPy raises while GPU ``number`` is set up, a kernel compiled and loaded included, into one line with
    the remedy."""
    try:
        yield
    except CaffeliteError:
        raise
    except MemoryError as mistake:
        remedy = "end the process that uses it (see nvidia-smi), or use another GPU"
        raise CaffeliteError(f"GPU {number} has no memory left", found=first_line(mistake), remedy=remedy) from mistake
    except OSError as mistake:
        what, remedy = "compiled CUDA kernels cannot be kept", "set CUPY_CACHE_DIR to a folder that can be written"
        raise CaffeliteError(what, found=first_line(mistake), remedy=remedy) from mistake
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as mistake:
        cuda = spelled(cupy.cuda.runtime.runtimeGetVersion())
        remedy = f"see by nvidia-smi whether it is free and healthy, and whether its driver fits CUDA {cuda}"
        raise CaffeliteError(f"GPU {number} cannot be set up", found=first_line(mistake), remedy=remedy) from mistake
    except Exception as mistake:  # CuPy's class for a library or header that is missing differs from version to version
        what, remedy = "CUDA kernels cannot be compiled", bring_libraries(cupy)
        raise CaffeliteError(what, found=first_line(mistake), remedy=remedy) from mistake


def check_capability(cupy, number: int, capability: tuple[int, int]) -> None:
    """Refuses a GPU that the CUDA of this CuPy no longer compiles for."""
    if cupy.cuda.runtime.runtimeGetVersion() >= 13000 and capability < (7, 5):
        what, found = f"GPU {number} is too old for CUDA 13", ".".join(map(str, capability))
        remedy = 'use CUDA 12: pip install "caffelite[cuda12]" in an environment without cupy-cuda13x'
        raise CaffeliteError(what, expected="compute capability 7.5 or more", found=found, remedy=remedy)
