"""Rows of the table of layers: volumes."""

import itertools

import numpy as np
from layers.layer_row import Row, distinct, labels, share

VOLUME = (2, 3, 5, 6, 5)


def middle(a, b):
    starts = [(t - s) // 2 for s, t in zip(a.shape[2:], b.shape[2:], strict=True)]
    return b[(..., *(slice(start, start + s) for start, s in zip(starts, a.shape[2:], strict=True)))]


def malis(p, true, components):
    """By each pair of voxels: the smallest affinity on the path that is best."""
    count, edges, high, wide = p.shape
    total = 0.0
    for n, (alike, bound) in itertools.product(range(count), ((False, np.maximum), (True, np.minimum))):
        weights, names = bound(p[n], true[n]), components[n, 0].reshape(-1)
        best = np.full((high * wide,) * 2, -np.inf)
        for e, i, j in np.ndindex(edges, high, wide):
            to = (i + 1, j) if e == 0 else (i, j + 1)
            if to[0] < high and to[1] < wide:
                a, b = i * wide + j, to[0] * wide + to[1]
                best[a, b] = best[b, a] = weights[e, i, j]
        for k in range(high * wide):
            best = np.maximum(best, np.minimum(best[:, k : k + 1], best[k : k + 1]))
        pairs = [
            best[a, b]
            for a, b in itertools.combinations(range(high * wide), 2)
            if names[a] and names[b] and (names[a] == names[b]) == alike
        ]
        total += np.mean((np.array(pairs) - alike) ** 2) / 2 if pairs else 0
    return [total / count]


ROWS = [
    Row(
        "MergeCrop",
        "backward: true backward: true",
        lambda a, b: np.concatenate([a, middle(a, b)], 1),
        [(2, 3, 3, 4, 2), VOLUME],
    ),
    Row(
        "MergeCrop as a sum", "operation: ADD", lambda a, b: a + middle(a, b), [(2, 3, 3, 4), (2, 3, 6, 5)], exact=False
    ),
    Row(
        "MalisLoss",
        "",
        malis,
        [((2, 2, 3, 4), distinct), ((2, 2, 3, 4), share), ((2, 1, 3, 4), labels(3))],
        constant=(1, 2),
        exact=False,
    ),
]
