"""Kernels for channels_last images (N, H, W, C): the innermost loops run along channels."""

import numpy as np
from numba import njit, types
from numba.extending import overload

from .panels import half
from .parallel import body, launch, loop
from .settings import kernel

FEW, PIECE = 4, 4096  # rows of x that are read together, and numbers of each that a task reads
BLOCK = 16  # rows and columns of a transposed tile: a cache line of float32


@body
def _transpose_few(first, last, x, y):
    columns = x.shape[2]
    pieces = -(-columns // PIECE)
    for t in range(first, last):
        n, lo = t // pieces, t % pieces * PIECE
        interleave(x[n], y[n], lo, min(columns, lo + PIECE))


@body
def _transpose(first, last, x, y):
    rows, columns = x.shape[1], x.shape[2]
    high, wide = -(-rows // BLOCK), -(-columns // BLOCK)
    for t in range(first, last):
        n, band = t // max(high, wide), t % max(high, wide)
        if high >= wide:
            lo, hi = band * BLOCK, min(rows, (band + 1) * BLOCK)
            for j in range(0, columns, BLOCK):
                _tile(x[n, lo:hi, j : j + BLOCK], y[n, j : j + BLOCK, lo:hi])
        else:
            lo, hi = band * BLOCK, min(columns, (band + 1) * BLOCK)
            for i in range(0, rows, BLOCK):
                _tile(x[n, i : i + BLOCK, lo:hi], y[n, lo:hi, i : i + BLOCK])


@kernel
def transpose(x, y):
    """y (N, B, A) = x (N, A, B) with its last axes swapped, tile by tile."""
    images, rows, columns = x.shape
    if rows <= FEW:
        launch(_transpose_few, images * -(-columns // PIECE), (x, y))
    else:
        launch(_transpose, images * max(-(-rows // BLOCK), -(-columns // BLOCK)), (x, y))


@kernel
def interleave(x, y, lo, hi):
    """y = x turned, of few rows, for the columns from ``lo`` to ``hi`` of x."""
    if x.shape[0] == 3:
        a, b, c = x[0], x[1], x[2]
        for j in range(lo, hi):
            y[j, 0] = a[j]
            y[j, 1] = b[j]
            y[j, 2] = c[j]
    else:
        for i in range(x.shape[0]):
            row = x[i]
            for j in range(lo, hi):
                y[j, i] = row[j]


@kernel
def _tile(x, y):
    for j in range(x.shape[1]):
        for i in range(x.shape[0]):
            y[j, i] = x[i, j]


@kernel
def _add(out, v):
    for c in range(out.size):
        out[c] += v[c]


@njit(inline="always")
def widen(x):
    """A bfloat16 number, a uint16, as a float32."""
    return np.uint32(np.uint32(x) << np.uint32(16)).view(np.float32)


def as_number(x):
    """x as the number that it is: a uint16 is a bfloat16."""


def as_element(x, like):
    """The number x as an array like ``like`` holds it: as bfloat16 in a uint16."""


@overload(as_number, inline="always")
def _as_number(x):
    return (lambda x: widen(x)) if x == types.uint16 else (lambda x: x)


@overload(as_element, inline="always")
def _as_element(x, like):
    return (lambda x, like: half(x)) if like.dtype == types.uint16 else (lambda x, like: x)


@kernel
def _square(x, out):
    for c in range(x.size):
        out[c] = as_number(x[c]) * as_number(x[c])


@kernel
def _product_over(a, b, s, out):
    for c in range(a.size):
        out[c] = as_number(a[c]) * as_number(b[c]) / s[c]


@kernel
def _sum_windows(padded, size, total):
    """total (C) = the sums of ``size`` neighbors, from the first one on."""
    channels = total.size
    if size == 5:  # everyone's, in one pass
        a, b, c = padded[:channels], padded[1 : channels + 1], padded[2 : channels + 2]
        d, e = padded[3 : channels + 3], padded[4 : channels + 4]
        for i in range(channels):
            total[i] = total.dtype.type(0) + a[i] + b[i] + c[i] + d[i] + e[i]
    else:
        total[:] = 0
        for d in range(size):
            _add(total, padded[d : d + channels])


@loop("space.shape[0]")
def lrn_forward(first, last, x, scale, y, size, share, k, beta, space):
    """scale = k + share · Σ x² over ``size`` channels around each of x (R, C), y = x · scale^-beta; y may be x.

    space (T, 2, C + size): workspace. x and y, and their gradients, may be bfloat16 numbers.
    """
    rows, channels, before = x.shape[0], x.shape[1], (size - 1) // 2
    for t in range(first, last):
        padded, total = space[t, 0], space[t, 1, :channels]
        middle = padded[before : before + channels]  # an index that might be negative prevents vectors
        padded[:] = 0
        for r in range(t * rows // space.shape[0], (t + 1) * rows // space.shape[0]):
            _square(x[r], middle)
            _sum_windows(padded, size, total)
            v, s, out = x[r], scale[r], y[r]
            for c in range(channels):
                s[c] = k + share * total[c]
            if beta == 0.75:
                for c in range(channels):
                    root = np.sqrt(s[c])
                    out[c] = as_element(as_number(v[c]) / (root * np.sqrt(root)), out)
            else:
                for c in range(channels):
                    out[c] = as_element(as_number(v[c]) * s[c] ** -beta, out)


@loop("space.shape[0]")
def lrn_backward(first, last, x, y, scale, dy, dx, size, factor, beta, space):
    """dx = dy · scale^-beta - factor · x · Σ dy·y / scale over the channels that see each; arrays (R, C), dx none of
    the others."""
    rows, channels = x.shape
    before = size - 1 - (size - 1) // 2
    for t in range(first, last):
        padded, total = space[t, 0], space[t, 1, :channels]
        middle = padded[before : before + channels]  # an index that might be negative prevents vectors
        padded[:] = 0
        for r in range(t * rows // space.shape[0], (t + 1) * rows // space.shape[0]):
            v, s, a, out = x[r], scale[r], dy[r], dx[r]
            _product_over(a, y[r], s, middle)
            _sum_windows(padded, size, total)
            if beta == 0.75:
                for c in range(channels):
                    root = np.sqrt(s[c])
                    slope = as_number(a[c]) / (root * np.sqrt(root))
                    out[c] = as_element(slope - factor * as_number(v[c]) * total[c], out)
            else:
                for c in range(channels):
                    out[c] = as_element(as_number(a[c]) * s[c] ** -beta - factor * as_number(v[c]) * total[c], out)


@kernel
def _copy(source, target):
    for c in range(target.size):
        target[c] = source[c]


@loop("part.shape[0]")
def copy_into(first, last, part, whole, start):
    """whole[:, start : start + S] = part, of whole (R, T) and part (R, S)."""
    for r in range(first, last):
        _copy(part[r], whole[r, start : start + part.shape[1]])


@loop("part.shape[0]")
def copy_out(first, last, whole, start, part):
    """part = whole[:, start : start + S], of whole (R, T) and part (R, S)."""
    for r in range(first, last):
        _copy(whole[r, start : start + part.shape[1]], part[r])


@loop("part.shape[0]")
def sum_columns(first, last, a, b, c, d, count, start, part):
    """part (R, S) = the sum of the columns from ``start`` on of the first ``count`` arrays (R, T), 2 to 4."""
    width = part.shape[1]
    for r in range(first, last):
        out, stop = part[r], start + width
        u, v, w, x = a[r, start:stop], b[r, start:stop], c[r, start:stop], d[r, start:stop]
        if count == 2:
            for j in range(width):
                out[j] = u[j] + v[j]
        elif count == 3:
            for j in range(width):
                out[j] = u[j] + v[j] + w[j]
        else:
            for j in range(width):
                out[j] = u[j] + v[j] + w[j] + x[j]


ROWS = 64  # rows that are added up in float32 before their sum joins that in float64
WIDE = 256  # columns whose partial sums a task joins


@body(distinct=True)
def _add_moments(begin, end, x, first, partial, rough):
    rows = x.shape[0]
    for t in range(begin, end):
        total, squares, a, b = partial[t, 0], partial[t, 1], rough[t, 0], rough[t, 1]
        total[:] = 0
        squares[:] = 0
        last = (t + 1) * rows // partial.shape[0]
        for start in range(t * rows // partial.shape[0], last, ROWS):
            a[:] = 0
            b[:] = 0
            stop = min(start + ROWS, last)
            single = stop - (stop - start) % 4
            for r in range(start, single, 4):
                x0, x1, x2, x3 = x[r], x[r + 1], x[r + 2], x[r + 3]
                for c in range(first.size):
                    v0, v1 = as_number(x0[c]) - first[c], as_number(x1[c]) - first[c]
                    v2, v3 = as_number(x2[c]) - first[c], as_number(x3[c]) - first[c]
                    # From left to right, as the loop over single rows adds: the sum does not depend on where fours
                    # begin.
                    a[c] = a[c] + v0 + v1 + v2 + v3
                    b[c] = b[c] + v0 * v0 + v1 * v1 + v2 * v2 + v3 * v3
            for r in range(single, stop):
                row = x[r]
                for c in range(first.size):
                    v = as_number(row[c]) - first[c]
                    a[c] += v
                    b[c] += v * v
            for c in range(first.size):
                total[c] += a[c]
                squares[c] += b[c]


@body
def _add_chunks(begin, end, partial):
    width = partial.shape[2]
    pieces = -(-width // WIDE)
    for k in range(begin, end):
        i, lo = k // pieces, k % pieces * WIDE
        hi = min(width, lo + WIDE)
        for t in range(1, partial.shape[0]):
            _add(partial[0, i, lo:hi], partial[t, i, lo:hi])


@kernel
def join_sums(partial, channels):
    """The first row of each partial[0] (F, k·C) = the sums of ``channels`` = C channels over partial (chunks, F,
    k·C)."""
    sums = partial[0]
    if partial.shape[0] > 1:
        launch(_add_chunks, sums.shape[0] * -(-sums.shape[1] // WIDE), (partial,))
    for i in range(sums.shape[0]):
        for k in range(channels, sums.shape[1], channels):
            _add(sums[i, :channels], sums[i, k : k + channels])


@kernel
def moments(x, first, partial, rough, mean, variance):
    """mean and variance (C) of rows, each k of which are a row of x (R, k·C).

    They are sums of x - a and of (x - a)², a the first row: one pass, without loss where a is near to the mean.
    Workspace: first (k·C), partial (chunks, 2, k·C) of float64, and rough like partial, of the numbers' type.
    """
    channels = mean.size
    rows = x.size // channels
    for i in range(first.size):
        first[i] = as_number(x[0, i % channels])
    launch(_add_moments, partial.shape[0], (x, first, partial, rough))
    join_sums(partial, channels)
    for c in range(channels):
        total, squares = partial[0, 0, c] / rows, partial[0, 1, c] / rows
        mean[c] = first[c] + total
        # Of equal numbers rounding leaves less than 0, whose root would be NaN.
        variance[c] = max(squares - total * total, 0.0)


@kernel
def running_moments(mean, variance, eps, keep, unbias, scale, means, variances, count):
    """scale = 1 / √(variance + eps); running sums: see ``BatchMoments``. One call for many short loops."""
    for c in range(mean.size):
        scale[c] = 1 / np.sqrt(variance[c] + eps)
        means[c] = means[c] * keep + mean[c]
        variances[c] = variances[c] * keep + unbias * variance[c]
    count[0] = count[0] * keep + 1
