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
def _take_over(best, where, v, place):
    """Keeps the larger of best and v, channel by channel, and where it stood; the first of equals; NaN wins."""
    for c in range(best.size):
        if v[c] > best[c] or v[c] != v[c]:
            best[c] = v[c]
            where[c] = place


@njit(**PARALLEL)
def max_pool_forward(x, y, index, kernel, stride, pad):
    """x (N, H, W, C) → y (N, OH, OW, C), index: the winner's place in its window, i·kw + j."""
    height, width = x.shape[1], x.shape[2]
    rows = y.shape[1]
    for t in prange(x.shape[0] * rows):
        n, oh = t // rows, t % rows
        h0 = oh * stride[0] - pad[0]
        for ow in range(y.shape[2]):
            w0 = ow * stride[1] - pad[1]
            best, where = y[n, oh, ow], index[n, oh, ow]
            first = True
            for i in range(max(0, -h0), min(kernel[0], height - h0)):
                for j in range(max(0, -w0), min(kernel[1], width - w0)):
                    v = x[n, h0 + i, w0 + j]
                    if first:
                        best[:] = v
                        where[:] = i * kernel[1] + j
                        first = False
                    else:
                        _take_over(best, where, v, i * kernel[1] + j)


@njit(**SERIAL)
def _give(out, dy, where, place):
    for c in range(out.size):
        out[c] += dy[c] if where[c] == place else out.dtype.type(0)


@njit(**PARALLEL)
def max_pool_backward(dy, index, dx, kernel, stride, pad):
    """dx (N, H, W, C) from dy and the winners' places (N, OH, OW, C): each input asks the windows that see it, in order."""
    rows, columns = dy.shape[1], dy.shape[2]
    for t in prange(dx.shape[0] * dx.shape[1]):
        n, h = t // dx.shape[1], t % dx.shape[1]
        top, bottom = max(0, (h + pad[0] - kernel[0]) // stride[0] + 1), min(rows, (h + pad[0]) // stride[0] + 1)
        for w in range(dx.shape[2]):
            left, right = max(0, (w + pad[1] - kernel[1]) // stride[1] + 1), min(columns, (w + pad[1]) // stride[1] + 1)
            out = dx[n, h, w]
            out[:] = 0
            for oh in range(top, bottom):
                for ow in range(left, right):
                    place = (h + pad[0] - oh * stride[0]) * kernel[1] + w + pad[1] - ow * stride[1]
                    _give(out, dy[n, oh, ow], index[n, oh, ow], place)


@njit(**SERIAL)
def _add(out, v):
    for c in range(out.size):
        out[c] += v[c]


@njit(**SERIAL)
def _add_share(out, v, share):
    for c in range(out.size):
        out[c] += v[c] / share


@njit(**SERIAL)
def _length(o, kernel, stride, pad, size):
    """A window's length, clipped to the padded image: what AVE divides by."""
    return min(o * stride - pad + kernel, size + pad) - (o * stride - pad)


@njit(**PARALLEL)
def average_pool_forward(x, y, kernel, stride, pad):
    """x (N, H, W, C) → y (N, OH, OW, C): sums over the image, divided by the window clipped to the padded image."""
    height, width = x.shape[1], x.shape[2]
    rows = y.shape[1]
    for t in prange(x.shape[0] * rows):
        n, oh = t // rows, t % rows
        h0, high = oh * stride[0] - pad[0], _length(oh, kernel[0], stride[0], pad[0], height)
        for ow in range(y.shape[2]):
            w0, wide = ow * stride[1] - pad[1], _length(ow, kernel[1], stride[1], pad[1], width)
            out = y[n, oh, ow]
            out[:] = 0
            for h in range(max(0, h0), min(h0 + kernel[0], height)):
                for w in range(max(0, w0), min(w0 + kernel[1], width)):
                    _add(out, x[n, h, w])
            share = x.dtype.type(high * wide)
            for c in range(out.size):
                out[c] /= share


@njit(**PARALLEL)
def average_pool_backward(dy, dx, kernel, stride, pad):
    """dx (N, H, W, C): each dy (N, OH, OW, C) spread evenly over its window."""
    height, width = dx.shape[1], dx.shape[2]
    for t in prange(dx.shape[0] * height):
        n, h = t // height, t % height
        top, bottom = max(0, (h + pad[0] - kernel[0]) // stride[0] + 1), min(dy.shape[1], (h + pad[0]) // stride[0] + 1)
        for w in range(width):
            left, right = max(0, (w + pad[1] - kernel[1]) // stride[1] + 1), min(dy.shape[2], (w + pad[1]) // stride[1] + 1)
            out = dx[n, h, w]
            out[:] = 0
            for oh in range(top, bottom):
                high = _length(oh, kernel[0], stride[0], pad[0], height)
                for ow in range(left, right):
                    share = dx.dtype.type(high * _length(ow, kernel[1], stride[1], pad[1], width))
                    _add_share(out, dy[n, oh, ow], share)


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
