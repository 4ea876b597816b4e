"""NVIDIA GPUs: CuPy for memory and kernels, cuBLAS for matrix products, cuDNN for convolutions where it is installed."""

from __future__ import annotations

from .device import GPU

__all__ = ["GPU", "count", "describe"]


def count() -> int:
    """How many GPUs can be used; 0 where CuPy or a driver is missing (``describe`` says which)."""
    from ...errors import CaffeliteError
    from .backend import cupy_module, device_count

    try:
        return device_count(cupy_module())
    except CaffeliteError:
        return 0


def describe(number: int) -> dict[str, str | int]:
    """What GPU ``number`` is, by the words that a device query prints. Errors: no CuPy, no driver, no such GPU."""
    from .backend import describe

    return describe(number)
