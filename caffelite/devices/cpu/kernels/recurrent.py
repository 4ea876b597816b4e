"""An LSTM over whole sequences. Sequences know nothing of each other, so each thread takes some of them through all of time, and waits for
nobody.

The gates' sums i, f, o, g of a sequence's step are a row of 4D, and become σ(i), σ(f), σ(o), tanh(g), and at last their sums' gradients,
where they lie.
"""

import math

import numpy as np
from numba import njit, prange, types
from numba.extending import overload

from .panels import multiply
from .settings import PARALLEL, SERIAL

EXACT = dict(**SERIAL, fastmath={"contract"})  # products and sums may become one instruction; their order stays
LOG2E = np.float32(1.4426950408889634)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440054690583e-4)  # ln 2 = their sum; the first has few digits
ROUND = np.float32(3 << 22)  # x + ROUND has in its last bits the whole number next to x
TAYLOR = tuple(np.float32(1 / math.factorial(n)) for n in (2, 3, 4, 5, 6, 7))


@njit(**EXACT)
def _halvings(x):
    """n, f and 2^n as whole number, rest and float32: e^x = 2^n e^f, |f| ≤ ln 2 / 2. Nothing in it depends on what NaN is as an integer."""
    shifted = x * LOG2E + ROUND
    n = shifted - ROUND
    f = (x - n * LN2_HIGH) - n * LN2_LOW
    scale = np.int32((np.float32(shifted).view(np.int32) << np.int32(23)) + np.int32(0x3F800000)).view(np.float32)
    return f, scale


@njit(**EXACT)
def _expm1_of_rest(f):
    a, b, c, d, e, g = TAYLOR
    return f + f * f * (a + f * (b + f * (c + f * (d + f * (e + f * g)))))


@njit(**EXACT)
def _sigmoid32(x):
    """1 / (1 + e^-x) to 2 ulp, NaN for NaN."""
    z = -x
    z = np.float32(88) if z > np.float32(88) else z
    z = np.float32(-87) if z < np.float32(-87) else z
    f, scale = _halvings(z)
    return np.float32(1) / (np.float32(1) + (scale + scale * _expm1_of_rest(f)))


@njit(**EXACT)
def _tanh32(x):
    """tanh x = -m / (m + 2), m = e^-2|x| - 1, with the sign of x, to 3 ulp; NaN for NaN."""
    z = np.float32(-2) * abs(x)
    z = np.float32(-30) if z < np.float32(-30) else z
    f, scale = _halvings(z)
    m = scale * _expm1_of_rest(f) + (scale - np.float32(1))
    return math.copysign(-m / (m + np.float32(2)), x)


def sigmoid(x):
    """σ of a number of either type, within kernels: of a float64 by the C library, of a float32 in a form that becomes a vector loop."""
    raise NotImplementedError


def tanh(x):
    """tanh as ``sigmoid``."""
    raise NotImplementedError


@overload(sigmoid, inline="always")
def _sigmoid(x):
    return (lambda x: _sigmoid32(x)) if x == types.float32 else (lambda x: 1 / (1 + math.exp(-x)))


@overload(tanh, inline="always")
def _tanh(x):
    return (lambda x: _tanh32(x)) if x == types.float32 else (lambda x: math.tanh(x))


# Passes over rows that lie in the first-level cache, each of few arrays, since LLVM gives up on vectors where many might overlap.


@njit(**EXACT)
def _activate(row):
    """A row of gates from sums to activated ones."""
    d = row.size // 4
    for j in range(3 * d):
        row[j] = sigmoid(row[j])
    for j in range(3 * d, 4 * d):
        row[j] = tanh(row[j])


@njit(**EXACT)
def _tanh_into(x, out):
    for j in range(x.size):
        out[j] = tanh(x[j])


@njit(**SERIAL)
def _kept(k, x, out):
    """out = k x, 0 where k is 0 whatever x is."""
    if k == 0:
        out[:] = 0
    else:
        for j in range(out.size):
            out[j] = k * x[j]


