"""Rows of the table of layers: domain adaptation and metric learning."""

import itertools

import numpy as np
from layer_row import Row, labels
from textnet import BATCH


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


def hashing(margin, tradeoff, similar):
    def oracle(x, label):
        pairs = itertools.combinations(range(len(x)), 2)
        squares = [(((x[i] - x[j]) ** 2).sum(), similar(label[i], label[j])) for i, j in pairs]
        near = sum(d if same else max(margin - d, 0) for d, same in squares) / max(1, len(x) * (len(x) - 1))
        return [near + tradeoff * np.abs(np.abs(x) - 1).sum() / len(x)]

    return oracle


def spread_kernels(rows, count, factor, rate=None):
    d = ((rows[:, None] - rows) ** 2).sum(2)
    rate = (d.size - len(d)) / d.sum() if rate is None else rate
    return sum(np.exp(-rate * factor ** (i - count // 2) * d) for i in range(count))


def discrepancy(kernel, n):
    m = len(kernel) - n
    if min(n, m) < 2:
        return [0.0]
    inner = [(k.sum() - np.trace(k)) / len(k) / (len(k) - 1) for k in (kernel[:n, :n], kernel[n:, n:])]
    return [sum(inner) - 2 * kernel[:n, n:].mean()]


def joint(s, t, p, q):
    kernel = spread_kernels(np.concatenate([s, t]), 5, 2)
    return discrepancy(kernel * spread_kernels(np.concatenate([p, q]), 2, 0.5, 1 / 1.5), len(s))


def entropy(x):
    e = np.exp(x - x.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    return [-(p * np.log(p)).sum() / (x.size / x.shape[1])]


ROWS = [
    Row(
        "MMDLoss",
        "kernel_num: 3 kernel_mul: 4",
        lambda s, t: discrepancy(spread_kernels(np.concatenate([s, t]), 3, 4), len(s)),
        [(5, 3), (4, 3)],
        exact=False,
    ),
    Row("JMMDLoss", "sigma: 1.5 label_kernel_num: 2", joint, [(5, 3), (4, 3), (5, 2), (4, 2)], exact=False),
    Row("EntropyLoss", "", entropy, [(4, 3, 2)]),
    Row(
        "EntropyLoss of probabilities",
        "threshold: 0.3",
        lambda p: -np.where(p < 0.3, 0, p * np.log(p)).sum() / len(p),
        [((4, 3), lambda rng, shape: 0.05 + rng.integers(0, 9, shape) / 10)],
    ),
    Row(
        "OuterProduct", "", lambda a, b: np.einsum("ni,njkl->nikj", a, b).transpose(0, 2, 1, 3), [(3, 4), (3, 2, 1, 1)]
    ),
    Row("GradientScaler", "lower_bound: 0.5", lambda x: x, exact=False),
    Row("CORALLoss", "", coral, [(6, 4), (5, 4)]),
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
