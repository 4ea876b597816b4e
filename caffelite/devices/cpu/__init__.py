"""The CPU: NumPy arrays, BLAS for matrix products, Numba for fused loops."""

import os

# Threads that spin while they wait are fastest on an idle machine, but lose a scheduler tick to every other process.
# Threads that sleep at once take longer to wake than a small kernel runs. So they spin for microseconds, then sleep.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from numba.core import config  # noqa: E402

# Numba reads this file of the working directory, which may name a folder of compiled code, whenever it compiles.
config._config_fname = ""  # which is no file
config.reload_config()

from .device import CPU  # noqa: E402

__all__ = ["CPU"]