@njit(**SERIAL)
def cell_forward(gates, k, before, c, h):
    """c (D) = k σ(f) before + σ(i) tanh(g), h = σ(o) tanh(c) from a row of gates' sums, k = 0: nothing of before."""
    _activate(gates)
    d = c.size
    i, f, o, g = gates[:d], gates[d : 2 * d], gates[2 * d : 3 * d], gates[3 * d :]
    _kept(k, before, c)
    for j in range(d):
        c[j] = f[j] * c[j] + i[j] * g[j]
    _tanh_into(c, h)
    for j in range(d):
        h[j] *= o[j]


@njit(**SERIAL)
def cell_backward(gates, k, before, c, dh, dc, spare):
    """A row of activated gates becomes the gradient of their sums; dc, the gradient of c from above, that of before. spare (D)."""
    d = c.size
    i, f, o, g = gates[:d], gates[d : 2 * d], gates[2 * d : 3 * d], gates[3 * d :]
    one = gates.dtype.type(1)
    _tanh_into(c, spare)
    for j in range(d):
        dc[j] += dh[j] * o[j] * (one - spare[j] * spare[j])
    for j in range(d):
        o[j] = dh[j] * spare[j] * o[j] * (one - o[j])
    for j in range(d):
        a, b = i[j], g[j]
        i[j] = dc[j] * b * a * (one - a)
        g[j] = dc[j] * a * (one - b * b)
    if k == 0:
        f[:] = 0
        dc[:] = 0
    else:
        for j in range(d):
            a = k * f[j] * dc[j]
            f[j] = a * before[j] * (one - f[j])
            dc[j] = a


@njit(**PARALLEL)
def unit_forward(gates, cont, before, c, h):
    """cell_forward of N rows."""
    for n in prange(cont.size):
        cell_forward(gates[n], cont[n], before[n], c[n], h[n])


@njit(**PARALLEL)
def unit_backward(gates, cont, before, c, dh, dc, spare):
    """cell_backward of N rows; spare (N, D)."""
    for n in prange(cont.size):
        cell_backward(gates[n], cont[n], before[n], c[n], dh[n], dc[n], spare[n])


@njit(**PARALLEL)
def sequence_forward(gates, cont, packed, hidden, c, h, last, threads):
    """h (T, N, D) from gates (T, N, 4D), what the sums take from elsewhere, which become the activated gates.

    cont (T, N); packed: the weights of h; hidden (T, N, D) becomes cont · h before; c (T + 1, N, D), c[0] given; last (N, D): h before
    the first step.
    """
    steps, n = cont.shape
    for thread in prange(threads):
        lo, hi = thread * n // threads, (thread + 1) * n // threads
        for t in range(steps):
            for s in range(lo, hi):
                _kept(cont[t, s], h[t - 1, s] if t else last[s], hidden[t, s])
            multiply(hidden[t, lo:hi], packed, gates[t, lo:hi])
            for s in range(lo, hi):
                cell_forward(gates[t, s], cont[t, s], c[t, s], c[t + 1, s], h[t, s])


@njit(**PARALLEL)
def sequence_backward(gates, cont, packed, c, above, judged, dh, dc, spare, threads):
    """gates (T, N, 4D) from activated ones to the gradients of their sums.

    above (T, N, D): h's gradient, empty unless judged; dh, dc (N, D): those of the last states, which become those of the first's;
    spare (N, D).
    """
    steps, n = cont.shape
    for thread in prange(threads):
        lo, hi = thread * n // threads, (thread + 1) * n // threads
        for t in range(steps - 1, -1, -1):
            for s in range(lo, hi):
                if judged:
                    row, more = dh[s], above[t, s]
                    for j in range(row.size):
                        row[j] += more[j]
                cell_backward(gates[t, s], cont[t, s], c[t, s], c[t + 1, s], dh[s], dc[s], spare[s])
            dh[lo:hi] = 0
            multiply(gates[t, lo:hi], packed, dh[lo:hi])
            for s in range(lo, hi):
                _kept(cont[t, s], dh[s], dh[s])
