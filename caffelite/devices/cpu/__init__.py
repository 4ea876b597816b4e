"""The CPU: NumPy arrays, BLAS for matrix products, Numba for what NumPy cannot fuse."""

import os

# Threads that spin while they wait are faster alone, and lose a scheduler's tick to every process beside them; those
# that sleep at once take longer to wake than a small kernel runs. So they spin for some microseconds, and then sleep.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from .device import CPU  # noqa: E402

__all__ = ["CPU"]
