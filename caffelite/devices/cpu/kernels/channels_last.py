"""Kernels over images that lie channels last (N, H, W, C): their innermost loops run along channels."""

import numpy as np
from numba import njit, prange

from .settings import PARALLEL, SERIAL

BLOCK = 16  # rows and columns of a transposed tile: a cache line of float32


@njit(**PARALLEL)
def transpose(x, y):
    """y (N, B, A) = x (N, A, B) with its last axes swapped, tile by tile."""
    rows, columns = x.shape[1], x.shape[2]
    high, wide = -(-rows // BLOCK), -(-columns // BLOCK)
    bands = x.shape[0] * max(high, wide)
    for t in prange(bands):
        n, band = t // max(high, wide), t % max(high, wide)
        if high >= wide:
            lo, hi = band * BLOCK, min(rows, (band + 1) * BLOCK)
            for j in range(0, columns, BLOCK):
                _tile(x[n, lo:hi, j : j + BLOCK], y[n, j : j + BLOCK, lo:hi])
        else:
            lo, hi = band * BLOCK, min(columns, (band + 1) * BLOCK)
            for i in range(0, rows, BLOCK):
                _tile(x[n, i : i + BLOCK, lo:hi], y[n, lo:hi, i : i + BLOCK])


@njit(**SERIAL)
def _tile(x, y):
    for j in range(x.shape[1]):
        for i in range(x.shape[0]):
            y[j, i] = x[i, j]


@njit(**SERIAL)
def _add(out, v):
    for c in range(out.size):
        out[c] += v[c]


@njit(**SERIAL)
def _square(x, padded, before):
    for c in range(x.size):
        padded[before + c] = x[c] * x[c]


@njit(**SERIAL)
def _product_over(a, b, s, padded, before):
    for c in range(a.size):
        padded[before + c] = a[c] * b[c] / s[c]


@njit(**PARALLEL)
def lrn_forward(x, scale, y, size, share, k, beta, space):
    """scale = k + share · Σ x² over ``size`` channels around each of x (R, C), y = x · scale^-beta; y may be x.

    space (T, 2, C + size): workspace.
    """
    rows, channels, before = x.shape[0], x.shape[1], (size - 1) // 2
    for t in prange(space.shape[0]):
        padded, total = space[t, 0], space[t, 1, :channels]
        padded[:] = 0
        for r in range(t * rows // space.shape[0], (t + 1) * rows // space.shape[0]):
            _square(x[r], padded, before)
            total[:] = 0
            for d in range(size):
                _add(total, padded[d : d + channels])
            v, s, out = x[r], scale[r], y[r]
            for c in range(channels):
                s[c] = k + share * total[c]
            if beta == 0.75:
                for c in range(channels):
                    root = np.sqrt(s[c])
                    out[c] = v[c] / (root * np.sqrt(root))
            else:
                for c in range(channels):
                    out[c] = v[c] * s[c] ** -beta


@njit(**PARALLEL)
def lrn_backward(x, y, scale, dy, dx, size, factor, beta, space):
    """dx = dy · scale^-beta - factor · x · Σ dy·y / scale over the channels that see each; arrays (R, C), dx none of the others."""
    rows, channels = x.shape
    before = size - 1 - (size - 1) // 2
    for t in prange(space.shape[0]):
        padded, total = space[t, 0], space[t, 1, :channels]
        padded[:] = 0
        for r in range(t * rows // space.shape[0], (t + 1) * rows // space.shape[0]):
            v, s, a, out = x[r], scale[r], dy[r], dx[r]
            _product_over(a, y[r], s, padded, before)
            total[:] = 0
            for d in range(size):
                _add(total, padded[d : d + channels])
            if beta == 0.75:
                for c in range(channels):
                    root = np.sqrt(s[c])
                    out[c] = a[c] / (root * np.sqrt(root)) - factor * v[c] * total[c]
            else:
                for c in range(channels):
                    out[c] = a[c] * s[c] ** -beta - factor * v[c] * total[c]


@njit(**SERIAL)
def _copy(source, target):
    for c in range(target.size):
        target[c] = source[c]


@njit(**PARALLEL)
def copy_into(part, whole, start):
    """The columns of whole (R, T) from ``start`` on = part (R, S)."""
    for r in prange(part.shape[0]):
        _copy(part[r], whole[r, start : start + part.shape[1]])


@njit(**PARALLEL)
def copy_out(whole, start, part):
    """part (R, S) = the columns of whole (R, T) from ``start`` on."""
    for r in prange(part.shape[0]):
        _copy(whole[r, start : start + part.shape[1]], part[r])
