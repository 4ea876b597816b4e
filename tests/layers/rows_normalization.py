"""Rows of the table of layers: Normalization, Scale and Bias."""

import numpy as np
import reference
from layers.layer_row import Row
from layers.oracles import normalized, within
from textnet import IMAGE

# The samples of a batch share their moments.
UNLIKE = "BatchNorm".split()

ROWS = [
    Row("BatchNorm", "", lambda x, *stored: normalized(x, (0, 2, 3), 1e-5)),
    Row("BatchNorm of vectors", "eps: 0.5", lambda x, *stored: normalized(x, 0, 0.5), [(5, 3)]),
    Row("BatchNorm of parts", "stats_batch_size: 1", lambda x, *stored: normalized(x, (2, 3), 1e-5)),
    Row(
        "BatchNorm of parts with scale and bias",
        "stats_batch_size: 1 use_weight_bias: true",
        lambda x, mean, variance, factor, s, b: normalized(x, (2, 3), 1e-5)[0] * s[:, None, None] + b[:, None, None],
    ),
    Row("Scale", "", lambda x, s: x * s[:, None, None]),
    Row("Scale of pixels, with bias", "axis: -2 num_axes: 2 bias_term: true", lambda x, s, b: x * s + b),
    Row("Scale by a number", "num_axes: 0 bias_term: true", lambda x, s, b: x * s + b),
    Row("Scale to the end", "axis: 2 num_axes: -1", lambda x, s: x * s),
    Row("Scale by a bottom", "axis: 0", lambda x, s: x * s[..., None, None], [IMAGE, (2, 4)]),
    Row(
        "Scale by a bottom, with bias",
        "axis: 0 bias_term: true",
        lambda x, s, b: x * s[..., None, None] + b[..., None, None],
        [IMAGE, (2, 4)],
    ),
    Row("Bias", "", lambda x, b: x + b[:, None, None]),
    Row("Bias last axis", "axis: -1", lambda x, b: x + b),
    Row("Bias by a number", "num_axes: 0", lambda x, b: x + b),
    Row("Bias by a bottom", "axis: 0", lambda x, b: x + b[..., None], [IMAGE, (2, 4, 6)]),
    Row("MVN", "", lambda x: normalized(x, (2, 3), 1e-9, root=False)),
    Row("MVN across channels", "across_channels: true eps: 1e-6", lambda x: normalized(x, (1, 2, 3), 1e-6, root=False)),
    Row("MVN of means", "normalize_variance: false", lambda x: x - x.mean((2, 3), keepdims=True)),
    Row("LRN", "", lambda x: reference.lrn(x, 5, 1, 0.75, 1)[0]),
    Row(
        "LRN tuned",
        "local_size: 3 alpha: 0.5 beta: 1.5 k: 2 engine: CAFFE",
        lambda x: reference.lrn(x, 3, 0.5, 1.5, 2)[0],
        [(2, 7, 2, 3)],
    ),
    Row(
        "LRN within a channel",
        "norm_region: WITHIN_CHANNEL local_size: 3 alpha: 0.5 beta: 0.7",
        lambda x: within(x, 3, 0.5, float(np.float32(0.7))),
    ),
    Row(
        "BatchNorm with scale and bias",
        "scale_bias: true",
        lambda x, m, v, f, g, b: normalized(x, (0, 2, 3), 1e-5)[0] * g[:, None, None] + b[:, None, None],
    ),
    Row(
        "BatchNorm with scale",
        'use_weight_bias: true bias_term: false filler { type: "uniform" } eps: 0.5',
        lambda x, m, v, f, g: normalized(x, 0, 0.5)[0] * g,
        [(5, 3)],
    ),
]
