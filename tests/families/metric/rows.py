"""Rows of the table of layers: metric learning."""

import itertools

import numpy as np
from layers.layer_row import Row, labels
from textnet import BATCH


def triplets(margin):
    def oracle(a, p, n):
        gaps = [margin + ((a[i] - p[i]) ** 2).sum() - ((a[i] - n[i]) ** 2).sum() for i in range(len(a))]
        return [np.maximum(gaps, 0).sum() / 2 / len(a)]

    return oracle


def lifted(margin):
    def oracle(x, label):
        terms = []
        for i, j in itertools.combinations(range(len(x)), 2):
            others = [
                np.exp(margin - np.linalg.norm(x[k] - x[m])) for k in (i, j) for m in np.flatnonzero(label != label[k])
            ]
            if label[i] == label[j] and others:
                terms.append(max(0, np.linalg.norm(x[i] - x[j]) + np.log(sum(others))) ** 2)
        return [np.mean(terms) / 2 if terms else 0.0]

    return oracle


def hashing(margin, tradeoff, similar):
    def oracle(x, label):
        pairs = itertools.combinations(range(len(x)), 2)
        squares = [(((x[i] - x[j]) ** 2).sum(), similar(label[i], label[j])) for i, j in pairs]
        near = sum(d if same else max(margin - d, 0) for d, same in squares) / max(1, len(x) * (len(x) - 1))
        return [near + tradeoff * np.abs(np.abs(x) - 1).sum() / len(x)]

    return oracle


ROWS = [
    Row("TripletLoss", "margin: 0.5", triplets(0.5), [(6, 2, 2), (6, 2, 2), (6, 2, 2)]),
    Row("TripletLoss of two", "", triplets(1), [BATCH, BATCH, BATCH]),
    Row("LiftedStructSimilaritySoftmaxLoss", "margin: 0.25", lifted(0.25), [(8, 3), ((8,), labels(3))]),
    Row("HashingLoss", "", hashing(1, float(np.float32(0.01)), np.equal), [(6, 2), ((6,), labels(2))], exact=False),
    Row(
        "HashingLoss of several labels",
        "bi_margin: 12 tradeoff: 0.5",
        hashing(12, 0.5, lambda a, b: a @ b > 0),
        [(5, 4, 1, 1), ((5, 3), labels(2))],
        exact=False,
    ),
]
