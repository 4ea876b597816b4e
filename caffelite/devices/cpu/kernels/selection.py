"""Rows of a table by index, and the largest values."""

import numpy as np

from .parallel import body, launch, loop
from .settings import kernel

COLUMNS = 64  # that one thread sums at a time


@kernel
def _names_row(index, rows):
    """Whether a number is an integer from 0 to rows - 1."""
    return 0 <= index < rows and index == np.floor(index)


@body
def _take_forward(first, last, table, index, out):
    for i in range(first, last):
        if _names_row(index[i], table.shape[0]):
            target, source = out[i], table[int(index[i])]
            for w in range(target.size):  # an assignment of arrays takes two seconds to compile, for its error's text
                target[w] = source[w]
        else:
            out[i] = 0


@kernel
def take_forward(table, index, out, bad):
    """out (count, width) = the rows of table that index (count) names, 0 where there is none: bad[0] keeps 1 + the
    first such place."""
    for i in range(index.size):
        if bad[0] == 0 and not _names_row(index[i], table.shape[0]):
            bad[0] = 1 + i
    launch(_take_forward, index.size, (table, index, out))


@loop("-(-dtable.shape[1] // COLUMNS)")
def take_backward(first, last, index, dout, dtable, keep):
    """dtable [+]= the rows of dout (count, width), in order, each to the row that index names."""
    width = dtable.shape[1]
    # Threads share columns and not rows: what an index names twice is added in order, with the same bits on any number
    # of threads and without locks.
    for t in range(first, last):
        lo, hi = t * COLUMNS, min((t + 1) * COLUMNS, width)
        if not keep:
            dtable[:, lo:hi] = 0
        for i in range(index.size):
            if _names_row(index[i], dtable.shape[0]):
                target, source = dtable[int(index[i]), lo:hi], dout[i, lo:hi]
                for w in range(target.size):
                    target[w] += source[w]


@kernel
def _comes_first(a, i, b, j):
    """Whether a at place i is chosen before b at place j: the larger, the first of equals, NaN last."""
    if a != a:
        return b != b and i < j
    return b != b or a > b or (a == b and i < j)


@loop("values.shape[0] * values.shape[2]")
def top_k(begin, end, x, values, index):
    """The k largest over axis 1 of x (N, C, P) in order: values and index (N, k, P)."""
    n, k, width = values.shape
    for s in range(begin, end):
        i, p = s // width, s % width
        last, position = x[i, 0, p], -1
        # One pass for each of the k, in place of a sort: k is small, and no memory is taken.
        for j in range(k):
            best, where = last, -1
            for c in range(x.shape[1]):
                v = x[i, c, p]
                if (position < 0 or _comes_first(last, position, v, c)) and (
                    where < 0 or _comes_first(v, c, best, where)
                ):
                    best, where = v, c
            values[i, j, p] = best
            index[i, j, p] = where
            last, position = best, where


@loop("x.shape[0]")
def distances(first, last, x, w, y, squared):
    """y (M, N): Σ (x - w)² or Σ |x - w| of each row of x (M, K) and of w (N, K)."""
    for m in range(first, last):
        for n in range(w.shape[0]):
            total = x.dtype.type(0)
            if squared:
                for k in range(x.shape[1]):
                    d = x[m, k] - w[n, k]
                    total += d * d
            else:
                for k in range(x.shape[1]):
                    total += abs(x[m, k] - w[n, k])
            y[m, n] = total


@loop("x.shape[0]")
def distances_backward(first, last, x, w, dy, dx, squared, keep):
    """dx [+]= the gradient of x, of the distances (M, N) of x (M, K) and w (N, K); dy of any strides."""
    for m in range(first, last):
        if not keep:
            dx[m] = 0
        for n in range(w.shape[0]):
            g = dy[m, n]
            if squared:
                for k in range(x.shape[1]):
                    dx[m, k] += 2 * g * (x[m, k] - w[n, k])
            else:
                for k in range(x.shape[1]):
                    dx[m, k] += g * np.sign(x[m, k] - w[n, k])
