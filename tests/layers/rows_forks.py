"""Rows of layers of forks: quantized nets, sequences, self-normalizing nets, L-Softmax, EvalDetection."""

import zlib

import numpy as np
import reference
from layer_row import Row, labels, off_kinks, starts
from reference import convolution
from rows_segmentation import places, unpooled
from rows_yolo import ANCHORS, BIASES, PREDICTIONS, grid, iou, sigmoid
from textnet import BATCH, IMAGE

from caffelite.devices import Window

CENTERS = "centers: 0.5 centers: 1 centers: 2"


def wide(rng, shape):
    return 2 * off_kinks(rng, shape)


def nearest(x):
    """The nearest of three centers, the lower one of two; -0.25 below 0."""
    centers = np.array([0.5, 1, 2])
    return [np.where(x > 0, centers[np.abs(x[..., None] - centers).argmin(-1)], -0.25)]


def binary(w, alpha=True):
    rows = np.abs(w.reshape(len(w), -1)).mean(1) if alpha else np.ones(len(w))
    return np.where(w < 0, -1, 1) * rows.reshape(-1, *[1] * (w.ndim - 1))


def shrunk(x):
    return [np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)]


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


def lstm(n):
    """Sequences of n rows a step; without k each starts at the first step."""

    def oracle(x, *more):
        *k, w_x, w_h, b = more
        steps = x.reshape(-1, n, w_x.shape[1])
        starts = np.ones((len(steps), n))
        starts[0] = 0
        k = k[0].reshape(-1, n) if k else starts
        states = [np.zeros((n, w_h.shape[1]))] * 2
        h = reference.lstm(steps, k, None, states, [w_x, b, w_h])[0]
        return [h.reshape(*x.shape[:2], -1) if x.ndim == 3 else h.reshape(len(x), -1)]

    return oracle


def selu(scale, alpha):
    return lambda x: [scale * np.where(x > 0, x, alpha * np.expm1(x))]


def alpha_dropout(x):
    kept = reference.dropout_mask(len(x), x[0].size, 0.25, 1, zlib.crc32(b"layer"), 0, 0).reshape(x.shape) > 0
    y = np.where(kept, x, -1.5)
    a = (0.75 + 2.25 * 0.75 * 0.25) ** -0.5
    return [a * y + a * 0.25 * 1.5]


def objects(rng, shape):
    """Rows of image, class, instance, corners, difficult; the last is none."""
    table = np.zeros(shape)
    table[0, 0, :, 0], table[0, 0, -1, 0] = np.arange(shape[2]) % 2, -1
    table[0, 0, :, 1] = rng.integers(1, 4, shape[2])
    table[0, 0, :, 3:5] = rng.uniform(0, 0.5, (shape[2], 2))
    table[0, 0, :, 5:7] = table[0, 0, :, 3:5] + rng.uniform(0.2, 0.5, (shape[2], 2))
    return table


def judged(score, overlap):
    """Index by index; boxes x, y, w, h."""

    def oracle(x, known):
        out = np.zeros((len(x), 3 + 9 * 2 * 4))
        truths = [(int(r[0]), int(r[1]) - 1, (*((r[3:5] + r[5:7]) / 2), *(r[5:7] - r[3:5]))) for r in known[0, 0]]
        for b, row in enumerate(out):
            mine = [t for t in truths if t[0] == b]
            for _, kind, _ in mine:
                row[kind] += 1
            actual = []
            for image, _, _, _, t, box in grid(x, np.array(ANCHORS) / 3, 3):
                odds = np.exp(t[5:]) / np.exp(t[5:]).sum()
                if image == b:
                    actual.append((int(odds.argmax()), score(sigmoid(t[4]), odds.max()), box))
            stays = []
            for kind, value, box in sorted(actual, key=lambda f: -f[1]):
                if all(iou(box, other[2]) < overlap for other in stays):
                    stays.append((kind, value, box))
            taken, at = set(), 3
            for kind, value, box in sorted(stays, key=lambda s: (s[0], -s[1])):
                if value < 0.005:
                    continue
                best = max((t for t in mine if t[1] == kind), key=lambda t: iou(box, t[2]), default=None)
                right = best is not None and iou(box, best[2]) >= 0.25 and best not in taken
                taken |= {best} if best is not None and iou(box, best[2]) >= 0.25 else set()
                row[at : at + 4] = kind, value, right, not right
                at += 4
        return [out]

    return oracle


