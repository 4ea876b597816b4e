"""Pooling over planes (N·C, H, W)."""

import numpy as np

from .dropout import philox
from .parallel import loop
from .settings import kernel


@kernel
def _max_pair_row(x, plane, h0, y, index, oh):
    """One row of 2×2 windows at stride 2, the shape that compilers turn into vector instructions."""
    width = x.shape[2]
    above, below = x[plane, h0], x[plane, h0 + 1]
    start = h0 * width
    for ow in range(width // 2):
        best, where = above[2 * ow], start + 2 * ow
        v = above[2 * ow + 1]
        if v > best or v != v:
            best, where = v, start + 2 * ow + 1
        v = below[2 * ow]
        if v > best or v != v:
            best, where = v, start + width + 2 * ow
        v = below[2 * ow + 1]
        if v > best or v != v:
            best, where = v, start + width + 2 * ow + 1
        y[plane, oh, ow] = best
        index[plane, oh, ow] = where


@loop("x.shape[0]")
def max_pool_forward(first, last, x, y, index, kernel, stride, pad):
    """x (N·C, H, W) → y (N·C, OH, OW), index: the winner's place in its plane, the first of equals; NaN wins."""
    height, width = x.shape[1], x.shape[2]
    pairs = kernel == (2, 2) and stride == (2, 2) and pad == (0, 0) and width % 2 == 0
    for plane in range(first, last):
        for oh in range(y.shape[1]):
            h0 = oh * stride[0] - pad[0]
            if pairs and h0 + 1 < height:
                _max_pair_row(x, plane, h0, y, index, oh)
                continue
            h1 = min(h0 + kernel[0], height)
            h0 = max(h0, 0)
            for ow in range(y.shape[2]):
                w0 = ow * stride[1] - pad[1]
                w1 = min(w0 + kernel[1], width)
                w0 = max(w0, 0)
                best, where = x[plane, h0, w0], h0 * width + w0
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        v = x[plane, h, w]
                        if v > best or v != v:
                            best, where = v, h * width + w
                y[plane, oh, ow] = best
                index[plane, oh, ow] = where


@loop("dx.shape[0]")
def max_pool_backward(first, last, dy, index, dx):
    """dx (N·C, H, W) from dy and the winners' places (N·C, OH, OW)."""
    width = dx.shape[2]
    for plane in range(first, last):
        dx[plane] = 0
        for oh in range(dy.shape[1]):
            for ow in range(dy.shape[2]):
                at = index[plane, oh, ow]
                dx[plane, at // width, at % width] += dy[plane, oh, ow]


@kernel
def _average_window(o, kernel, stride, pad, size):
    """First and last input index of a window, and its length clipped to the padded image: what AVE divides by."""
    lo = o * stride - pad
    hi = min(lo + kernel, size + pad)
    return max(lo, 0), min(hi, size), hi - lo


@loop("x.shape[0]")
def average_pool_forward(first, last, x, y, kernel, stride, pad):
    """x (N·C, H, W) → y (N·C, OH, OW): sums over the image, divided by the window clipped to the padded image."""
    for plane in range(first, last):
        for oh in range(y.shape[1]):
            h0, h1, high = _average_window(oh, kernel[0], stride[0], pad[0], x.shape[1])
            for ow in range(y.shape[2]):
                w0, w1, wide = _average_window(ow, kernel[1], stride[1], pad[1], x.shape[2])
                total = x.dtype.type(0)
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        total += x[plane, h, w]
                y[plane, oh, ow] = total / x.dtype.type(high * wide)


@loop("dx.shape[0]")
def average_pool_backward(first, last, dy, dx, kernel, stride, pad):
    """dx (N·C, H, W): each dy (N·C, OH, OW) spread evenly over its window."""
    for plane in range(first, last):
        dx[plane] = 0
        for oh in range(dy.shape[1]):
            h0, h1, high = _average_window(oh, kernel[0], stride[0], pad[0], dx.shape[1])
            for ow in range(dy.shape[2]):
                w0, w1, wide = _average_window(ow, kernel[1], stride[1], pad[1], dx.shape[2])
                share = dy[plane, oh, ow] / dx.dtype.type(high * wide)
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        dx[plane, h, w] += share


@loop("x.shape[0]")
def stochastic_pool_forward(
    first, last, x, y, index, channels, kernel, stride, pad, low, high, stream, iteration, sample
):
    """x (N·C, H, W) → y (N·C, OH, OW): of a window the place (index) where its running sum reaches u·Σx, u in (0, 1];
    NaN wins.

    u is the first word that belongs to the output's place in sample ``sample`` + n; low and high are the seed's words.
    """
    width, size = x.shape[2], y.shape[1] * y.shape[2]
    for plane in range(first, last):
        for oh in range(y.shape[1]):
            h0 = oh * stride[0] - pad[0]
            h0, h1 = max(h0, 0), min(h0 + kernel[0], x.shape[1])
            for ow in range(y.shape[2]):
                w0 = ow * stride[1] - pad[1]
                w0, w1 = max(w0, 0), min(w0 + kernel[1], width)
                total = x.dtype.type(0)
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        total += x[plane, h, w]
                counter = plane % channels * size + oh * y.shape[2] + ow
                word = philox(counter, sample + plane // channels, iteration, stream, low, high)[0]
                least = x.dtype.type((np.float64(word) + 1) * 2.0**-32) * total
                reached, seen = False, x.dtype.type(0)
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        if not reached:  # the last of the window where rounding lets none reach
                            v = x[plane, h, w]
                            seen += v
                            reached = seen >= least or v != v
                            y[plane, oh, ow] = v
                            index[plane, oh, ow] = h * width + w


@loop("x.shape[0]")
def expected_pool_forward(first, last, x, y, kernel, stride, pad, tiny):
    """What stochastic pooling gives on average: Σx² / (tiny + Σx) over each window; x (N·C, H, W), y (N·C, OH, OW)."""
    for plane in range(first, last):
        for oh in range(y.shape[1]):
            h0 = oh * stride[0] - pad[0]
            h0, h1 = max(h0, 0), min(h0 + kernel[0], x.shape[1])
            for ow in range(y.shape[2]):
                w0 = ow * stride[1] - pad[1]
                w0, w1 = max(w0, 0), min(w0 + kernel[1], x.shape[2])
                total, squares = tiny, x.dtype.type(0)
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        total += x[plane, h, w]
                        squares += x[plane, h, w] * x[plane, h, w]
                y[plane, oh, ow] = squares / total
