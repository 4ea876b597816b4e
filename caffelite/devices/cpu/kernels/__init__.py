"""The CPU's kernels: loops that NumPy cannot fuse, compiled by Numba. Arrays are C-contiguous; N, C, H, W and P
(positions) as usual."""
