"""Dropout, and the counter-based random words that it draws."""

import numpy as np
from numba import njit

from .parallel import body, launch, loop
from .settings import kernel

TURNED = 32  # channels of a mask that are reordered together


@njit(forceinline=True)
def _round(c0, c1, c2, c3, k0, k1):
    """One round of Philox, and the keys of the next."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
    keys = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
    return (b >> half) ^ c1 ^ k0, b & mask, (a >> half) ^ c3 ^ k1, a & mask, keys[0], keys[1]


@njit(forceinline=True)
def philox(c0, c1, c2, c3, k0, k1):
    """Philox 4×32, 10 rounds (Salmon et al. 2011): four random words from a counter and a key.

    The rounds are written out, so that a loop over counters becomes one of vectors."""
    a, b, c, d, k, m = _round(np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(c3), np.uint64(k0), np.uint64(k1))
    a, b, c, d, k, m = _round(a, b, c, d, k, m)
    a, b, c, d, k, m = _round(a, b, c, d, k, m)
    a, b, c, d, k, m = _round(a, b, c, d, k, m)
    a, b, c, d, k, m = _round(a, b, c, d, k, m)
    a, b, c, d, k, m = _round(a, b, c, d, k, m)
    a, b, c, d, k, m = _round(a, b, c, d, k, m)
    a, b, c, d, k, m = _round(a, b, c, d, k, m)
    a, b, c, d, k, m = _round(a, b, c, d, k, m)
    a, b, c, d, k, m = _round(a, b, c, d, k, m)
    return a, b, c, d


@kernel
def _draw(mask, first, threshold, sample, iteration, stream, low, high):
    """mask (D): 1 where the random word of the sample's number ``first`` + i is at least threshold, else 0."""
    width = mask.size
    start = min(width, -first % 4)
    quads = (width - start) // 4
    quad = (first + start) // 4
    # A counter gives four words. A number has the word of its place in the sample, so that a device that has a part of
    # the sample draws what one device draws for the whole: incomplete fours at both ends are drawn one by one.
    for i in range(start):
        words = philox(first // 4, sample, iteration, stream, low, high)
        mask[i] = words[(first + i) % 4] >= threshold
    whole = mask[start : start + 4 * quads]
    for q in range(whole.size // 4):
        w0, w1, w2, w3 = philox(quad + q, sample, iteration, stream, low, high)
        whole[4 * q] = w0 >= threshold
        whole[4 * q + 1] = w1 >= threshold
        whole[4 * q + 2] = w2 >= threshold
        whole[4 * q + 3] = w3 >= threshold
    for i in range(start + 4 * quads, width):
        words = philox(quad + quads, sample, iteration, stream, low, high)
        mask[i] = words[(first + i) % 4] >= threshold


@kernel
def _scale_kept(mask, x, y, scale):
    """y = x · scale where mask, else 0. A loop over one array that it overwrites becomes one of vectors, a loop over
    two that may overlap does not."""
    zero = y.dtype.type(0)
    if x.ctypes.data == y.ctypes.data:
        for i in range(y.size):
            y[i] = y[i] * scale if mask[i] else zero
    else:
        for i in range(y.size):
            y[i] = x[i] * scale if mask[i] else zero


@kernel
def _turn(source, target, channels):
    """target (P, C) = source (C, P) with its axes swapped; some channels at a time, whose lines stay in the L1
    cache."""
    planes, rows = source.reshape(channels, source.size // channels), target.reshape(-1, channels)
    for low in range(0, channels, TURNED):
        some = planes[low : low + TURNED]
        for p in range(some.shape[1]):
            row = rows[p, low : low + TURNED]
            for c in range(some.shape[0]):
                row[c] = some[c, p]


@body
def _dropout_forward(
    begin, end, x, drawn, mask, y, channels, threshold, scale, low, high, stream, iteration, sample, first
):
    for n in range(begin, end):
        _draw(drawn[n], first, threshold, sample + n, iteration, stream, low, high)
        if channels:
            _turn(drawn[n], mask[n], channels)
        _scale_kept(mask[n], x[n], y[n], scale)


@kernel
def dropout_forward(x, drawn, mask, y, channels, threshold, scale, low, high, stream, iteration, sample, first):
    """y = x · scale where a random 32-bit word is at least threshold, else 0. mask (N, D): 1 and 0 there.

    x (N, D): the numbers from ``first`` on of the samples from ``sample`` on; low and high are the seed's words.
    channels: of channels_last images, whose words are drawn in the order of N×C×H×W, into drawn (N, D); 0 for other
    arrays, with the mask as ``drawn``.
    """
    args = x, drawn, mask, y, channels, threshold, scale, low, high, stream, iteration, sample, first
    launch(_dropout_forward, x.shape[0], args)


@loop("dx.size")
def dropout_backward(first, last, mask, dy, dx, scale):
    """dx = dy · scale where mask, else 0 (flat)."""
    _scale_kept(mask[first:last], dy[first:last], dx[first:last], scale)


@loop("out.shape[0]")
def uniform(first, last, out, start, width, low, high, stream, iteration, sample):
    """Random numbers from start to start + width; out (N, D); row n draws from sample + n."""
    for n in range(first, last):
        for quad in range((out.shape[1] + 3) // 4):
            words = philox(quad, sample + n, iteration, stream, low, high)
            for lane in range(min(4, out.shape[1] - 4 * quad)):
                out[n, 4 * quad + lane] = start + width * ((words[lane] + 0.5) / 4294967296.0)
