"""Rows of the table of layers: volumes."""

import math

import numpy as np
from layers.layer_row import Row, distinct, share

VOLUME = (2, 3, 5, 6, 5)


def pooled(kernel, stride, pad, dilation):
    def oracle(x):
        reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
        size = [math.ceil((n + 2 * p - r) / s) + 1 for n, p, r, s in zip(x.shape[2:], pad, reach, stride, strict=True)]
        size = [
            count - (p > 0 and (count - 1) * s >= n + p)
            for count, p, s, n in zip(size, pad, stride, x.shape[2:], strict=True)
        ]
        y = np.full((*x.shape[:2], *size), -np.inf)
        for place in np.ndindex(*size):
            for step in np.ndindex(*kernel):
                at = [a * s - p + i * d for a, s, p, i, d in zip(place, stride, pad, step, dilation, strict=True)]
                if all(0 <= a < n for a, n in zip(at, x.shape[2:], strict=True)):
                    y[(..., *place)] = np.maximum(y[(..., *place)], x[(..., *at)])
        return [y]

    return oracle


def means(kernel, stride, pad, whole=True):
    """whole: divided by the window's size within the padded volume; or else by its size within the volume."""

    def oracle(x):
        axes = [*zip(x.shape[2:], kernel, stride, pad, strict=True)]
        size = [math.ceil((n + 2 * p - k) / s) + 1 for n, k, s, p in axes]
        size = [count - (any(pad) and (count - 1) * s >= n + p) for count, (n, _, s, p) in zip(size, axes, strict=True)]
        y = np.empty((*x.shape[:2], *size))
        for place in np.ndindex(*size):
            spans = [(i * s - p, min(i * s - p + k, n + p), n) for i, (n, k, s, p) in zip(place, axes, strict=True)]
            inside = [(max(first, 0), min(last, n)) for first, last, n in spans]
            count = math.prod(last - first for first, last, *_ in (spans if whole else inside))
            window = x[(..., *(slice(*span) for span in inside))]
            y[(..., *place)] = window.sum((2, 3, 4)) / count
        return [y]

    return oracle


ROWS = [
    Row(
        "Pooling of volumes",
        "kernel_size: 1 kernel_size: 3 kernel_size: 2 stride: 1 stride: 2 stride: 2",
        pooled((1, 3, 2), (1, 2, 2), (0, 0, 0), (1, 1, 1)),
        [(VOLUME, distinct)],
    ),
    Row(
        "Pooling of volumes by one kernel",
        "kernel_size: 3 stride: 2 pad: 1",
        pooled((3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
        [(VOLUME, distinct)],
    ),
    Row(
        "Pooling of whole volumes",
        "pool: AVE global_pooling: true",
        lambda x: x.mean((2, 3, 4), keepdims=True),
        [VOLUME],
    ),
    Row(
        "Pooling of volumes by means",
        "pool: AVE kernel_size: 2 kernel_size: 3 kernel_size: 2 stride: 2 pad: 0 pad: 1 pad: 0",
        means((2, 3, 2), (2, 2, 2), (0, 1, 0)),
        [VOLUME],
    ),
    Row(
        "Pooling of volumes without pads",
        "pool: AVE avg_include_pad: false kernel_size: 2 pad: 1",
        means((2, 2, 2), (1, 1, 1), (1, 1, 1), whole=False),
        [VOLUME],
    ),
    Row(
        "Pooling with gaps",
        "kernel_size: 2 pad: 1 dilation: 2 dilation: 1",
        pooled((2, 2), (1, 1), (1, 1), (2, 1)),
        [((2, 3, 6, 5), distinct)],
    ),
    Row(
        "EuclideanLoss with weights",
        "",
        lambda a, b, w: ((w * (a - b)) ** 2).sum() / 2 / len(a),
        [(2, 3, 4), (2, 3, 4), ((2, 3, 4), share)],
        constant=(2,),
        exact=False,
    ),
]