def eval_row(kind, score, nms):
    p = f"side: 3 num_class: 3 num_object: 2 threshold: 0.25 nms: {nms} score_type: {kind} {BIASES}"
    return Row(
        f"EvalDetection {kind.lower()}",
        p,
        judged(score, nms if nms >= 0 else 2),
        [(*PREDICTIONS[:2], 3, 3), ((1, 1, 5, 8), objects)],
        constant=(0, 1),
        phase="TEST",
    )


ROWS = [
    Row(
        "Unpooling",
        "kernel_size: 2 stride: 2 unpool_h: 5 unpool_w: 7",
        unpooled(5, 7),
        [(2, 3, 2, 3), ((2, 3, 2, 3), places)],
        constant=(1,),
    ),
    Row(
        "Unpooling of any size",
        "kernel_size: 2 stride: 2",
        unpooled(4, 6),
        [(2, 3, 2, 3), ((2, 3, 2, 3), places)],
        constant=(1,),
    ),
    Row(
        "Unpooling of sides",
        "kernel_h: 6 kernel_w: 3 stride_h: 4 stride_w: 2 pad_h: 2 pad_w: 0",
        unpooled(6, 7),
        [(2, 3, 2, 3), ((2, 3, 2, 3), places)],
        constant=(1,),
    ),
    eval_row("MULTIPLY", lambda o, c: o * c, 0.45),
    eval_row("OBJ", lambda o, c: o, 0.3),
    eval_row("PROB", lambda o, c: c, -1),
    large_margin_row("SINGLE", 1, 2.0),
    large_margin_row("DOUBLE", 2, 0.0),
    large_margin_row("TRIPLE", 3, 0.5),
    large_margin_row("QUADRUPLE", 4, 3.0),
    Row("Lstm", "num_output: 3", lstm(1), [(4, 2)]),
    Row("Lstm of three axes", "num_output: 3", lstm(2), [(4, 2, 3), ((4, 2), starts)]),
    Row(
        "Lstm of limited gradients", "num_output: 2 clipping_threshold: 1e6", lstm(1), [(6, 1, 2, 2), ((6, 1), starts)]
    ),
    Row("Reverse", "", lambda x: x[::-1]),
    Row("Reverse of columns", "axis: -1", lambda x: x[..., ::-1]),
    Row("Transpose", "dim: 3 dim: 2 dim: 0 dim: 1", lambda x: x.transpose(3, 2, 0, 1)),
    Row("SeLu", "", selu(*np.float32([1.050700987, 1.67326324]).astype(float))),
    Row("SeLu negative", "lambda: 2 alpha: -0.5", selu(2, -0.5), [BATCH]),
    Row("SeLuDropout", "dropout_ratio: 0.25 alpha: -1.5", alpha_dropout),
    Row("SeLuDropout TEST", "", lambda x: x, [BATCH], phase="TEST"),
    Row("Quant", f"{CENTERS} negative_slope: 0.25", nearest, [(IMAGE, wide)], exact=False),
    Row(
        "Quant of signs",
        'forward_func: "sign" backward_func: "hard_tanh" clip_thr: 1',
        lambda x: np.where(x < 0, -1.0, 1.0),
        [(BATCH, wide)],
        exact=False,
    ),
    Row(
        "Quant hard tanh",
        'forward_func: "hard_tanh" backward_func: "hard_tanh" clip_thr: 1',
        lambda x: np.clip(x, -1, 1),
        [(BATCH, wide)],
    ),
    Row("Quant relu", 'forward_func: "relu" negative_slope: 0.25', lambda x: np.where(x < 0, x / 4, x), [BATCH]),
    Row(
        "BinaryConvolution",
        "convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 group: 2 } "
        "binary_convolution_param { use_alpha: true }",
        lambda x, w, b: convolution(x, binary(w), b, Window((3, 3), (2, 2), (1, 1)), 2),
        exact=False,
    ),
    Row(
        "BinaryConvolution of full weights",
        "convolution_param { num_output: 3 kernel_size: 2 } binary_convolution_param { use_binarization: false }",
        lambda x, w, b: convolution(x, w, b, Window((2, 2)), 1),
    ),
    Row(
        "BinaryInnerProduct",
        "inner_product_param { num_output: 4 } binary_inner_product_param { use_alpha: true }",
        lambda x, w, b: x.reshape(len(x), -1) @ binary(w).T + b,
        exact=False,
    ),
    Row(
        "BinaryInnerProduct of signs",
        "num_output: 4 bias_term: false",
        lambda x, w: x @ binary(w, False).T,
        [BATCH],
        exact=False,
    ),
    Row("Sparsify", "", lambda x: x, [BATCH]),
    Row("Sparsify of a threshold", "thre: 0.5", shrunk, [(IMAGE, wide)]),
]
