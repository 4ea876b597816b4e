"""Numba's options for kernels: cached on disk, without the GIL, with NumPy's division."""

from typing import Any

# Nobody calls kernels as C functions.
SERIAL: dict[str, Any] = dict(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True)
