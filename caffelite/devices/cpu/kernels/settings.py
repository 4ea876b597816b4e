"""Numba's options for kernels: cached on disk, without the GIL, with NumPy's division."""

SERIAL = dict(nogil=True, cache=True, error_model="numpy")
PARALLEL = dict(**SERIAL, parallel=True)
