"""An LSTM over complete sequences. Sequences are independent, so each thread computes all steps of its sequences
without synchronization.

The gates' sums i, f, o, g of a sequence's step are a row of 4D, and become σ(i), σ(f), σ(o), tanh(g) in place.
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from .panels import half, multiply
from .parallel import body, launch
from .settings import kernel

# Products and sums may become one instruction; their order stays.
exact = kernel(fastmath={"contract"})
LOG2E = np.float32(1.4426950408889634)
LN2_HIGH, LN2_LOW = (
    np.float32(0.693359375),
    np.float32(-2.12194440054690583e-4),
)  # ln 2 = their sum; the first has few digits
ROUND = np.float32(3 << 22)  # x + ROUND has in its last bits the integer nearest to x
TAYLOR = tuple(np.float32(1 / math.factorial(n)) for n in (2, 3, 4, 5, 6, 7))


@exact
def _halvings(x):
    """n (integer), f (remainder) and 2^n (float32): e^x = 2^n e^f, |f| ≤ ln 2 / 2. The result does not depend on how
    NaN converts to an integer."""
    shifted = x * LOG2E + ROUND
    n = shifted - ROUND
    f = (x - n * LN2_HIGH) - n * LN2_LOW
    scale = np.int32((np.float32(shifted).view(np.int32) << np.int32(23)) + np.int32(0x3F800000)).view(np.float32)
    return f, scale


@exact
def _expm1_of_rest(f):
    a, b, c, d, e, g = TAYLOR
    return f + f * f * (a + f * (b + f * (c + f * (d + f * (e + f * g)))))


@exact
def _sigmoid32(x):
    """1 / (1 + e^-x) to 2 ulp, NaN for NaN."""
    z = -x
    z = np.float32(88) if z > np.float32(88) else z
    z = np.float32(-87) if z < np.float32(-87) else z
    f, scale = _halvings(z)
    return np.float32(1) / (np.float32(1) + (scale + scale * _expm1_of_rest(f)))


@exact
def _tanh32(x):
    """tanh x = -m / (m + 2), m = e^-2|x| - 1, with the sign of x, to 3 ulp; NaN for NaN."""
    z = np.float32(-2) * abs(x)
    z = np.float32(-30) if z < np.float32(-30) else z
    f, scale = _halvings(z)
    m = scale * _expm1_of_rest(f) + (scale - np.float32(1))
    return math.copysign(-m / (m + np.float32(2)), x)


def sigmoid(x):
    """σ of a number of either type, within kernels: of a float64 by the C library, of a float32 in a form that becomes
    a vector loop."""
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


# Passes over rows in the L1 cache, each over few arrays without aliases: LLVM vectorizes loops over arrays that do not
# overlap, and checks for overlap at run time only for a limited number of arrays.


@exact
def _sigmoids(x):
    for j in range(x.size):
        x[j] = sigmoid(x[j])


@exact
def _tanhs(x):
    for j in range(x.size):
        x[j] = tanh(x[j])


@exact
def _tanh_into(x, out):
    for j in range(x.size):
        out[j] = tanh(x[j])


@kernel
def _keep(k, x):
    """x = k x, 0 where k is 0 whatever x is."""
    if k == 0:
        x[:] = 0
    else:
        for j in range(x.size):
            x[j] *= k


def factor(x, like):
    """A number as a product's factor of the type of ``like``, in kernels: itself, or rounded to half."""
    raise NotImplementedError


@overload(factor, inline="always")
def _factor(x, like):
    return (lambda x, like: half(x)) if like == types.uint16 else (lambda x, like: x)


@kernel
def _factors(k, x, out):
    """out = k x, 0 where k is 0 whatever x is, as factors."""
    if k == 0:
        out[:] = 0
    else:
        for j in range(out.size):
            out[j] = factor(k * x[j], out[j])


@kernel
def cell_forward(gates, k, before, c, h):
    """c (D) = k σ(f) before + σ(i) tanh(g), h = σ(o) tanh(c) from a row of gates' sums, k = 0: nothing of before."""
    d = c.size
    _sigmoids(gates[: 3 * d])
    _tanhs(gates[3 * d :])
    i, f, o, g = gates[:d], gates[d : 2 * d], gates[2 * d : 3 * d], gates[3 * d :]
    for j in range(d):
        c[j] = before[j]
    _keep(k, c)
    for j in range(d):
        c[j] = f[j] * c[j] + i[j] * g[j]
    _tanh_into(c, h)
    for j in range(d):
        h[j] *= o[j]


