"""Rows of layers of forks: quantised nets, sequences, self-normalising nets, L-Softmax, EvalDetection."""

from __future__ import annotations

import zlib

import numpy as np
import reference
from layer_row import BATCH, FILL, IMAGE, Row, labels, off_kinks, starts
from reference import convolution
from rows_segmentation import places, unpooled
from rows_yolo import ANCHORS, BIASES, PREDICTIONS, grid, iou, sigmoid

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
        "LargeMarginInnerProduct",
        f"largemargin_inner_product_param {{ {p} }}",
        [((5, 4), off_kinks), ((5,), labels(3))],
        large_margin(m, number),
        tops=2,
        constant=(1,),
        name=kind.lower(),
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
            found = []
            for image, _, _, _, t, box in grid(x, np.array(ANCHORS) / 3, 3):
                odds = np.exp(t[5:]) / np.exp(t[5:]).sum()
                if image == b:
                    found.append((int(odds.argmax()), score(sigmoid(t[4]), odds.max()), box))
            stays = []
            for kind, value, box in sorted(found, key=lambda f: -f[1]):
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
        "EvalDetection",
        f"eval_detection_param {{ {p} }}",
        [((*PREDICTIONS[:2], 3, 3), off_kinks), ((1, 1, 5, 8), objects)],
        judged(score, nms if nms >= 0 else 2),
        constant=(0, 1),
        phase="TEST",
        name=kind.lower(),
    )


ROWS = [
    Row(
        "Unpooling",
        "unpooling_param { kernel_size: 2 stride: 2 unpool_h: 5 unpool_w: 7 }",
        [((2, 3, 2, 3), off_kinks), ((2, 3, 2, 3), places)],
        unpooled(5, 7),
        constant=(1,),
    ),
    Row(
        "Unpooling",
        "unpooling_param { kernel_size: 3 stride: 2 }",
        [((2, 3, 2, 3), off_kinks), ((2, 3, 2, 3), places)],
        unpooled(5, 7),
        constant=(1,),
        name="of any size",
    ),
    eval_row("MULTIPLY", lambda o, c: o * c, 0.45),
    eval_row("OBJ", lambda o, c: o, 0.3),
    eval_row("PROB", lambda o, c: c, -1),
    large_margin_row("SINGLE", 1, 2.0),
    large_margin_row("DOUBLE", 2, 0.0),
    large_margin_row("TRIPLE", 3, 0.5),
    large_margin_row("QUADRUPLE", 4, 3.0),
    Row("Lstm", f"lstm_param {{ num_output: 3 {FILL} }}", [((4, 2), off_kinks)], lstm(1)),
    Row(
        "Lstm",
        f"lstm_param {{ num_output: 3 {FILL} }}",
        [((4, 2, 3), off_kinks), ((4, 2), starts)],
        lstm(2),
        constant=(1,),
        name="of three axes",
    ),
    Row(
        "Lstm",
        f"lstm_param {{ num_output: 2 clipping_threshold: 1e6 {FILL} }}",
        [((6, 1, 2, 2), off_kinks), ((6, 1), starts)],
        lstm(1),
        constant=(1,),
        name="of limited gradients",
    ),
    Row("Reverse", "", [(IMAGE, off_kinks)], lambda x: [x[::-1]]),
    Row("Reverse", "reverse_param { axis: -1 }", [(IMAGE, off_kinks)], lambda x: [x[..., ::-1]], name="of columns"),
    Row(
        "Transpose",
        "transpose_param { dim: 3 dim: 2 dim: 0 dim: 1 }",
        [(IMAGE, off_kinks)],
        lambda x: [x.transpose(3, 2, 0, 1)],
    ),
    Row("SeLu", "", [(IMAGE, off_kinks)], selu(*np.float32([1.050700987, 1.67326324]).astype(float))),
    Row("SeLu", "selu_param { lambda: 2 alpha: -0.5 }", [(BATCH, off_kinks)], selu(2, -0.5), name="negative"),
    Row("SeLuDropout", "selu_dropout_param { dropout_ratio: 0.25 alpha: -1.5 }", [(IMAGE, off_kinks)], alpha_dropout),
    Row("SeLuDropout", "", [(BATCH, off_kinks)], lambda x: [x], phase="TEST", name="TEST"),
    Row("Quant", f"quant_param {{ {CENTERS} negative_slope: 0.25 }}", [(IMAGE, wide)], nearest, exact=False),
    Row(
        "Quant",
        'quant_param { forward_func: "sign" backward_func: "hard_tanh" clip_thr: 1 }',
        [(BATCH, wide)],
        lambda x: [np.where(x < 0, -1.0, 1.0)],
        name="of signs",
        exact=False,
    ),
    Row(
        "Quant",
        'quant_param { forward_func: "hard_tanh" backward_func: "hard_tanh" clip_thr: 1 }',
        [(BATCH, wide)],
        lambda x: [np.clip(x, -1, 1)],
        name="hard tanh",
    ),
    Row(
        "Quant",
        'quant_param { forward_func: "relu" negative_slope: 0.25 }',
        [(BATCH, off_kinks)],
        lambda x: [np.where(x < 0, x / 4, x)],
        name="relu",
    ),
    Row(
        "BinaryConvolution",
        f"convolution_param {{ num_output: 4 kernel_size: 3 pad: 1 stride: 2 group: 2 {FILL} }} "
        "binary_convolution_param { use_alpha: true }",
        [(IMAGE, off_kinks)],
        lambda x, w, b: [convolution(x, binary(w), b, Window((3, 3), (2, 2), (1, 1)), 2)],
        exact=False,
    ),
    Row(
        "BinaryConvolution",
        f"convolution_param {{ num_output: 3 kernel_size: 2 {FILL} }} "
        "binary_convolution_param { use_binarization: false }",
        [(IMAGE, off_kinks)],
        lambda x, w, b: [convolution(x, w, b, Window((2, 2)), 1)],
        name="of full weights",
    ),
    Row(
        "BinaryInnerProduct",
        f"inner_product_param {{ num_output: 4 {FILL} }} binary_inner_product_param {{ use_alpha: true }}",
        [(IMAGE, off_kinks)],
        lambda x, w, b: [x.reshape(len(x), -1) @ binary(w).T + b],
        exact=False,
    ),
    Row(
        "BinaryInnerProduct",
        f"inner_product_param {{ num_output: 4 bias_term: false {FILL} }}",
        [(BATCH, off_kinks)],
        lambda x, w: [x @ binary(w, False).T],
        name="of signs",
        exact=False,
    ),
    Row("Sparsify", "", [(BATCH, off_kinks)], lambda x: [x]),
    Row("Sparsify", "sparsify_param { thre: 0.5 }", [(IMAGE, wide)], shrunk, name="of a threshold"),
]
