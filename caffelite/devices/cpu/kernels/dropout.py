"""Dropout, and the counter-based random words that it draws."""

import numpy as np
from numba import njit

from .parallel import body, launch
from .settings import SERIAL


@njit(**SERIAL)
def philox(c0, c1, c2, c3, k0, k1):
    """Philox 4×32, 10 rounds (Salmon et al. 2011): four random words from a counter and a key."""
    mask = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(c3)
    k0, k1 = np.uint64(k0), np.uint64(k1)
    for _ in range(10):
        a = c0 * np.uint64(0xD2511F53)
        b = c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (b >> np.uint64(32)) ^ c1 ^ k0, b & mask, (a >> np.uint64(32)) ^ c3 ^ k1, a & mask
        k0 = (k0 + np.uint64(0x9E3779B9)) & mask
        k1 = (k1 + np.uint64(0xBB67AE85)) & mask
    return c0, c1, c2, c3


@body
def _dropout_forward(first, last, x, mask, y, threshold, scale, low, high, stream, iteration, sample):
    zero = x.dtype.type(0)
    for n in range(first, last):
        width = x.shape[1]
        for quad in range((width + 3) // 4):
            words = philox(quad, sample + n, iteration, stream, low, high)
            for lane in range(min(4, width - 4 * quad)):
                i = 4 * quad + lane
                kept = words[lane] >= threshold
                mask[n, i] = kept
                y[n, i] = x[n, i] * scale if kept else zero


@njit(**SERIAL)
def dropout_forward(x, mask, y, threshold, scale, low, high, stream, iteration, sample):
    """y = x · scale where a random 32-bit word is at least threshold, else 0.

    x (N, D); row n draws from sample + n; low and high are the seed's words.
    """
    launch(_dropout_forward, x.shape[0], (x, mask, y, threshold, scale, low, high, stream, iteration, sample))


@body
def _dropout_forward_part(begin, end, x, mask, y, threshold, scale, low, high, stream, iteration, sample, first):
    zero = x.dtype.type(0)
    for n in range(begin, end):
        width = x.shape[1]
        for quad in range(first // 4, (first + width + 3) // 4):
            words = philox(quad, sample + n, iteration, stream, low, high)
            for lane in range(max(0, first - 4 * quad), min(4, first + width - 4 * quad)):
                i = 4 * quad + lane - first
                kept = words[lane] >= threshold
                mask[n, i] = kept
                y[n, i] = x[n, i] * scale if kept else zero


@njit(**SERIAL)
def dropout_forward_part(x, mask, y, threshold, scale, low, high, stream, iteration, sample, first):
    """The same for the columns from ``first`` on of a wider x."""
    launch(
        _dropout_forward_part, x.shape[0], (x, mask, y, threshold, scale, low, high, stream, iteration, sample, first)
    )


@body
def _dropout_backward(first, last, mask, dy, dx, scale):
    zero = dy.dtype.type(0)
    for i in range(first, last):
        dx[i] = dy[i] * scale if mask[i] else zero


@njit(**SERIAL)
def dropout_backward(mask, dy, dx, scale):
    """dx = dy · scale where mask, else 0 (flat)."""
    launch(_dropout_backward, dx.size, (mask, dy, dx, scale))


@body
def _uniform(first, last, out, start, width, low, high, stream, iteration, sample):
    for n in range(first, last):
        for quad in range((out.shape[1] + 3) // 4):
            words = philox(quad, sample + n, iteration, stream, low, high)
            for lane in range(min(4, out.shape[1] - 4 * quad)):
                out[n, 4 * quad + lane] = start + width * ((words[lane] + 0.5) / 4294967296.0)


@njit(**SERIAL)
def uniform(out, start, width, low, high, stream, iteration, sample):
    """Random numbers from start to start + width; out (N, D); row n draws from sample + n."""
    launch(_uniform, out.shape[0], (out, start, width, low, high, stream, iteration, sample))
