"""Rows of layers of forks: quantized nets, sequences, self-normalizing nets, L-Softmax, EvalDetection."""

import zlib

import numpy as np
import reference
from layers.layer_row import Row, starts
from textnet import BATCH


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


# Some move samples or have several in a row; a dropped value is a constant.
UNLIKE = "Lstm Reverse Transpose SeLuDropout".split()

ROWS = [
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
]
