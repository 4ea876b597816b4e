"""Rows of the table of layers: quantized nets."""

import numpy as np
from layers.layer_row import Row, off_kinks
from reference import convolution
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


ROWS = [
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
