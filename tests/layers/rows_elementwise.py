"""Rows of the table of layers: Elementwise and dense layers, shapes and joints."""

import zlib

import numpy as np
import reference
from layers.layer_row import Row, distinct, labels, numbers, positive
from layers.oracles import inner_product, unit
from textnet import BATCH, IMAGE

SCORES, CLASSES = (4, 6), 5


def insanity(low, high):
    def oracle(x):
        key, slopes = zlib.crc32(b"layer"), np.empty((len(x), x[0].size))
        for row, i in np.ndindex(slopes.shape):
            word = reference.philox((i // 4, row, 0, key), (1, 0))[i % 4]
            slopes[row, i] = low + (high - low) * (word + 0.5) / 2**32
        return [np.where(x > 0, x, x / slopes.reshape(x.shape))]

    return oracle


def normalize(power):
    def oracle(x):
        total = (np.abs(x) ** power).sum(1, keepdims=True) + 1e-6
        norm = np.sqrt(total) if power == 2 else total
        return [x / norm, norm]

    return oracle


DISTANCE = 'num_output: 5 weight_filler { type: "gaussian" }'


def weighed(weights, ignore: int):
    """caffe-segnet's loss: the sum of weighted losses over the number of labels that count."""

    def oracle(x, t):
        terms = [
            (np.log(np.exp(x[n, :, i]).sum()) - x[n, int(k), i]) * weights[int(k)]
            for (n, i), k in np.ndenumerate(t)
            if k != ignore
        ]
        return [np.sum(terms) / len(terms)]

    return oracle


ROWS = [
    Row("ReLU", "", lambda x: np.maximum(x, 0)),
    Row("ReLU leaky", "negative_slope: 0.25", lambda x: np.where(x > 0, x, x / 4), [BATCH]),
    Row("ReLU contrary", "negative_slope: -0.5", lambda x: np.where(x > 0, x, -x / 2), [BATCH]),
    Row("Sigmoid", "", lambda x: 1 / (1 + np.exp(-x)), [BATCH]),
    Row("TanH", "", lambda x: np.tanh(x), [BATCH]),
    Row("ELU", "alpha: 0.5", lambda x: np.where(x > 0, x, np.expm1(x) / 2), [BATCH]),
    Row("ELU contrary", "alpha: -0.5", lambda x: np.where(x > 0, x, -np.expm1(x) / 2), [BATCH]),
    Row("Swish", "beta: 2", lambda x: x / (1 + np.exp(-2 * x)), [BATCH]),
    Row("Mish", "", lambda x: x * np.tanh(np.logaddexp(0, x)), [BATCH]),
    Row("AbsVal", "", lambda x: np.abs(x), [BATCH]),
    Row("BNLL", "", lambda x: np.logaddexp(0, x), [BATCH]),
    Row("Clip", "min: -0.5 max: 0.75", lambda x: np.clip(x, -0.5, 0.75), [BATCH]),
    Row("Exp", "", lambda x: np.exp(x), [BATCH]),
    Row("Exp base 2", "base: 2 scale: 0.5 shift: 3", lambda x: 2 ** (3 + x / 2), [BATCH]),
    Row("Log", "", lambda x: np.log(x), [(BATCH, positive)]),
    Row("Log base 2", "base: 2 scale: 0.5 shift: 3", lambda x: np.log2(3 + x / 2), [(BATCH, positive)]),
    Row("Power", "", lambda x: x, [BATCH]),
    Row("Power square", "power: 2 scale: 0.5 shift: 3", lambda x: (3 + x / 2) ** 2, [BATCH]),
    Row("Power root", "power: -1.5 scale: 0.5 shift: 3", lambda x: (3 + x / 2) ** -1.5, [(BATCH, positive)]),
    Row("PReLU", "", lambda x, a: np.where(x > 0, x, x * a[:, None, None])),
    Row("PReLU shared", "channel_shared: true", lambda x, a: np.where(x > 0, x, x * a), [BATCH]),
    Row("Threshold", "threshold: 0.25", lambda x: x > 0.25, [BATCH]),
    Row("Dropout", "", lambda x: x, [BATCH], phase="TEST"),
    Row("Dropout all", "dropout_ratio: 1", lambda x: x, [BATCH], phase="TEST"),
    Row("Dropout that scales in TEST", "dropout_ratio: 0.75 scale_train: false", lambda x: x / 4, phase="TEST"),
    Row("Flatten", "", lambda x: x.reshape(len(x), -1)),
    Row("Squeeze", "axis: 2 axis: -1", lambda x: x.reshape(len(x), 3, 4), [(2, 3, 1, 4, 1)]),
    Row("Flatten middle", "axis: -3 end_axis: 2", lambda x: x.reshape(len(x), 24, 5)),
    Row("Flatten of no axis", "axis: 2 end_axis: 1", lambda x: x[:, :, None]),
    Row("Reshape", "shape { dim: 0 dim: -1 dim: 2 }", lambda x: x.reshape(len(x), -1, 2)),
    Row("Tile", "tiles: 3", lambda x: np.concatenate([x] * 3, 1)),
    Row("Concat", "", lambda *x: np.concatenate(x, 1), [IMAGE, (2, 1, 6, 5)]),
    Row("Concat last axis", "axis: -1", lambda *x: np.concatenate(x, 1), [BATCH, (2, 5)]),
    Row("Slice", "", lambda x: [x[:, :2], x[:, 2:]], tops=2),
    Row(
        "Slice points",
        "axis: 2 slice_point: 1 slice_point: 4",
        lambda x: [x[:, :, :1], x[:, :, 1:4], x[:, :, 4:]],
        tops=3,
    ),
    Row("Split", "", lambda x: [x, x], [BATCH], tops=2),
    Row("Eltwise", "", lambda a, b: a + b, [BATCH, BATCH]),
    Row("Eltwise weighted", "coeff: 2 coeff: -0.5", lambda a, b: 2 * a - b / 2, [BATCH, BATCH]),
    Row("Eltwise product", "operation: PROD", lambda a, b, c: a * b * c, [BATCH, BATCH, BATCH]),
    Row("Eltwise maximum", "operation: MAX", lambda *x: np.max(x, 0), [BATCH, BATCH, BATCH]),
    Row("Eltwise minimum", "operation: MIN", lambda *x: np.min(x, 0), [BATCH, BATCH, BATCH]),
    Row("Eltwise quotient", "operation: DIV", lambda a, b: a / b, [BATCH, (BATCH, positive)]),
    Row(
        "Eltwise maximum with coefficients",
        "operation: MAX coeff: 2 coeff: -1",
        lambda *x: np.max(x, 0),
        [BATCH, BATCH],
    ),
    *(
        Row(f"Eltwise of one, {body}", body, oracle, [BATCH])
        for body, oracle in (
            ("coeff: -0.5", lambda x: [x / -2]),
            ("operation: PROD", lambda x: [x]),
            ("operation: MAX coeff: 3", lambda x: [x]),
        )
    ),
    Row("InnerProduct", "num_output: 4", inner_product()),
    Row(
        "InnerProduct transposed",
        "num_output: 4 axis: 2 transpose: true bias_term: false",
        inner_product(2, True),
        [(2, 3, 5)],
    ),
    Row("InnerProduct last axis", "num_output: 4 axis: -1", inner_product(2), [(2, 3, 5)]),
    Row("Embed", "input_dim: 3 num_output: 5", lambda x, w, b: w[x.astype(int)] + b, [((2, 4), numbers(3))]),
    Row(
        "Embed without bias",
        "input_dim: 7 num_output: 2 bias_term: false",
        lambda x, w: w[x.astype(int)],
        [((4,), numbers(7))],
    ),
    Row(
        "Eltwise product by division",
        "operation: PROD stable_prod_grad: false",
        lambda a, b, c: a * b * c,
        [BATCH, BATCH, BATCH],
    ),
    Row("Axpy", "", lambda a, x, b: a * x + b, [(2, 4, 1, 1), IMAGE, IMAGE]),
    Row("Axpy of vectors", "", lambda a, x, b: a * x + b, [BATCH, BATCH, BATCH]),
    Row("Permute", "order: 0 order: 2 order: 3 order: 1", lambda x: x.transpose(0, 2, 3, 1)),
    Row("Permute in part", "order: 0 order: 3", lambda x: x.transpose(0, 3, 1, 2)),
    Row("Permute of nothing", "", lambda x: x),
    Row("Normalize", "eps: 0.5", lambda x, s: s * unit(x, (1, 2, 3), 0.5)),
    Row(
        "Normalize of each place",
        "across_spatial: false channel_shared: false",
        lambda x, s: s[:, None, None] * unit(x, 1, 1e-10),
    ),
    Row("Normalize of vectors", "across_spatial: false", lambda x, s: s * unit(x, 1, 1e-10), [BATCH]),
    Row("Normalize channels apart", "channel_shared: false", lambda x, s: s[:, None, None] * unit(x, (1, 2, 3), 0)),
    Row("Silence", "", lambda *x: [], [BATCH, IMAGE], tops=0),
    Row("Insanity", "", insanity(5, 10)),
    Row("Insanity negative", "lb: -2 ub: 3", insanity(-2, 3), [(3, 5)]),
    Row("Insanity TEST", "lb: 2 ub: 4", lambda x: np.where(x > 0, x, x / (2 / np.log(2))), phase="TEST"),
    Row("Normalize NormFace", "normalize_param { bp_norm: true }", normalize(2), tops=2),
    Row(
        "Normalize NormFace L1", 'normalize_param { normalize_type: "L1" bp_norm: true }', normalize(1), [BATCH], tops=2
    ),
    Row(
        "InnerProduct of unit rows",
        f"{DISTANCE} normalize: true bias_term: false",
        lambda x, w: x @ w.T,  # of the weights as they are stored then
        [SCORES],
        exact=False,
    ),
    Row("InnerProduct of blobs", 'bias_filler { type: "gaussian" }', lambda x, w, b: x @ w.T + b, [SCORES, (5, 6)]),
    Row(
        "Accuracy of distances",
        "min_is_better: true",
        lambda x, label: (np.argmin(x, 1) == label).mean(),
        [((9, 3), distinct), ((9,), labels(3))],
    ),
    Row(
        "SoftmaxWithLoss weighed as in SegNet",
        "loss_param { weight_by_label_freqs: true class_weighting: 0.5 class_weighting: 3 "
        "class_weighting: 0.25 ignore_label: 7 }",
        weighed([0.5, 3, 0.25], 7),
        [(3, 3, 4), ((3, 4), labels(3, 7))],
    ),
]
