"""The CPU: NumPy arrays, BLAS for matrix products, Numba for what NumPy cannot fuse."""

import os

# Threads that spin between kernels win a few microseconds alone and lose a scheduler's tick to every process beside them.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from .device import CPU  # noqa: E402

__all__ = ["CPU"]
