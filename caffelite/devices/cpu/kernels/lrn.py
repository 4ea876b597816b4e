"""Local response normalization across channels, over (N, C, P)."""

import numpy as np

from .parallel import body, launch, loop
from .settings import kernel


@body
def _scales(first, last, x, scale, size, share, k):
    channels, before = x.shape[1], (size - 1) // 2
    for plane in range(first, last):
        n, c = plane // channels, plane % channels
        s = scale[n, c]
        s[:] = k
        for d in range(max(0, c - before), min(channels, c - before + size)):
            other = x[n, d]
            for p in range(s.size):
                s[p] += share * other[p] * other[p]


@body
def _lrn_forward(first, last, x, scale, y, beta):
    channels = x.shape[1]
    for plane in range(first, last):
        n, c = plane // channels, plane % channels
        v, s, out = x[n, c], scale[n, c], y[n, c]
        if beta == 0.75:  # everyone's, and two roots are vector instructions
            for p in range(s.size):
                root = np.sqrt(s[p])
                out[p] = v[p] / (root * np.sqrt(root))
        else:
            for p in range(s.size):
                out[p] = v[p] * s[p] ** -beta


@kernel
def lrn_forward(x, scale, y, size, share, k, beta):
    """scale = k + share · Σ x² over ``size`` channels around each, y = x · scale^-beta; y may be x."""
    planes = x.shape[0] * x.shape[1]
    launch(_scales, planes, (x, scale, size, share, k))
    launch(_lrn_forward, planes, (x, scale, y, beta))


@loop("x.shape[0] * x.shape[1]")
def lrn_backward(first, last, x, y, scale, dy, dx, size, factor, beta):
    """dx = dy · scale^-beta - factor · x · Σ dy·y / scale over the channels with a window over each; dx: no alias."""
    channels, before = x.shape[1], (size - 1) // 2
    for plane in range(first, last):
        n, c = plane // channels, plane % channels
        out = dx[n, c]
        # The channels whose windows cover c: for an even size they are not those of c's own window.
        out[:] = 0
        for d in range(max(0, c + before - size + 1), min(channels, c + before + 1)):
            a, b, s = dy[n, d], y[n, d], scale[n, d]
            for p in range(out.size):
                out[p] += a[p] * b[p] / s[p]
        v, a, s = x[n, c], dy[n, c], scale[n, c]
        if beta == 0.75:
            for p in range(out.size):
                root = np.sqrt(s[p])
                out[p] = a[p] / (root * np.sqrt(root)) - factor * v[p] * out[p]
        else:
            for p in range(out.size):
                out[p] = a[p] * s[p] ** -beta - factor * v[p] * out[p]
