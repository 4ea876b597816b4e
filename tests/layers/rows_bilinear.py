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


ROWS = [
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
