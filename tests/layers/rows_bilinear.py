"""Rows of the table of layers: bilinear pooling."""

from __future__ import annotations

import numpy as np
from layer_row import IMAGE, Row, off_kinks


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
        'netvlad_param { cluster_num: 3 local_dim: 4 vlad_dim: 12 weight_filler { type: "gaussian" } }',
        [((2, 3, 6, 5), off_kinks), (IMAGE, off_kinks)],
        residuals,
    ),
    Row("Intranorm", "intranorm_param { cluster_num: 3 }", [((2, 12), off_kinks)], unit_thirds),
    Row(
        "Spfilter",
        "",
        [(IMAGE, off_kinks), ((2, 3, 6, 5), off_kinks), ((2, 1, 6, 5), off_kinks)],
        lambda a, b, s: [a * s, b * s],
        tops=2,
    ),
    Row("SignedSqrt", "", [(IMAGE, off_kinks)], lambda x: [np.sign(x) * np.sqrt(abs(x))], exact=False),
    Row("L2Normalize", "", [(IMAGE, off_kinks)], unit(1e-7)),
    Row("NormalizationL2", "", [((3, 4), off_kinks)], unit(0)),
    Row(
        "SumPooling",
        "sum_pooling_param { pool: SUM kernel_h: 2 kernel_w: 3 stride: 2 pad: 1 }",
        [(IMAGE, off_kinks)],
        summed,
    ),
    Row(
        "SumPooling",
        "sum_pooling_param { pool: SUM global_pooling: true }",
        [(IMAGE, off_kinks)],
        lambda x: [x.sum((2, 3), keepdims=True)],
        name="of images",
    ),
]
