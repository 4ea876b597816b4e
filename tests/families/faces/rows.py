"""Rows of the table of layers: layers for faces."""

import numpy as np
from layers.layer_row import Row, labels, share
from textnet import BATCH, IMAGE

SCORES, CLASSES = (4, 6), 5


def unit(w):
    return w / np.sqrt((w * w).sum(1, keepdims=True))


def margin(m, number):
    """ψ of the paper: (-1)^k cos mθ - 2k in the k-th of m equal parts of 0 to π."""

    def oracle(x, label, w):
        scores = x.reshape(len(x), -1) @ unit(w).T
        length, own = np.sqrt((x.reshape(len(x), -1) ** 2).sum(1)), (np.arange(len(x)), label.astype(int))
        angle = np.arccos(scores[own] / length)
        k = np.floor(m * angle / np.pi)
        psi = (-1) ** k * np.cos(m * angle) - 2 * k
        scores[own] = (length * psi + number * scores[own]) / (1 + number)
        return [scores, np.array([number])]

    return oracle


def centers(x, label, c):
    return [((x - c[label.astype(int)]) ** 2).sum() / 2 / len(x)]


def distances(power):
    def oracle(x, *others):
        w = others[-1] if others[-1].ndim == 2 else others[0]
        return [(np.abs(x[:, None] - w[None]) ** power).sum(2)]

    return oracle


def by_label(change):
    """change(x, own): the scores, where own marks the labels'."""

    def oracle(x, label):
        return [change(x, np.arange(x.shape[1]) == label[:, None])]

    return oracle


def contrast(push):
    def oracle(x, label):
        own = np.arange(x.shape[1]) == label[:, None]
        pull = np.maximum(x[own] - 0.5, 0)
        gap = 1.5 - x[~own]
        means = [pull.mean(), np.maximum(gap, 0).mean()]
        return [(pull.sum() + push(gap, x[~own]).sum()) / len(x), np.array(means)]

    return oracle


def margin_row(kind, m, more="", number=0.0):
    return Row(
        f"MarginInnerProduct {kind.lower()}",
        f'num_output: 3 type: {kind} weight_filler {{ type: "gaussian" }} {more}',
        margin(m, number),
        [BATCH, ((2,), labels(3))],
        tops=2,
        constant=(1,),
        exact=False,
    )


DISTANCE = 'num_output: 5 weight_filler { type: "gaussian" }'


def large_margin(m, number):
    """ψ of the paper: (-1)^k cos mθ - 2k in the k-th of m equal parts of 0 to π."""

    def oracle(x, label, w):
        scores, own = x @ w.T, (np.arange(len(x)), label.astype(int))
        norms = np.sqrt((x**2).sum(1) * (w[own[1]] ** 2).sum(1))
        angle = np.arccos(scores[own] / norms)
        k = np.floor(m * angle / np.pi)
        scores[own] = (norms * ((-1) ** k * np.cos(m * angle) - 2 * k) + number * scores[own]) / (1 + number)
        return [scores, np.array([number])]

    return oracle


def large_margin_row(kind, m, number):
    p = f'num_output: 3 type: {kind} base: 0 lambda_min: {number} weight_filler {{ type: "gaussian" }}'
    return Row(
        f"LargeMarginInnerProduct {kind.lower()}",
        p,
        large_margin(m, number),
        [(5, 4), ((5,), labels(3))],
        tops=2,
        constant=(1,),
    )


FED = [np.arange(6.0).reshape(2, 3), np.array([1.0, 0.0])]


ROWS = [
    margin_row("SINGLE", 1, "base: 2", 2.0),
    margin_row("DOUBLE", 2, "base: 1000 gamma: 0.125 power: 1 iteration: 5", 1000 / (1 + 0.125 * 6)),
    margin_row("TRIPLE", 3, "base: 0"),
    margin_row("QUADRUPLE", 4, "base: 0 lambda_min: 5", 5.0),
    Row(
        "CenterLoss",
        'num_output: 3 center_filler { type: "gaussian" }',
        centers,
        [(5, 4), ((5,), labels(3))],
        exact=False,
    ),
    Row("Flip", "", lambda x: x[..., ::-1]),
    Row("Flip upside down", "flip_width: false flip_height: true", lambda x: x[:, :, ::-1]),
    Row("InnerDistance", DISTANCE, distances(2), [SCORES]),
    Row("InnerDistance of blobs", 'distance_type: "L1"', distances(1), [SCORES, (5, 6)]),
    Row(
        "InnerDistance of the label",
        f"{DISTANCE} normalize: true update_center_only: true",
        distances(2),  # of the weights as they are stored then
        [SCORES, (SCORES[:1], labels(5))],
        constant=(1,),
        exact=False,
    ),
    Row("ChannelScale", "", lambda x, s: x * s, [IMAGE, ((2, 1, 6, 5), share)]),
    Row(
        "ChannelScale global",
        "global_scale: true max_global_scale: 0.5 min_global_scale: 0.25",
        lambda x, s, g: [x * g, g],
        [BATCH, ((2,), share)],
        tops=2,
        constant=(1,),
        exact=False,
    ),
    Row(
        "LabelSpecificAdd",
        "bias: -0.5",
        by_label(lambda x, own: np.where(own & (x > 0.5), x - 0.5, x)),
        [(SCORES, lambda rng, shape: rng.integers(0, 5, shape).astype(float)), (SCORES[:1], labels(5))],
        constant=(1,),
    ),
    Row(
        "LabelSpecificRescale",
        "positive_weight: 3 negative_weight: 0.5 bias_fix: true",
        by_label(lambda x, own: np.where(own, 3 * x - 2, x / 2)),
        [SCORES, (SCORES[:1], labels(5))],
    ),
    Row(
        "LabelSpecificRescale powers",
        "positive_weight_base: 1.5 gamma: 1 power: 1 positive_weight_min: 0.5 for_ip: true power_on_positive: true",
        by_label(lambda x, own: np.where(own & (x > 0), np.abs(x) ** 0.75, x)),
        [SCORES, (SCORES[:1], labels(5))],
    ),
    Row(
        "GeneralContrastiveLoss",
        "positive_margin: 0.5 negative_margin: 1.5 negative_weight: 0.25 positive_outlier_thresh: 90",
        contrast(lambda gap, x: np.maximum(gap, 0) / 4),
        [SCORES, (SCORES[:1], labels(5))],
        tops=2,
    ),
    Row(
        "GeneralContrastiveLoss of powers",
        "positive_margin: 0.5 negative_margin: 1.5 negative_weight: 0.25 positive_outlier_thresh: 90 "
        "exp_negative_weight: true",
        contrast(lambda gap, x: np.where(gap > 0, np.exp(-x), 0) / 4),
        [SCORES, (SCORES[:1], labels(5))],
        tops=2,
    ),
    large_margin_row("SINGLE", 1, 2.0),
    large_margin_row("DOUBLE", 2, 0.0),
    large_margin_row("TRIPLE", 3, 0.5),
    large_margin_row("QUADRUPLE", 4, 3.0),
    Row("MultiLabelImageData", "", lambda: FED, tops=2, source=FED),
]
