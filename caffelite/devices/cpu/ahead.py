"""Winograd's kernels, compiled by a second process while this one compiles what runs before them. Numba compiles one
function of a process at a time."""

import atexit
import functools
import os
import subprocess

from ...system import HOME, environment, python
from .kernels import winograd
from .kernels.settings import is_compiled

_compiling: list[subprocess.Popen] = []
_compiled = functools.cache(is_compiled)


def begin(device, size: int) -> None:
    """Compiles the kernels for windows of size², unless they are compiled already or this process has one thread."""
    if _compiling or device.threads == 1 or _compiled(winograd.convolve):
        return
    start = f"from {__package__}.compile_winograd import main; import os; os.chdir({os.getcwd()!r}); main({size})"
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(
        python(start), stdin=nothing, stdout=nothing, stderr=nothing, cwd=HOME, env=environment()
    )
    _compiling.append(process)
    atexit.register(_compiling[0].terminate)


def finish() -> None:
    """Waits for them: what is measured meanwhile would take longer."""
    for process in _compiling:
        process.wait()
