"""NVIDIA GPUs: CuPy for memory and kernels, cuBLAS for matrix products, cuDNN for convolutions where it is
installed."""

from __future__ import annotations

from .device import GPU
from .hardware import header_folder, peaks
from .nccl import Sums, place
from .presence import present

__all__ = ["GPU", "Sums", "count", "describe", "header_folder", "peaks", "place", "present", "why_none"]


def count() -> int:
    """How many GPUs can be used; 0 where there is none, or CuPy or a driver is missing (``why_none`` says which)."""
    return _look()[0]


def why_none() -> str:
    """What is missing where ``count`` is 0, else nothing."""
    return _look()[1]


def _look() -> tuple[int, str]:
    from ...errors import CaffeliteError
    from .installation import cupy_module, device_count

    try:
        return device_count(cupy_module()), ""
    except CaffeliteError as mistake:
        return 0, str(mistake)


def describe(number: int) -> dict[str, str | int]:
    """What GPU ``number`` is, by the words that a device query prints. Errors: no CuPy, no driver, no such GPU."""
    from .hardware import describe

    return describe(number)
