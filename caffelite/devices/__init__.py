"""Devices: the same operations with the same names on a CPU (NumPy, BLAS, Numba) and on NVIDIA GPUs (CuPy).

A device allocates arrays and builds *operations*. An operation is built once, when a net is bound, for shapes that
never change (``dev.build(ops.Convolution(...))``). It then runs every iteration on the arrays that it receives; its
workspace belongs to the device. Devices do not depend on prototxts or layers. protocol.py defines the
interface, ops.py the operations.
"""

import threading
import weakref

from ..errors import CaffeliteError
from .window import Window

__all__ = ["PRECISIONS", "Window", "open_device"]


# The GPUs that a thread has opened, while somebody refers to them; threads compute at the same time and share none.
_opened = threading.local()
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")


def open_device(
    gpu: int | None = None,
    dtype: str = "float32",
    precision: str | None = None,
    deterministic: bool = False,
    eager: bool = False,
):
    """The CPU where ``gpu`` is None, else the GPU of that number.

    precision: see the device; None for its own, fp32 on a CPU and tf32 on a GPU. A CPU, which has no TF32, takes that
    for fp32. ``auto`` is bf16 where the device multiplies such numbers itself, else None; the device tells which it is.
    deterministic: equal runs to the last bit; on a CPU, no measured algorithms. eager: a GPU runs without
    CUDA graphs. A GPU that this thread has open in the same way is given again: its nets share streams and workspace.
    Errors: a precision that the device lacks.
    """
    if gpu is None:
        from .cpu import CPU

        if precision == "fp16":
            raise CaffeliteError("fp16 is for GPUs", found="the CPU", remedy="use -precision bf16, or -gpu 0")
        return CPU(dtype, "fp32" if precision in (None, "tf32") else precision, deterministic)
    from .cuda import GPU

    key = gpu, dtype, precision or "tf32", deterministic, "-eager" if eager else ""
    devices = _opened.__dict__.setdefault("devices", weakref.WeakValueDictionary())
    device = devices.get(key)
    if device is None:
        device = devices[key] = GPU(gpu, dtype, precision=key[2], deterministic=deterministic, eager=key[4])
    return device
