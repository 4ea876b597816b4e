"""Rows of the table of layers: Normalisation, Scale and Bias."""

from __future__ import annotations

import numpy as np
import reference
from layer_row import IMAGE, Row, off_kinks
from oracles import normalised, within

ROWS = [
    Row("BatchNorm", "", [(IMAGE, off_kinks)], lambda x, *stored: normalised(x, (0, 2, 3), 1e-5)),
    Row(
        "BatchNorm",
        "batch_norm_param { eps: 0.5 }",
        [((5, 3), off_kinks)],
        lambda x, *stored: normalised(x, 0, 0.5),
        name="of vectors",
    ),
    Row("Scale", "", [(IMAGE, off_kinks)], lambda x, s: [x * s[:, None, None]]),
    Row(
        "Scale",
        "scale_param { axis: -2 num_axes: 2 bias_term: true }",
        [(IMAGE, off_kinks)],
        lambda x, s, b: [x * s + b],
        name="of pixels, with bias",
    ),
    Row(
        "Scale",
        "scale_param { num_axes: 0 bias_term: true }",
        [(IMAGE, off_kinks)],
        lambda x, s, b: [x * s + b],
        name="by a number",
    ),
    Row("Scale", "scale_param { axis: 2 num_axes: -1 }", [(IMAGE, off_kinks)], lambda x, s: [x * s], name="to the end"),
    Row(
        "Scale",
        "scale_param { axis: 0 }",
        [(IMAGE, off_kinks), ((2, 4), off_kinks)],
        lambda x, s: [x * s[..., None, None]],
        name="by a bottom",
    ),
    Row(
        "Scale",
        "scale_param { axis: 0 bias_term: true }",
        [(IMAGE, off_kinks), ((2, 4), off_kinks)],
        lambda x, s, b: [x * s[..., None, None] + b[..., None, None]],
        name="by a bottom, with bias",
    ),
    Row("Bias", "", [(IMAGE, off_kinks)], lambda x, b: [x + b[:, None, None]]),
    Row("Bias", "bias_param { axis: -1 }", [(IMAGE, off_kinks)], lambda x, b: [x + b], name="last axis"),
    Row("Bias", "bias_param { num_axes: 0 }", [(IMAGE, off_kinks)], lambda x, b: [x + b], name="by a number"),
    Row(
        "Bias",
        "bias_param { axis: 0 }",
        [(IMAGE, off_kinks), ((2, 4, 6), off_kinks)],
        lambda x, b: [x + b[..., None]],
        name="by a bottom",
    ),
    Row("MVN", "", [(IMAGE, off_kinks)], lambda x: normalised(x, (2, 3), 1e-9, root=False)),
    Row(
        "MVN",
        "mvn_param { across_channels: true eps: 1e-6 }",
        [(IMAGE, off_kinks)],
        lambda x: normalised(x, (1, 2, 3), 1e-6, root=False),
        name="across channels",
    ),
    Row(
        "MVN",
        "mvn_param { normalize_variance: false }",
        [(IMAGE, off_kinks)],
        lambda x: [x - x.mean((2, 3), keepdims=True)],
        name="of means",
    ),
    Row("LRN", "", [(IMAGE, off_kinks)], lambda x: [reference.lrn(x, 5, 1, 0.75, 1)[0]]),
    Row(
        "LRN",
        "lrn_param { local_size: 3 alpha: 0.5 beta: 1.5 k: 2 engine: CAFFE }",
        [((2, 7, 2, 3), off_kinks)],
        lambda x: [reference.lrn(x, 3, 0.5, 1.5, 2)[0]],
        name="tuned",
    ),
    Row(
        "LRN",
        "lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 alpha: 0.5 beta: 0.7 }",
        [(IMAGE, off_kinks)],
        lambda x: within(x, 3, 0.5, float(np.float32(0.7))),
        name="within a channel",
    ),
    Row(
        "BatchNorm",
        "batch_norm_param { scale_bias: true }",
        [(IMAGE, off_kinks)],
        lambda x, m, v, f, g, b: [normalised(x, (0, 2, 3), 1e-5)[0] * g[:, None, None] + b[:, None, None]],
        name="with scale and bias",
    ),
    Row(
        "BatchNorm",
        'batch_norm_param { use_weight_bias: true bias_term: false filler { type: "uniform" } eps: 0.5 }',
        [((5, 3), off_kinks)],
        lambda x, m, v, f, g: [normalised(x, 0, 0.5)[0] * g],
        name="with scale",
    ),
]
