"""Layers in the plainest NumPy: functions of bottoms and parameters that return the tops."""

import itertools
import math
import zlib

import numpy as np
import reference


def three(x, axis=1):
    """(N, C, P)."""
    return x.reshape(math.prod(x.shape[:axis]), x.shape[axis], -1)


def softmax(axis=1):
    return lambda x: [reference.softmax(three(x, axis)).reshape(x.shape)]


def log_loss(ignore=None, divisor=None, axis=1, top=2, weights=None):
    def oracle(x, t):
        prob = reference.softmax(three(x, axis))
        count = divisor(x, t) if divisor else None
        return [
            reference.log_loss(prob, t.reshape(prob.shape[0], -1), ignore, count, weights)[0],
            prob.reshape(x.shape),
        ][:top]

    return oracle


def smoothed_log_loss(smoothing, axis=1):
    """From the targets of all classes, as label smoothing is defined."""

    def oracle(x, t):
        prob = reference.softmax(three(x, axis))
        classes = prob.shape[1]
        target = np.eye(classes)[t.reshape(prob.shape[0], -1).astype(int)].transpose(0, 2, 1)
        target = (1 - smoothing) * target + smoothing / classes
        return [-(target * np.log(prob)).sum() / t.size]

    return oracle


def soft_log_loss(smoothing=0.0, divisor=len):
    """Of targets that are distributions over axis 1."""

    def oracle(x, t):
        prob = reference.softmax(three(x, 1))
        target = (1 - smoothing) * three(t, 1) + smoothing / prob.shape[1]
        return [-(target * np.log(prob)).sum() / divisor(x)]

    return oracle


def accuracy(ignore=None, top_k=1, axis=1):
    return lambda x, t: list(
        reference.accuracy(three(x, axis), t.reshape(three(x, axis).shape[0], -1), top_k, ignore)[:2]
    )


def cross_entropy(divisor, ignore=None):
    def oracle(x, t):
        each = np.where(np.trunc(t) == ignore, 0, np.logaddexp(0, x) - x * t)
        return [each.sum() / divisor(x, t)]

    return oracle


def weighted_cross_entropy(weights, divisor, ignore=None):
    """weights: of the positive targets, by axis 1."""

    def oracle(x, t):
        w = np.reshape(weights, (1, -1, *[1] * (x.ndim - 2))) if x.ndim > 1 else np.array(weights)
        each = w * t * np.logaddexp(0, -x) + (1 - t) * np.logaddexp(0, x)
        return [np.where(np.trunc(t) == ignore, 0, each).sum() / divisor(x, t)]

    return oracle


def inner_product(axis=1, transpose=False):
    def oracle(x, w, b=0.0):
        flat = x.reshape(math.prod(x.shape[:axis]), -1)
        return [(flat @ (w if transpose else w.T) + b).reshape(*x.shape[:axis], -1)]

    return oracle


def convolution(window, groups=1):
    return lambda x, w, b=None: [reference.convolution(x, w, b, window, groups)]


def pooling(method, window):
    return lambda x: [reference.pooling(method, x, window)[0]]


def places(kernel):
    return itertools.product(*map(range, kernel))


def correlation(window, groups=1):
    """Convolution over any number of spatial axes: a sum over the kernel's places."""

    def oracle(x, w, b=None):
        kernel, stride, pad, dilation = window
        padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in pad)))
        out = [
            (n - d * (k - 1) - 1) // s + 1
            for n, k, s, d in zip(padded.shape[2:], kernel, stride, dilation, strict=True)
        ]
        y, part, share = np.zeros((len(x), len(w), *out)), w.shape[1], len(w) // groups
        for place in places(kernel):
            starts = [k * d for k, d in zip(place, dilation, strict=True)]
            seen = padded[
                (..., *(slice(i, i + (o - 1) * s + 1, s) for i, o, s in zip(starts, out, stride, strict=True)))
            ]
            for g in range(groups):
                rows = slice(g * share, (g + 1) * share)
                y[:, rows] += np.einsum(
                    "nc...,mc->nm...", seen[:, g * part : (g + 1) * part], w[(rows, slice(None), *place)]
                )
        return [y if b is None else y + b.reshape(-1, *[1] * len(kernel))]

    return oracle


