"""Winograd's kernels, compiled by a second process while this one compiles what runs before them. Numba compiles one
function of a process at a time."""

from __future__ import annotations

import atexit
import subprocess
import sys

import numpy as np

from ..algorithms import EXACT_TILE
from ..window import Window
from .kernels import winograd
from .kernels.settings import is_compiled

CHANNELS, SIDE = 16, 32
_compiling: list[subprocess.Popen] = []


def begin(device, size: int) -> None:
    """Compiles the kernels for windows of size², unless they are compiled already or this process has one thread."""
    if _compiling or device.threads == 1 or is_compiled(winograd.convolve):
        return
    words = [sys.executable, "-P", "-c", f"from {__name__} import compile_kernels; compile_kernels({size})"]
    nothing = subprocess.DEVNULL
    _compiling.append(subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing))
    atexit.register(_compiling[0].terminate)


def finish() -> None:
    """Waits for them: what is measured meanwhile would take longer."""
    for process in _compiling:
        process.wait()


def compile_kernels(size: int) -> None:
    """Those of images with more tiles than channels: few nets begin with others."""
    from .device import CPU
    from .winograd import WinogradConvolution

    shape, outputs = (1, CHANNELS, SIDE, SIDE), EXACT_TILE if size == 3 else 4
    op = WinogradConvolution(CPU(), shape, shape, Window((size, size), pad=(size // 2,) * 2), outputs)
    x, w, b = (np.zeros(s, np.float32) for s in (shape, (CHANNELS, CHANNELS, size, size), CHANNELS))
    op.forward(x, w, b, np.empty_like(x))
    if size == 3:
        op.weight_gradient(x, x, np.empty_like(w))
