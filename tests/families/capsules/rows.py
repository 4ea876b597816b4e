"""Rows of the table of layers: capsules."""

import numpy as np
from layers.layer_row import Row, labels

FILLED = 'weight_filler { type: "gaussian" } bias_filler { type: "gaussian" }'


def lengths(capsules):
    return np.sqrt((capsules**2).sum(-1, keepdims=True) + 1e-7)


def squashed(x):
    capsules = x.reshape(len(x), -1, 4)
    r = lengths(capsules)
    return [((1 - np.exp(-r)) / r * capsules).reshape(x.shape)]


def mask(x):
    capsules = x.reshape(len(x), 3, -1)
    best = lengths(capsules)[..., 0].argmax(1)
    return [np.array([np.where(np.arange(3)[:, None] == b, c, 0) for b, c in zip(best, capsules, strict=True)])]


def grouped(x):
    n, c, h, w = x.shape
    return [np.concatenate([x[:, i : i + 2].reshape(n, 2, h * w).transpose(0, 2, 1) for i in range(0, c, 2)], 1)]


def transformed(x, w, b):
    capsules = x.reshape(len(x), *w.shape[:2])
    return [np.einsum("nid,idm->nim", capsules, w) + b.reshape(len(w), -1)]


def routed(x, w):
    return [np.stack([sum(w[o, i] * x[:, i, 3 * o : 3 * o + 3] for i in range(4)) for o in range(2)], 1)]


def margins(x, label):
    loss = 0.0
    for capsules, own in zip(x.reshape(len(x), 3, -1), label, strict=True):
        for k, r in enumerate(lengths(capsules)[:, 0]):
            loss += max(0, 0.875 - r) ** 2 if k == own else 0.5 * max(0, r - 0.125) ** 2
    return [loss / len(x)]


# A mask leaves one capsule.
UNLIKE = "CapsuleMask".split()

ROWS = [
    Row("Squash", "capsule_dim: 4", squashed, [(2, 3, 8)]),
    Row("CapsuleLen", "num_class: 3", lambda x: lengths(x)[..., 0], [(2, 3, 4)]),
    Row("CapsuleMask", "class_num: 3", mask, [(4, 3, 2)]),
    Row("CapsuleReshape", "capsule_dim: 2", grouped, [(2, 4, 3, 2)]),
    Row(
        "CapsuleTransform",
        f"input_capsule_dim: 4 output_capsule_num: 2 output_capsule_dim: 3 {FILLED}",
        transformed,
        [(2, 5, 4)],
    ),
    Row("CapsuleRouting", "input_capsule_num: 4 output_capsule_num: 2 output_capsule_dim: 3", routed, [(2, 4, 6)]),
    Row(
        "MarginLoss",
        "num_class: 3 m_upper_bound: 0.875 m_lower_bound: 0.125 lambda: 0.5",
        margins,
        [(4, 3, 2), ((4,), labels(3))],
    ),
]
