"""Rows of the table of layers: domain adaptation."""

import numpy as np
from layers.layer_row import Row


def coral(a, b):
    cov = [np.cov(x, rowvar=False) if len(x) > 1 else np.zeros((x.shape[1],) * 2) for x in (a, b)]
    return [((cov[0] - cov[1]) ** 2).sum() / 4 / a.shape[1] ** 2]


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
]
