"""Rows of the table of layers: domain adaptation and metric learning."""

from __future__ import annotations

import itertools

import numpy as np
from layer_row import BATCH, IMAGE, Row, labels, off_kinks


def coral(a, b):
    cov = [np.cov(x, rowvar=False) if len(x) > 1 else np.zeros((x.shape[1],) * 2) for x in (a, b)]
    return [((cov[0] - cov[1]) ** 2).sum() / 4 / a.shape[1] ** 2]


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


ROWS = [
    Row(
        "GradientScaler", "gradient_scaler_param { lower_bound: 0.5 }", [(IMAGE, off_kinks)], lambda x: [x], exact=False
    ),
    Row("CORALLoss", "", [((6, 4), off_kinks), ((5, 4), off_kinks)], coral),
    Row("TripletLoss", "triplet_loss_param { margin: 0.5 }", [((6, 2, 2), off_kinks)] * 3, triplets(0.5)),
    Row("TripletLoss", "", [(BATCH, off_kinks)] * 3, triplets(1), name="of two"),
    Row(
        "LiftedStructSimilaritySoftmaxLoss",
        "lifted_struct_sim_softmax_loss_param { margin: 0.25 }",
        [((8, 3), off_kinks), ((8,), labels(3))],
        lifted(0.25),
        constant=(1,),
    ),
]
