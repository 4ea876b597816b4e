"""Matrix products split over threads, biases and their gradients."""

import numpy as np

from ..blas import gemm
from .parallel import loop
from .settings import kernel

COLUMNS = 128  # that one thread sums at a time


@kernel(fastmath={"reassoc"})
def _total(run):
    """The sum of a run; letting the order be the compiler's makes it a vector loop, the same on every call."""
    total = run.dtype.type(0)
    for i in range(run.size):
        total += run[i]
    return total


@loop("dy.shape[1]")
def channel_sums(first, last, dy, out, keep):
    """out (C) = [out +] the sum of dy (N, C, P) over N and P, runs in the array's type and their sum in float64."""
    for c in range(first, last):
        total = 0.0
        for n in range(dy.shape[0]):
            total += _total(dy[n, c])
        out[c] = total + (out[c] if keep else 0)


@loop("-(-out.size // COLUMNS)")
def column_sums(first, last, dy, out, keep):
    """out (N) = [out +] the sum of dy (M, N) over M in float64: channel_sums where a row is one number of each
    channel."""
    for t in range(first, last):
        lo, hi = t * COLUMNS, min((t + 1) * COLUMNS, out.size)
        # The float64 sums of a block of columns stay in the L1 cache while all rows pass by.
        totals = np.zeros(COLUMNS)
        for m in range(dy.shape[0]):
            row = dy[m, lo:hi]
            for j in range(row.size):
                totals[j] += row[j]
        for j in range(hi - lo):
            out[lo + j] = totals[j] + (out[lo + j] if keep else 0)


@loop("threads")
def panel_gemm(first, last, fn, trans_a, trans_b, m, n, k, a, lda, b, ldb, beta, c, ldc, threads, by_rows, real):
    """C = op(A) op(B) + beta C, each thread a panel of rows or of columns of C; a, b, c are addresses, real the bytes
    of a number."""
    row = 1 if trans_a else lda
    column = ldb if trans_b else 1
    for t in range(first, last):
        if by_rows:
            lo, hi = t * m // threads, (t + 1) * m // threads
            if hi > lo:
                gemm(
                    fn,
                    trans_a,
                    trans_b,
                    hi - lo,
                    n,
                    k,
                    a + lo * row * real,
                    lda,
                    b,
                    ldb,
                    beta,
                    c + lo * ldc * real,
                    ldc,
                )
        else:
            lo, hi = t * n // threads, (t + 1) * n // threads
            if hi > lo:
                gemm(fn, trans_a, trans_b, m, hi - lo, k, a, lda, b + lo * column * real, ldb, beta, c + lo * real, ldc)


@loop("y.shape[0]")
def row_bias(first, last, y, bias, biased, slope, rectified):
    """y (M, N) += bias (N), then leaky ReLU where rectified."""
    for i in range(first, last):
        for j in range(y.shape[1]):
            s = y[i, j] + (bias[j] if biased else y.dtype.type(0))
            y[i, j] = s if not rectified or s > 0 else slope * s
