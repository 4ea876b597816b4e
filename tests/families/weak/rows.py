"""Rows of the table of layers: weakly supervised detection."""

import numpy as np
from layers.layer_row import Row, distinct, labels
from textnet import IMAGE


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


def expectation(rank=False, means=True, located=True):
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
            (located * sum(w[j] * np.log(p[int(labels[j]), j]) for j in known), sum(w[j] for j in known)),
            (sum(np.log(1 - p[c].max()) for c in range(3, len(p))), len(p) - 3),
            (
                sum(q[j] * np.log(p[0, j]) + (1 - q[j]) * np.log(1 - p[0, j]) for j in unknown),
                len(unknown if located else w),
            ),
        ]
        return [-sum(term / count if means else term for term, count in terms), p.reshape(x.shape)]

    return oracle


SUMS = "normalize_supervised: false normalize_classes: false normalize_constraint: false normalize_objectness: false"


def listed(rng, shape):
    """Labels of images: 0, 3, the first filled up."""
    values = np.zeros(shape)
    values[:, 1] = 3
    values[0, 2:] = -1
    return values


def bags(noisy=False):
    def oracle(x):
        x = x.reshape(*x.shape[:2], -1)
        y = np.array([[1 - np.prod([1 - v for v in bag]) if noisy else max(bag) for bag in each] for each in x])
        return [y[..., None, None]]

    return oracle


def of_images(x, t):
    more = np.zeros_like(x)
    for n, k in np.ndindex(t.shape[:2]):
        if t[n, k, 0, 0] >= 0:
            more[n, int(t[n, k, 0, 0])] += 2 if t[n, k, 0, 0] else 1
    return [x + more]


def of_pixels(ground):
    def oracle(x, t):
        y = x.copy()
        for n, r, c in np.ndindex(t[:, 0].shape):
            if (k := int(t[n, 0, r, c])) != 9:
                y[n, ground, r, c] += 0.5
                y[n, k, r, c] += 2 * (k != ground)
        return [y]

    return oracle


def unique(t):
    y = np.full((len(t), 4, 1, 1), -1.0)
    for n, image in enumerate(t):
        values = sorted({*image.ravel()} - {9} | {7})
        y[n, : len(values), 0, 0] = values
    return [y]


ROWS = [
    Row("MIL", "", bags(), [(IMAGE, distinct)]),
    Row("MIL noisy", "type: NOR", bags(noisy=True), [(IMAGE, between)]),
    Row("MIL of one", "context_per_roi: 1", lambda x: x[..., None, None], [((6, 4), distinct)]),
    Row("UniqueLabel", "max_labels: 4 ignore_label: 9 force_label: 7", unique, [((2, 1, 3, 4), labels(3, 9))]),
    Row("BiasChannel", "", of_images, [IMAGE, ((2, 3, 1, 1), listed)], constant=(1,)),
    Row(
        "BiasChannel of pixels",
        "label_type: PIXEL bg_bias: 0.5 background_label: 1 ignore_label: 9",
        of_pixels(1),
        [IMAGE, ((2, 1, 6, 5), labels(4, 9))],
    ),
    Row(
        "SoftmaxWithLossExpectation",
        "loss_param { ignore_label: 255 }",
        expectation(),
        [(1, 5, 3, 4), ((1, 3, 3, 4), points(False))],
        tops=2,
        constant=(1,),
    ),
    Row(
        "SoftmaxWithLossExpectation without locations",
        "loss_param { ignore_label: 255 ignore_location: true }",
        expectation(located=False),
        [(1, 5, 3, 4), ((1, 3, 3, 4), points(False))],
        tops=2,
        constant=(1,),
    ),
    Row(
        "SoftmaxWithLossExpectation with weights, summed",
        f"loss_param {{ ignore_label: 255 ignore_rank: false {SUMS} }}",
        expectation(True, False),
        [(1, 5, 3, 4), ((1, 4, 3, 4), points(True))],
        tops=2,
        constant=(1,),
    ),
    Row("GlobalSumPooling", "", lambda x: x.sum(0, keepdims=True)),
    Row(
        "MulticlassCrossEntropyLoss",
        "",
        lambda p, t: -np.where(t != 0, np.log(p), np.log(1 - p)).sum() / len(p),
        [((3, 4), between), ((3, 4), labels(2))],
        exact=False,
    ),
]
