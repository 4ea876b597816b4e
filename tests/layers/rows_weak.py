"""Rows of the table of layers: weakly supervised detection."""

from __future__ import annotations

import numpy as np
from layer_row import IMAGE, Row, labels, off_kinks


def between(rng, shape):
    return 0.1 + 0.8 * rng.random(shape)


def points(rank):
    """Classes of pixels, objectness, the classes 2 and 1 of the image, weights."""

    def draw(rng, shape):
        maps = rng.integers(0, 4, shape).astype(float)
        maps[0, 0].flat[::2] = 255
        maps[0, 1] = rng.integers(0, 256, shape[2:])
        maps[0, 2] = 0
        maps[0, 2].flat[:2] = 2, 1
        if rank:
            maps[0, 3] = rng.integers(1, 256, shape[2:])
        return maps

    return draw


def expectation(rank=False, means=True):
    def oracle(x, label):
        e = np.exp(x[0])
        p = (e / e.sum(0)).reshape(len(e), -1)
        labels, objects, _, *weights = label[0].reshape(label.shape[1], -1)
        known = [j for j, k in enumerate(labels) if k != 255]
        unknown = [j for j, k in enumerate(labels) if k == 255]
        w = weights[0] / 255 if rank else np.ones(len(labels))
        q = 1 - (objects + 1) / 257
        terms = [
            (sum(np.log(p[c].max()) for c in (0, 1, 2)), 3),
            (sum(w[j] * np.log(p[int(labels[j]), j]) for j in known), sum(w[j] for j in known)),
            (sum(np.log(1 - p[c].max()) for c in range(3, len(p))), len(p) - 3),
            (sum(q[j] * np.log(p[0, j]) + (1 - q[j]) * np.log(1 - p[0, j]) for j in unknown), len(unknown)),
        ]
        return [-sum(term / count if means else term for term, count in terms), p.reshape(x.shape)]

    return oracle


SUMS = "normalize_supervised: false normalize_classes: false normalize_constraint: false normalize_objectness: false"

ROWS = [
    Row(
        "SoftmaxWithLossExpectation",
        "loss_param { ignore_label: 255 }",
        [((1, 5, 3, 4), off_kinks), ((1, 3, 3, 4), points(False))],
        expectation(),
        tops=2,
        constant=(1,),
    ),
    Row(
        "SoftmaxWithLossExpectation",
        f"loss_param {{ ignore_label: 255 ignore_rank: false {SUMS} }}",
        [((1, 5, 3, 4), off_kinks), ((1, 4, 3, 4), points(True))],
        expectation(True, False),
        tops=2,
        constant=(1,),
        name="with weights, summed",
    ),
    Row("GlobalSumPooling", "", [(IMAGE, off_kinks)], lambda x: [x.sum(0, keepdims=True)]),
    Row(
        "MulticlassCrossEntropyLoss",
        "",
        [((3, 4), between), ((3, 4), labels(2))],
        lambda p, t: [-np.where(t != 0, np.log(p), np.log(1 - p)).sum() / len(p)],
        constant=(1,),
        exact=False,
    ),
]
