"""Rows of the table of layers: weighted losses."""

import numpy as np
from layers.layer_row import Row, labels, positive, share
from textnet import BATCH


def probabilities(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def of_labels(x, label):
    return np.take_along_axis(probabilities(x), label.astype(int)[:, None], 1)[:, 0]


def focal(alpha, gamma, ignore=None):
    def oracle(x, label):
        counts = label != ignore
        p = of_labels(x, np.where(counts, label, 0))
        return [-(alpha * (1 - p) ** gamma * np.log(p))[counts].sum() / max(1, counts.sum())]

    return oracle


def weighted(x, label, w):
    return [-(w * np.log(of_labels(x, label))).sum() / max(1, w.sum()), probabilities(x)]


def weighted_sigmoid(x, t, w):
    s = 1 / (1 + np.exp(-x))
    return [-2 * (w * t * np.log(s) + (1 - w) * (1 - t) * np.log(1 - s)).sum() / len(x)]


def balanced(x, t):
    loss = 0.0
    for scores, targets in zip(x, t, strict=True):
        p = 1 / (1 + np.exp(-scores))
        ones, zeros = targets == 1, targets == 0
        weights = ones.sum() / (ones | zeros).sum()
        loss -= (1 - weights) * np.log(p[ones]).sum() + weights * np.log(1 - p[zeros]).sum()
    return [loss / len(x)]


def dice(weighted=False, ignore=None):
    def oracle(x, t):
        actual = []
        for a, b in zip(x, t, strict=True):
            w = np.ones(len(a)) if not weighted else 1 / (1 + b.reshape(len(b), -1).sum(1)) ** 2
            if ignore is not None:
                w[ignore] = 0
            s = 1 / a[0].size ** 2 if weighted else 1
            w = w.reshape(-1, *[1] * (a.ndim - 1))
            actual.append((2 * (w * a * b).sum() + s) / ((w * a * a).sum() + (w * b * b).sum() + s))
        return [1 - np.mean(actual)]

    return oracle


def ordinal(x, label):
    loss = 0.0
    for scores, rank in zip(x.reshape(len(x), -1, 2), label, strict=True):
        for j, pair in enumerate(scores):
            p = np.exp(pair) / np.exp(pair).sum()
            loss -= np.log(p[1] if j < rank else p[0])
    return [loss / len(x)]


def directions(rng, shape):
    """Of less than unit length, so that no angle between two is 0."""
    x = rng.normal(size=shape)
    return 0.9 * x / np.linalg.norm(x, axis=1, keepdims=True)


def known_directions(rng, shape):
    x = directions(rng, shape)
    x[0, :, 0] = 11
    return x


def angles(x, t):
    known = np.abs(t[:, 0]) <= 10
    return [np.arccos((x * t).sum(1)[known]).sum() / len(x)]


MAPS = (3, 4, 2, 3)


def bits(classes, maps):
    """Labels whose bits are classes; the first pixel does not count."""

    def draw(rng, shape):
        n, _, *pixels = shape
        has = rng.random((n, classes, *pixels)) < 0.3
        words = np.zeros((n, maps, *pixels), np.uint32)
        for k in range(classes):
            words[:, k // 32] |= has[:, k].astype(np.uint32) << np.uint32(k % 32)
        words[:, -1].flat[0] |= np.uint32(1 << 31)
        return words.view(np.float32).astype(float)

    return draw


def of_bits(balanced):
    def oracle(x, label):
        words = label.astype(np.float32).view(np.uint32)
        loss = 0.0
        for scores, image in zip(x, words, strict=True):
            scores, image = scores.reshape(len(scores), -1), image.reshape(len(image), -1)
            counted = [j for j in range(image.shape[1]) if not image[-1, j] >> 31]
            has = {(k, j): bool(image[k // 32, j] >> (k % 32) & 1) for k in range(len(scores)) for j in counted}
            share = np.mean([any(has[k, j] for k in range(len(scores))) for j in counted]) if balanced else None
            for (k, j), shown in has.items():
                p = 1 / (1 + np.exp(-scores[k, j]))
                weight = 1 if share is None else 1 - share if shown else share
                loss -= weight * np.log(p if shown else 1 - p)
        return [loss / len(x)]

    return oracle


ROWS = [
    Row("FocalLoss", "", focal(0.25, 2), [(4, 3, 2), ((4, 2), labels(3))]),
    Row(
        "FocalLoss with ignored labels",
        "focal_loss_param { alpha: 0.5 gama: 0.5 } loss_param { ignore_label: 9 }",
        focal(0.5, 0.5, 9),
        [(4, 3, 2), ((4, 2), labels(3, 9))],
    ),
    Row("SoftmaxFocalLoss", "gamma: 0 alpha: 2", focal(2, 0), [(4, 3), ((4,), labels(3))]),
    Row(
        "WeightedSoftmaxWithLoss",
        "",
        weighted,
        [(4, 3, 2), ((4, 2), labels(3)), ((4, 2), positive)],
        tops=2,
        constant=(1, 2),
    ),
    Row(
        "MultiSoftmaxLoss",
        "",
        lambda x, label: -np.log(of_labels(x, label - 1)).sum() / len(x),
        [(4, 3, 2), ((4, 2), lambda rng, shape: 1 + labels(3)(rng, shape))],
        constant=(1,),
    ),
    Row(
        "WeightedSigmoidCrossEntropyLoss",
        "",
        weighted_sigmoid,
        [BATCH, (BATCH, labels(2)), (BATCH, share)],
        constant=(1, 2),
    ),
    Row("SigmoidCrossEntropyBalanceLoss", "", balanced, [MAPS, (MAPS, labels(3))]),
    Row("DiceCoefLoss", "", dice(), [(MAPS, share), (MAPS, labels(2))]),
    Row(
        "DiceCoefLoss of classes",
        "generalization: MULTICLASS_WEIGHTED ignore_label: 0",
        dice(True, 0),
        [(MAPS, share), (MAPS, labels(2))],
    ),
    Row(
        "MultiChannelSigmoidCrossEntropyLoss",
        "",
        of_bits(False),
        [(2, 5, 3, 4), ((2, 1, 3, 4), bits(5, 1))],
        constant=(1,),
    ),
    Row(
        "MultiChannelReweightedSigmoidCrossEntropyLoss",
        "",
        of_bits(True),
        [(2, 35, 3, 2), ((2, 2, 3, 2), bits(35, 2))],
        constant=(1,),
    ),
    Row("OrdinalRegressionLoss", "", ordinal, [(5, 6), ((5,), labels(4))]),
    Row("AngleLoss", "", angles, [((3, 3, 4), directions), ((3, 3, 4), known_directions)], constant=(1,), exact=False),
]
