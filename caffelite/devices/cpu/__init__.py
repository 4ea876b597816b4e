"""The CPU: NumPy arrays, BLAS for matrix products, Numba for what NumPy cannot fuse."""

from .device import CPU

__all__ = ["CPU"]