@kernel
def cell_backward(gates, k, before, c, dh, dc, dgates, spare):
    """dgates, a row: the gradient of the sums, from the activated gates; dc, the gradient of c from above, becomes that
    of before."""
    d, one = c.size, gates.dtype.type(1)
    i, f, o, g = gates[:d], gates[d : 2 * d], gates[2 * d : 3 * d], gates[3 * d :]
    di, df, do, dg = dgates[:d], dgates[d : 2 * d], dgates[2 * d : 3 * d], dgates[3 * d :]
    _tanh_into(c, spare)
    for j in range(d):
        dc[j] += dh[j] * o[j] * (one - spare[j] * spare[j])
    for j in range(d):
        do[j] = dh[j] * spare[j] * o[j] * (one - o[j])
    for j in range(d):
        di[j] = dc[j] * g[j] * i[j] * (one - i[j])
    for j in range(d):
        dg[j] = dc[j] * i[j] * (one - g[j] * g[j])
    if k == 0:
        df[:] = 0
        dc[:] = 0
    else:
        for j in range(d):
            dc[j] *= k * f[j]
        for j in range(d):
            df[j] = dc[j] * before[j] * (one - f[j])


@body
def _unit_forward(first, last, gates, cont, before, c, h):
    for n in range(first, last):
        cell_forward(gates[n], cont[n], before[n], c[n], h[n])


@kernel
def unit_forward(gates, cont, before, c, h):
    """cell_forward of N rows."""
    launch(_unit_forward, cont.size, (gates, cont, before, c, h))


@body
def _unit_backward(first, last, gates, cont, before, c, dh, dc, dgates, spare):
    for n in range(first, last):
        cell_backward(gates[n], cont[n], before[n], c[n], dh[n], dc[n], dgates[n], spare[n])


@kernel
def unit_backward(gates, cont, before, c, dh, dc, dgates, spare):
    """cell_backward of N rows; spare (N, D)."""
    launch(_unit_backward, cont.size, (gates, cont, before, c, dh, dc, dgates, spare))


@body
def _sequence_forward(begin, end, gates, cont, packed, hidden, c, h, last, threads):
    steps, n = cont.shape
    for thread in range(begin, end):
        lo, hi = thread * n // threads, (thread + 1) * n // threads
        for t in range(steps):
            goes_on = False
            for s in range(lo, hi):
                _factors(cont[t, s], h[t - 1, s] if t else last[s], hidden[t, s])
                goes_on |= cont[t, s] != 0
            if goes_on:
                multiply(hidden[t, lo:hi], packed, gates[t, lo:hi])
            for s in range(lo, hi):
                cell_forward(gates[t, s], cont[t, s], c[t, s], c[t + 1, s], h[t, s])


@kernel
def sequence_forward(gates, cont, packed, hidden, c, h, last, threads):
    """h (T, N, D) from gates (T, N, 4D), the other summands of the gates' sums, which become the activated gates.

    cont (T, N); packed: the weights of h; hidden (T, N, D) becomes cont · h before, as factors; c (T + 1, N, D), c[0]
    given; last (N, D): h before the first step.
    """
    launch(_sequence_forward, threads, (gates, cont, packed, hidden, c, h, last, threads))


@body
def _sequence_backward(first, last, gates, cont, packed, c, above, dh, dc, dgates, factors, spare, threads):
    steps, n = cont.shape
    for thread in range(first, last):
        lo, hi = thread * n // threads, (thread + 1) * n // threads
        for t in range(steps - 1, -1, -1):
            goes_on = False
            for s in range(lo, hi):
                if above is not None:
                    row, more = dh[s], above[t, s]
                    for j in range(row.size):
                        row[j] += more[j]
                cell_backward(gates[t, s], cont[t, s], c[t, s], c[t + 1, s], dh[s], dc[s], dgates[t, s], spare[s])
                if factors is not None:
                    _factors(gates.dtype.type(1), dgates[t, s], factors[s])
                goes_on |= cont[t, s] != 0
            dh[lo:hi] = 0
            if goes_on:
                if factors is None:
                    multiply(dgates[t, lo:hi], packed, dh[lo:hi])
                else:
                    multiply(factors[lo:hi], packed, dh[lo:hi])
            for s in range(lo, hi):
                _keep(cont[t, s], dh[s])


@kernel
def sequence_backward(gates, cont, packed, c, above, dh, dc, dgates, factors, spare, threads):
    """dgates (T, N, 4D): the gradients of the sums, from the activated gates.

    above (T, N, D): h's gradient, or None; dh, dc (N, D): those of the last states, which become those of the first's;
    factors (N, 4D): room for dgates' where they are halves, else None; spare (N, D).
    """
    launch(_sequence_backward, threads, (gates, cont, packed, c, above, dh, dc, dgates, factors, spare, threads))
