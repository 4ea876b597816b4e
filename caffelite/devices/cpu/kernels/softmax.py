"""Softmax and its loss, over (N, C, P)."""

import numpy as np

from .parallel import loop
from .settings import kernel


@kernel
def softmax_rows(first, last, x, y):
    """The rows ``first`` to ``last`` of ``softmax_forward``."""
    for n in range(first, last):
        for p in range(x.shape[2]):
            # Without the maximum exp overflows from 89 on in float32; it cancels in the quotient.
            top = x[n, 0, p]
            for c in range(1, x.shape[1]):
                top = max(top, x[n, c, p])
            total = x.dtype.type(0)
            for c in range(x.shape[1]):
                e = np.exp(x[n, c, p] - top)
                y[n, c, p] = e
                total += e
            for c in range(x.shape[1]):
                y[n, c, p] /= total


@loop("x.shape[0]")
def softmax_forward(first, last, x, y):
    """y = exp(x - max) / sum over axis 1 of (N, C, P)."""
    softmax_rows(first, last, x, y)


@loop("y.shape[0]")
def softmax_backward(first, last, y, dy, dx):
    """dx = (dy - Σ dy·y) y over axis 1 of (N, C, P)."""
    for n in range(first, last):
        for p in range(y.shape[2]):
            dot = y.dtype.type(0)
            for c in range(y.shape[1]):
                dot += dy[n, c, p] * y[n, c, p]
            for c in range(y.shape[1]):
                dx[n, c, p] = (dy[n, c, p] - dot) * y[n, c, p]


@kernel
def softmax_loss_forward(x, prob, label, weights, ignore, ignoring, fixed, tiny, loss, divisor, bad, total, weight):
    """prob = softmax of x; loss[0] = -Σ weights[label] log max(prob[label], tiny) / divisor[0]; total[0] += weight ·
    loss[0]; divisor: ``fixed``, or the sum of the weights where it is negative (1 where that is 0).

    x, prob (N, C, P), label (N, P) as floats, weights (C). bad[0] keeps 1 + the place of the first label that is no
    class.
    """
    softmax_forward(x, prob)
    # Literals are float64: the losses of many pixels add up without the rounding of float32.
    summed, factors = 0.0, 0.0
    for n in range(prob.shape[0]):
        for p in range(prob.shape[2]):
            truth = label[n, p]
            if ignoring and truth == ignore:
                continue
            if not (0 <= truth < prob.shape[1]) or truth != np.floor(truth):
                if bad[0] == 0:
                    bad[0] = 1 + n * prob.shape[2] + p
                continue
            v = prob[n, int(truth), p]
            # NaN is not below tiny and stays: the loss has to show it.
            summed -= weights[int(truth)] * np.log(v if not v < tiny else tiny)
            factors += weights[int(truth)]
    divisor[0] = max(1.0, fixed) if fixed >= 0 else factors if factors > 0 else 1.0
    loss[0] = summed / divisor[0]
    total[0] += weight * loss[0]


@loop("prob.shape[0]")
def softmax_loss_backward(first, last, prob, label, weights, ignore, ignoring, dloss, divisor, dx):
    """dx = weights[label] · (prob - onehot(label)) · dloss / divisor; 0 where the label is ignored or no class."""
    scale = dloss[0] / divisor[0]
    for n in range(first, last):
        for p in range(prob.shape[2]):
            truth = label[n, p]
            if (ignoring and truth == ignore) or not (0 <= truth < prob.shape[1]):
                for c in range(prob.shape[1]):
                    dx[n, c, p] = 0
                continue
            weight = weights[int(truth)] * scale
            for c in range(prob.shape[1]):
                dx[n, c, p] = (prob[n, c, p] - (1 if c == truth else 0)) * weight
