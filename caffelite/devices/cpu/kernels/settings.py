"""Numba's options for kernels: cached on disk, without the GIL, with NumPy's division."""

from typing import Any

SERIAL: dict[str, Any] = dict(nogil=True, cache=True, error_model="numpy")