def transposed(window, groups=1):
    """Deconvolution over any number of spatial axes: every input stamps the kernel onto the output."""

    def oracle(x, w, b=None):
        kernel, stride, pad, dilation = window
        sizes = list(zip(x.shape[2:], kernel, stride, dilation, strict=True))
        part, share = x.shape[1] // groups, w.shape[1]
        y = np.zeros((len(x), share * groups, *((n - 1) * s + d * (k - 1) + 1 for n, k, s, d in sizes)))
        for place in places(kernel):
            spot = [slice(i * d, i * d + (n - 1) * s + 1, s) for i, (n, _, s, d) in zip(place, sizes, strict=True)]
            for g in range(groups):
                rows = slice(g * part, (g + 1) * part)
                stamp = np.einsum("nc...,cm->nm...", x[:, rows], w[(rows, slice(None), *place)])
                y[(slice(None), slice(g * share, (g + 1) * share), *spot)] += stamp
        y = y[(..., *(slice(p, n - p) for p, n in zip(pad, y.shape[2:], strict=True)))]
        return [y if b is None else y + b.reshape(-1, *[1] * len(kernel))]

    return oracle


def columns(window):
    count = math.prod(window.kernel)
    return lambda x: correlation(window)(x, np.eye(x.shape[1] * count).reshape(-1, x.shape[1], *window.kernel))


def winners(window):
    def oracle(x):
        y, index = reference.pooling("MAX", x, window)
        return [y, index]

    return oracle


def drawn(window):
    return lambda x: [reference.stochastic_pooling(x, window, 1, zlib.crc32(b"layer"), 0, 0)[0]]


def pyramid(method, *windows):
    return lambda x: [np.concatenate([reference.pooling(method, x, w)[0].reshape(len(x), -1) for w in windows], 1)]


def volumes(of, kernel, stride, pad=0, past=0):
    """``of`` each window over (L, H, W); images are padded by ``pad`` zeros. past: by how many columns the last windows
    leave the padded image along W, which they are cut to."""

    def oracle(x):
        padded = np.pad(x, ((0, 0), (0, 0), (0, 0), (pad, pad), (pad, pad)))
        sizes = padded.shape[2:]
        counts = [-(-(n - k) // s) + 1 for n, k, s in zip(sizes, kernel, stride, strict=True)]
        assert (counts[2] - 1) * stride[2] + kernel[2] - sizes[2] == past
        actual = np.empty((*x.shape[:2], *counts))
        for place in places(counts):
            window = tuple(slice(i * s, i * s + k) for i, k, s in zip(place, kernel, stride, strict=True))
            actual[(..., *place)] = of(padded[(..., *window)], (2, 3, 4))
        return [actual]

    return oracle


def hinge(power):
    def oracle(x, t):
        x = x.reshape(len(x), -1)
        side = np.where(np.arange(x.shape[1]) == t[:, None], -1, 1)
        return [(np.maximum(1 + side * x, 0) ** power).sum() / len(x)]

    return oracle


def contrastive(apart):
    def oracle(a, b, alike):
        d = np.sqrt(((a - b) ** 2).sum(1))
        return [np.where(alike != 0, d * d, apart(d)).sum() / 2 / len(a)]

    return oracle


def infogain(divisor, axis=1):
    def oracle(x, t, h):
        prob, h = reference.softmax(three(x, axis)), h.reshape(x.shape[axis], -1)
        total = 0.0
        for (n, p), label in np.ndenumerate(t.reshape(prob.shape[0], -1)):
            if label < len(h):
                total -= (h[int(label)] * np.log(prob[n, :, p])).sum()
        return [total / divisor(x, t), prob.reshape(x.shape)]

    return oracle


def smooth(d):
    return np.where(np.abs(d) < 1, d * d / 2, np.abs(d) - 0.5)


def normalized(x, axes, eps, root=True):
    """Less its mean over axes, by its deviation there; eps under the root, or outside it."""
    centered = x - x.mean(axes, keepdims=True)
    variance = (centered**2).mean(axes, keepdims=True)
    return [centered / (np.sqrt(variance + eps) if root else np.sqrt(variance) + eps)]


def unit(x, axes, eps):
    return x / np.sqrt((x**2).sum(axes, keepdims=True) + eps)


def within(x, size, alpha, beta):
    squares = np.pad(x**2, ((0, 0), (0, 0), *[((size - 1) // 2,) * 2] * 2))
    mean = np.lib.stride_tricks.sliding_window_view(squares, (size, size), (2, 3)).mean((-2, -1))
    return [x * (1 + alpha * mean) ** -beta]
