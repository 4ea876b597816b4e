"""Rows of the table of layers: Losses and scores."""

import numpy as np
from layers.layer_row import BATCH_SIZE, Row, distinct, distributions, far, labels, share
from layers.oracles import (
    accuracy,
    contrastive,
    cross_entropy,
    hinge,
    infogain,
    log_loss,
    smooth,
    smoothed_log_loss,
    soft_log_loss,
    softmax,
    weighted_cross_entropy,
)
from textnet import BATCH, IMAGE

WEIGHTS = "class_weight: 0.5 class_weight: 3 class_weight: 0.125"
TWO, SEVEN = [BATCH, ((2,), labels(3))], [(7, 3), ((7,), labels(3))]  # samples of three classes
SHARES = [BATCH, (BATCH, share)]

ROWS = [
    Row("Softmax", "", softmax()),
    Row("Softmax last axis", "axis: -1", softmax(2), [(2, 3, 4)]),
    Row("SoftmaxWithLoss", "", log_loss(), TWO, tops=2),
    Row(
        "SoftmaxWithLoss ignoring",
        "loss_param { ignore_label: 1 }",
        log_loss(1, top=1),
        [(2, 3, 4), ((2, 4), labels(3, 1))],
    ),
    Row(
        "SoftmaxWithLoss last axis",
        f"softmax_param {{ axis: 2 }} {BATCH_SIZE}",
        log_loss(divisor=lambda x, t: x.shape[0] * x.shape[1], axis=2, top=1),
        [(2, 4, 3), ((2, 4), labels(3))],
    ),
    Row("SoftmaxWithLoss sum", "loss_param { normalization: NONE }", log_loss(divisor=lambda x, t: 1, top=1), TWO),
    Row("SoftmaxWithLoss smoothed", "loss_param { label_smoothing: 0.25 }", smoothed_log_loss(0.25), SEVEN),
    Row(
        "SoftmaxWithLoss smoothed, last axis",
        "softmax_param { axis: 2 } loss_param { label_smoothing: 0.5 normalization: BATCH_SIZE }",
        smoothed_log_loss(0.5, axis=2),
        [(2, 4, 3), ((2, 4), labels(3))],
    ),
    Row(
        "SoftmaxWithLoss not smoothed in TEST",
        "loss_param { label_smoothing: 0.5 }",
        log_loss(top=1),
        SEVEN,
        phase="TEST",
    ),
    Row("SoftmaxWithLoss distributions", "", soft_log_loss(), [(7, 3), ((7, 3), distributions)], constant=(1,)),
    Row(
        "SoftmaxWithLoss distributions, smoothed",
        "loss_param { normalization: BATCH_SIZE label_smoothing: 0.25 }",
        soft_log_loss(0.25, divisor=len),
        [(2, 3, 4), ((2, 3, 4), distributions)],
        constant=(1,),
    ),
    Row("SoftmaxWithLoss weighted", f"loss_param {{ {WEIGHTS} }}", log_loss(weights=(0.5, 3, 0.125)), SEVEN, tops=2),
    Row(
        "SoftmaxWithLoss weighted pixels, ignoring",
        f"softmax_param {{ axis: 2 }} loss_param {{ {WEIGHTS} ignore_label: 1 }}",
        log_loss(1, axis=2, top=1, weights=(0.5, 3, 0.125)),
        [(2, 4, 3, 5), ((2, 4, 5), labels(3, 1))],
    ),
    Row(
        "SoftmaxWithLoss weighted, by labels",
        f"loss_param {{ {WEIGHTS} normalization: FULL }}",
        log_loss(divisor=lambda x, t: len(x), top=1, weights=(0.5, 3, 0.125)),
        SEVEN,
    ),
    Row(
        "SigmoidCrossEntropyLoss weighted",
        f"loss_param {{ {WEIGHTS} }}",
        weighted_cross_entropy((0.5, 3, 0.125), lambda x, t: len(x)),
        SHARES,
        constant=(1,),
    ),
    Row(
        "SigmoidCrossEntropyLoss weighted pixels, ignoring",
        f"loss_param {{ {WEIGHTS} ignore_label: 2 normalization: VALID }}",
        weighted_cross_entropy((0.5, 3, 0.125), lambda x, t: max(1, (t != 2).sum()), 2),
        [(4, 3, 5), ((4, 3, 5), labels(2, 2))],
    ),
    Row(
        "SigmoidCrossEntropyLoss weighted, one label",
        "loss_param { class_weight: 2.5 normalization: FULL }",
        weighted_cross_entropy(2.5, lambda x, t: x.size),
        [(6,), ((6,), share)],
        constant=(1,),
    ),
    Row("SigmoidCrossEntropyLoss", "", cross_entropy(lambda x, t: len(x)), SHARES, constant=(1,)),
    *(
        Row(
            f"SigmoidCrossEntropyLoss ignoring fractions of {label}",
            f"loss_param {{ ignore_label: {label} normalization: VALID }}",
            cross_entropy(lambda x, t, label=label: max(1, (np.trunc(t) != label).sum()), label),
            [BATCH, (BATCH, lambda rng, shape: rng.uniform(-2, 2, shape))],
            constant=(1,),
        )
        for label in (0, 1, -1)
    ),
    Row(
        "SigmoidCrossEntropyLoss ignoring",
        "loss_param { ignore_label: 2 normalization: VALID }",
        cross_entropy(lambda x, t: max(1, (t != 2).sum()), 2),
        [BATCH, (BATCH, labels(2, 2))],
    ),
    Row(
        "SigmoidCrossEntropyLoss mean",
        "loss_param { normalization: FULL }",
        cross_entropy(lambda x, t: x.size),
        SHARES,
        constant=(1,),
    ),
    Row(
        "SigmoidCrossEntropyLoss weights",
        "",
        lambda x, t, w: (w * (np.log1p(np.exp(-abs(x))) + np.maximum(x, 0) - x * t)).sum() / w.sum(),
        [*SHARES, (BATCH, share)],
        constant=(1, 2),
    ),
    Row("EuclideanLoss", "", lambda a, b: ((a - b) ** 2).sum() / 2 / len(a), [IMAGE, IMAGE]),
    Row("Accuracy", "", accuracy(), [((9, 3), distinct), ((9,), labels(3))], tops=2),
    Row(
        "Accuracy top 2",
        "top_k: 2 ignore_label: 1 axis: 2",
        accuracy(1, 2, 2),
        [((2, 4, 3), distinct), ((2, 4), labels(3, 1))],
        tops=2,
    ),
    Row("HingeLoss", "", hinge(1), [(4, 3), ((4,), labels(3))]),
    Row("HingeLoss squared", "norm: L2", hinge(2), [(4, 3, 2), ((4,), labels(6))]),
    Row(
        "MultinomialLogisticLoss",
        "",
        lambda x, t: -np.log(x[np.arange(len(x)), t.astype(int)]).mean(),
        [((4, 3), share), ((4,), labels(3))],
    ),
    Row(
        "ContrastiveLoss",
        "margin: 300",
        contrastive(lambda d: np.maximum(300 - d, 0) ** 2),
        [((8, 3), far), ((8, 3), far), ((8,), labels(2))],
    ),
    Row(
        "ContrastiveLoss legacy",
        "margin: 9 legacy_version: true",
        contrastive(lambda d: np.maximum(9 - d * d, 0)),
        [(8, 3), (8, 3), ((8,), labels(2))],
    ),
    Row(
        "InfogainLoss",
        "",
        infogain(lambda x, t: t.size),
        [(4, 3), ((4,), labels(3)), ((1, 1, 3, 3), share)],
        tops=2,
        constant=(1, 2),
    ),
    Row(
        "InfogainLoss of pixels",
        "infogain_loss_param { axis: -2 } loss_param { ignore_label: 7 }",
        infogain(lambda x, t: max(1, (t != 7).sum()), 2),
        [(2, 4, 3, 5), ((2, 4, 5), labels(3, 7)), ((1, 9), share)],
        tops=2,
        constant=(1, 2),
    ),
    Row(
        "SoftmaxWithLoss PRE_FIXED",
        "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 2.5 }",
        log_loss(divisor=lambda x, t: 2.5),
        TWO,
        tops=2,
    ),
    Row(
        "SmoothL1Loss with sigma",
        "smooth_l1_loss_param { sigma: 2 } loss_param { normalization: NONE }",
        lambda a, b: smooth(4 * (a - b)).sum() / 4,
        [IMAGE, IMAGE],
    ),
    Row("L1Loss", "", lambda a, b: np.abs(a - b).sum() / len(a), [IMAGE, IMAGE]),
    Row("SmoothL1Loss", "", lambda a, b: smooth(a - b).sum() / len(a), [IMAGE, IMAGE]),
    Row(
        "SmoothL1Loss weighted",
        "",
        lambda a, b, inside, outside: (outside * smooth(inside * (a - b))).sum() / len(a),
        [BATCH, BATCH, (BATCH, share), BATCH],
        constant=(2, 3),
    ),
]
