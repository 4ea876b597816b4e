"""Rows of the table of layers: text lines."""

import itertools

import numpy as np
from layers.layer_row import Row, labels, numbers


def spelled(path, blank):
    """The classes of a path, repeated ones merged and blanks deleted."""
    return [c for i, c in enumerate(path) if c != blank and (i == 0 or c != path[i - 1])]


def log_probability(scores, label, blank):
    """Of scores (T, C), by trying every path."""
    p = np.exp(scores - scores.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    paths = itertools.product(range(scores.shape[1]), repeat=len(scores))
    total = sum(p[range(len(p)), path].prod() for path in paths if spelled(path, blank) == label)
    return np.log(total) if total else 0


def ctc(blank, lines):
    """lines(blobs) gives (steps, label) of each sequence."""

    def oracle(x, *blobs):
        each = [log_probability(x[:steps, n], label, blank) for n, (steps, label) in enumerate(lines(x, *blobs))]
        return [-np.mean(each)]

    return oracle


def of_rows(blank):
    """Labels (N, L) without blanks, of all steps."""
    return lambda x, label: [(len(x), [int(c) for c in line if c != blank]) for line in label]


def indicated(x, starts, label):
    return [(len(x), [int(c) for c in itertools.takewhile(lambda c: c >= 0, label[:, 0])])]


def ones(rng, shape):
    return np.ones(shape)


SCORES = (5, 1, 3)
DECODED = np.array([2, 2, 0, 2, 1])


def path(rng, shape):
    """Scores (T, N, C) whose best classes are 2, 2, 0, 2, 1."""
    scores = rng.random(shape)
    for n in range(shape[1]):
        scores[np.arange(shape[0]), n, DECODED[: shape[0]]] += 1
    return scores


def line(classes):
    def draw(rng, shape):
        return np.broadcast_to(np.array(classes, float)[: shape[0]].reshape(-1, 1), shape)

    return draw


def decoded(x, *blobs):
    actual = spelled(DECODED[: len(x)], 0)
    return actual + [-1] * (len(x) - len(actual))


ROWS = [
    Row("ContinuationIndicator", "time_step: 3 batch_size: 4", lambda: np.array([[0.0] * 4, [1] * 4, [1] * 4])),
    Row(
        "ContinuationIndicator of a bottom",
        "time_step: 2",
        lambda x: np.array([[0.0] * len(x), [1] * len(x)]),
        [(5, 2)],
    ),
    Row("CtcLoss", "blank_label: 2 alphabet_size: 3", ctc(2, of_rows(2)), [SCORES, ((1, 3), labels(3))]),
    Row("CTCLoss", "", ctc(2, indicated), [SCORES, ((5, 1), ones), ((5, 1), line([1, 1, -1, 0, 0]))], constant=(1, 2)),
    Row("WarpCTCLoss", "", ctc(0, of_rows(0)), [SCORES, ((1, 3), labels(3))]),
    Row(
        "WarpCTCLoss of indicators",
        "blank_index: 1",
        ctc(1, indicated),
        [SCORES, ((5, 1), ones), ((5, 1), line([0, 2, 2, -1, -1]))],
        constant=(1, 2),
    ),
    Row(
        "WarpCTCLoss of lengths",
        "",
        ctc(2, lambda x, steps, ends, label: [(int(steps[0]), list(label[: int(ends[0]), 0].astype(int)))]),
        [SCORES, ((1,), ones), ((1,), numbers(2)), ((2, 1), numbers(2))],
        constant=(1, 2, 3),
    ),
    Row("CTCGreedyDecoder", "", lambda x: np.array([decoded(x)] * 2, float)[:, :, None, None], [((5, 2, 3), path)]),
    Row(
        "CTCGreedyDecoder accuracy",
        "",
        lambda x, label: np.array([2 / 3 if len(x) > 1 else 1 / 2, 0]).reshape(1, 2, 1, 1),
        [((5, 1, 3), path), ((1, 4), lambda rng, shape: np.array([[2.0, 2, 0, -1]]))],
    ),
    Row(
        "CTCGreedyDecoder of indicators",
        "blank_index: 0",
        lambda x, starts, label: [
            np.array(decoded(x), float).reshape(1, -1, 1, 1),
            -x.max(2).sum(0).reshape(-1, 1, 1, 1),
            np.full((1, 1, 1, 1), 1 / 3 if len(x) > 1 else 1),
        ],
        [((5, 1, 3), path), ((5, 1), ones), ((3, 1), line([2, 0, 2]))],
        tops=3,
    ),
    Row(
        "LabelsequenceAccuracy",
        "blank_label: 2",
        lambda x, label: np.mean(
            [spelled(s.argmax(1), 2) == [c for c in t if c != 2] for s, t in zip(x, label, strict=True)]
        ),
        [(6, 2, 3), ((6, 2), labels(3))],
    ),
]
