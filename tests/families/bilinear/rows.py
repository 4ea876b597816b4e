"""Rows of the table of layers: bilinear pooling."""

import numpy as np
from layers.layer_row import Row
from textnet import IMAGE


def unit(epsilon):
    def oracle(x):
        return [np.stack([sample / np.sqrt((sample**2).sum() + epsilon) for sample in x])]

    return oracle


def summed(x):
    y = np.zeros((*x.shape[:2], 4, 3))
    for i, j in np.ndindex(4, 3):
        top, left = 2 * i - 1, 2 * j - 1
        y[:, :, i, j] = x[:, :, max(top, 0) : top + 2, max(left, 0) : left + 3].sum((2, 3))
    return [y]


def residuals(a, x, c):
    y = np.zeros((len(a), *c.shape))
    for n, k, i, j in np.ndindex(a.shape):
        y[n, k] += a[n, k, i, j] * (x[n, :, i, j] + c[k])
    return [y.reshape(len(a), -1)]


def unit_thirds(x):
    parts = x.reshape(len(x), 3, -1)
    return [(parts / np.linalg.norm(parts, axis=2, keepdims=True)).reshape(x.shape)]


ROWS = [
    Row(
        "Netvlad",
        'cluster_num: 3 local_dim: 4 vlad_dim: 12 weight_filler { type: "gaussian" }',
        residuals,
        [(2, 3, 6, 5), IMAGE],
    ),
    Row("Intranorm", "cluster_num: 3", unit_thirds, [(2, 12)]),
    Row("Spfilter", "", lambda a, b, s: [a * s, b * s], [IMAGE, (2, 3, 6, 5), (2, 1, 6, 5)], tops=2),
    Row("SignedSqrt", "", lambda x: np.sign(x) * np.sqrt(abs(x)), exact=False),
    Row("L2Normalize", "", unit(1e-7)),
    Row("NormalizationL2", "", unit(0), [(3, 4)]),
    Row("SumPooling", "pool: SUM kernel_h: 2 kernel_w: 3 stride: 2 pad: 1", summed),
    Row("SumPooling of images", "pool: SUM global_pooling: true", lambda x: x.sum((2, 3), keepdims=True)),
]
