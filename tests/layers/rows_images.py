"""Rows of the table of layers: Layers over images: convolution, pooling, columns, crops."""

from __future__ import annotations

import math

import numpy as np
import reference
from layer_row import FILL, IMAGE, Row, distinct, off_kinks, positive
from oracles import columns, convolution, correlation, drawn, pooling, pyramid, transposed, volumes, winners

from caffelite.devices import Window


def means_inside(kernel, stride, pad):
    """Means of the pixels that windows have in the image, whose number is as of Caffe."""

    def oracle(x):
        starts = []
        for size, k, p in zip(x.shape[2:], kernel, pad, strict=True):
            count = math.ceil((size + 2 * p - k) / stride) + 1
            starts.append([i * stride - p for i in range(count) if i * stride < size + p])
        y = np.zeros((*x.shape[:2], *map(len, starts)))
        for i, row in enumerate(starts[0]):
            for j, column in enumerate(starts[1]):
                rows, columns = slice(max(0, row), row + kernel[0]), slice(max(0, column), column + kernel[1])
                y[:, :, i, j] = x[:, :, rows, columns].mean((2, 3))
        return [y]

    return oracle


ROWS = [
    Row(
        "Padding",
        "padding_param { pad_beg: 2 pad_end: 1 pad_t: 1 }",
        [(IMAGE, off_kinks)],
        lambda x: [np.pad(x, ((0, 0), (0, 0), (3, 1), (2, 1)))],
        name="of Deeplab",
    ),
    Row(
        "Padding",
        "padding_param { pad_beg: -1 pad_end: -2 pad_l: 3 }",
        [(IMAGE, off_kinks)],
        lambda x: [np.pad(x[:, :, 1:-2, :-2], ((0, 0), (0, 0), (0, 0), (2, 0)))],
        name="that cuts",
    ),
    Row(
        "Padding",
        "padding_param { pad_l: 1 pad_r: 2 pad_b: 3 value: -0.5 }",
        [(IMAGE, off_kinks)],
        lambda x: [np.pad(x, ((0, 0), (0, 0), (0, 3), (1, 2)), constant_values=-0.5)],
    ),
    Row(
        "Convolution",
        f"convolution_param {{ num_output: 4 kernel_size: 3 {FILL} }}",
        [(IMAGE, off_kinks)],
        convolution(Window((3, 3))),
    ),
    Row(
        "Convolution",
        f"convolution_param {{ num_output: 6 kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 2 "
        f"group: 2 {FILL} }}",
        [(IMAGE, off_kinks)],
        convolution(Window((2, 3), (2, 1), (0, 2)), 2),
        name="grouped",
    ),
    Row(
        "Convolution",
        f"convolution_param {{ num_output: 2 kernel_size: 3 kernel_size: 2 dilation: 2 pad: 1 bias_term: false "
        f"{FILL} }}",
        [(IMAGE, off_kinks)],
        convolution(Window((3, 2), (1, 1), (1, 1), (2, 2))),
        name="dilated",
    ),
    Row(
        "Convolution",
        f"convolution_param {{ num_output: 2 kernel_size: 2 {FILL} }}",
        [(IMAGE, off_kinks)] * 2,
        lambda x0, x1, w, b: [reference.convolution(x, w, b, Window((2, 2))) for x in (x0, x1)],
        tops=2,
        name="of two",
    ),
    Row(
        "Pooling",
        "pooling_param { kernel_size: 3 stride: 2 pad: 1 }",
        [(IMAGE, distinct)],
        pooling("MAX", Window((3, 3), (2, 2), (1, 1))),
    ),
    Row(
        "Pooling",
        "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }",
        [(IMAGE, off_kinks)],
        pooling("AVE", Window((3, 3), (2, 2), (1, 1))),
        name="average",
    ),
    Row(
        "Pooling",
        "pooling_param { pool: AVE_EXC_PAD kernel_h: 3 kernel_w: 4 stride: 2 pad_h: 1 pad_w: 2 }",
        [(IMAGE, off_kinks)],
        means_inside((3, 4), 2, (1, 2)),
        name="average without pad",
    ),
    Row(
        "Pooling",
        "pooling_param { pool: AVE kernel_size: 3 stride: 1 pad: 1 avg_include_pad: false }",
        [((2, 3, 5, 6), off_kinks)],
        means_inside((3, 3), 1, (1, 1)),
        name="average of Intel",
    ),
    Row(
        "Pooling",
        "pooling_param { pool: AVE global_pooling: true }",
        [(IMAGE, off_kinks)],
        lambda x: [x.mean((2, 3), keepdims=True)],
        name="global",
    ),
    Row(
        "Pooling",
        "pooling_param { kernel_h: 7 kernel_w: 6 stride: 2 }",
        [(IMAGE, distinct)],
        lambda x: [x.max((2, 3), keepdims=True)],
        name="larger than the image",
    ),
    Row(
        "Pooling",
        "pooling_param { pool: AVE kernel_h: 8 kernel_w: 8 stride: 3 pad_h: 0 pad_w: 1 }",
        [(IMAGE, off_kinks)],
        pooling("AVE", Window((8, 8), (3, 3), (0, 1))),
        name="average larger than the padded image",
    ),
    Row(
        "Pooling",
        "pooling_param { kernel_size: 2 stride: 3 ceil_mode: false }",
        [((2, 4, 6, 6), distinct)],
        lambda x: [
            np.stack([x[:, :, i : i + 2, j : j + 2].max((2, 3)) for i in (0, 3) for j in (0, 3)], -1).reshape(
                *x.shape[:2], 2, 2
            )
        ],
        name="floor of forks",
    ),
    Row(
        "Pooling",
        "pooling_param { kernel_size: 2 stride: 3 round_mode: FLOOR }",
        [((2, 4, 6, 6), distinct)],
        lambda x: [
            np.stack([x[:, :, i : i + 2, j : j + 2].max((2, 3)) for i in (0, 3) for j in (0, 3)], -1).reshape(
                *x.shape[:2], 2, 2
            )
        ],
        name="floor",
    ),
    Row(
        "Convolution",
        f"convolution_param {{ num_output: 4 kernel_size: 3 stride: 2 pad: 1 group: 2 {FILL} }}",
        [((2, 4, 7), off_kinks)],
        correlation(Window((3,), (2,), (1,), (1,)), 2),
        name="of one axis",
    ),
    Row(
        "Convolution",
        "convolution_param { num_output: 4 kernel_size: 3 kernel_size: 2 kernel_size: 3 stride: 2 stride: 1 stride: "
        "2 pad: 1 "
        f"dilation: 1 dilation: 2 dilation: 1 group: 2 force_nd_im2col: true engine: CAFFE {FILL} }}",
        [((2, 2, 4, 5, 5), off_kinks)],
        correlation(Window((3, 2, 3), (2, 1, 2), (1, 1, 1), (1, 2, 1)), 2),
        name="of three axes",
    ),
    Row(
        "Convolution",
        f"convolution_param {{ num_output: 2 kernel_size: 2 bias_term: false {FILL} }}",
        [((2, 1, 2, 3, 2, 3), off_kinks)],
        correlation(Window((2,) * 4, (1,) * 4, (0,) * 4, (1,) * 4)),
        name="of four axes",
    ),
    Row(
        "Convolution",
        f"convolution_param {{ num_output: 4 kernel_size: 3 pad: 1 stride: 2 group: 2 {FILL} }}",
        [((3, 6), off_kinks)],
        lambda x, w, b: [np.concatenate([x[:, :3] @ w[:2].T, x[:, 3:] @ w[2:].T], 1) + b],
        name="without spatial axes",
    ),
    Row(
        "Convolution",
        f"convolution_param {{ num_output: 4 axis: 2 bias_term: false {FILL} }}",
        [((2, 3, 5), off_kinks)],
        lambda x, w: [x @ w.T],
        name="of rows",
    ),
    Row(
        "Deconvolution",
        f"convolution_param {{ num_output: 4 kernel_size: 1 axis: -1 {FILL} }}",
        [((3, 5), off_kinks)],
        lambda x, w, b: [x @ w + b],
        name="without spatial axes",
    ),
    Row(
        "Convolution",
        f"convolution_param {{ num_output: 3 kernel_size: 2 axis: -3 {FILL} }}",
        [((2, 2, 2, 4, 3), off_kinks)],
        lambda x, w, b: [
            reference.convolution(x.reshape(-1, 2, 4, 3), w, b, Window((2, 2))).reshape(len(x), 2, 3, 3, 2)
        ],
        name="of sequences",
    ),
    Row(
        "Deconvolution",
        f"convolution_param {{ num_output: 3 kernel_size: 3 stride: 2 {FILL} }}",
        [(IMAGE, off_kinks)],
        transposed(Window((3, 3), (2, 2), (0, 0), (1, 1))),
    ),
    Row(
        "Deconvolution",
        "convolution_param { num_output: 6 kernel_h: 4 kernel_w: 2 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0 "
        "dilation: 1 dilation: 2 "
        f"group: 2 bias_term: false {FILL} }}",
        [(IMAGE, off_kinks)],
        transposed(Window((4, 2), (2, 1), (1, 0), (1, 2)), 2),
        name="grouped",
    ),
    Row(
        "Deconvolution",
        f"convolution_param {{ num_output: 2 kernel_size: 3 stride: 2 pad: 1 {FILL} }}",
        [((2, 3, 4), off_kinks)],
        transposed(Window((3,), (2,), (1,), (1,))),
        name="of one axis",
    ),
    Row(
        "Deconvolution",
        f"convolution_param {{ num_output: 2 kernel_size: 2 stride: 2 stride: 1 stride: 2 pad: 0 pad: 1 pad: 1 "
        f"group: 2 {FILL} }}",
        [((2, 4, 2, 3, 2), off_kinks)],
        transposed(Window((2, 2, 2), (2, 1, 2), (0, 1, 1), (1, 1, 1)), 2),
        name="of three axes",
    ),
    Row(
        "Im2col",
        "convolution_param { kernel_size: 3 kernel_size: 2 stride: 2 pad: 1 dilation: 1 dilation: 2 }",
        [(IMAGE, off_kinks)],
        columns(Window((3, 2), (2, 2), (1, 1), (1, 2))),
    ),
    Row(
        "Im2col",
        "convolution_param { kernel_size: 2 stride: 2 pad: 1 }",
        [((2, 3, 5), off_kinks)],
        columns(Window((2,), (2,), (1,), (1,))),
        name="of one axis",
    ),
    Row(
        "Im2col",
        "convolution_param { kernel_size: 2 pad: 1 stride: 2 stride: 1 stride: 1 }",
        [((2, 2, 3, 2, 3), off_kinks)],
        columns(Window((2,) * 3, (2, 1, 1), (1,) * 3, (1,) * 3)),
        name="of three axes",
    ),
    Row(
        "Crop",
        "crop_param { offset: 1 }",
        [(IMAGE, off_kinks), ((2, 4, 3, 4), off_kinks)],
        lambda x, r: [x[:, :, 1:4, 1:5]],
    ),
    Row(
        "Crop",
        "crop_param { axis: -3 offset: 1 offset: 0 offset: 2 }",
        [(IMAGE, off_kinks), ((2, 2, 6, 3), off_kinks)],
        lambda x, r: [x[:, 1:3, :, 2:]],
        name="of channels",
    ),
    Row(
        "Pooling",
        "pooling_param { kernel_size: 3 stride: 2 pad: 1 engine: CAFFE }",
        [(IMAGE, distinct)],
        winners(Window((3, 3), (2, 2), (1, 1))),
        tops=2,
        name="and its winners",
    ),
    Row(
        "Pooling",
        "pooling_param { pool: STOCHASTIC kernel_size: 3 stride: 2 }",
        [(IMAGE, positive)],
        drawn(Window((3, 3), (2, 2))),
        name="drawn",
    ),
    Row(
        "Pooling",
        "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }",
        [((2, 3, 7), off_kinks)],
        lambda x: [reference.pooling("AVE", x[:, :, None], Window((1, 3), (1, 2), (0, 1)))[0][:, :, 0]],
        name="of one axis",
    ),
    Row(
        "Pooling3D",
        "pooling3d_param { kernel_size: 2 stride: 2 kernel_depth: 3 temporal_stride: 2 }",
        [((2, 2, 6, 5, 4), distinct)],
        volumes(np.max, (3, 2, 2), (2, 2, 2)),
    ),
    Row(
        "Pooling3D",
        "pooling3d_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 kernel_depth: 2 temporal_stride: 2 }",
        [((2, 3, 3, 5, 4), off_kinks)],
        volumes(np.mean, (2, 3, 3), (2, 2, 2), pad=1, past=1),
        name="of means",
    ),
    Row(
        "SPP",
        "spp_param { pyramid_height: 3 }",
        [((2, 3, 9, 7), distinct)],
        pyramid("MAX", Window((9, 7), (9, 7)), Window((5, 4), (5, 4), (1, 1)), Window((3, 2), (3, 2), (2, 1))),
    ),
    Row(
        "SPP",
        "spp_param { pyramid_height: 2 pool: AVE engine: CUDNN }",
        [(IMAGE, off_kinks)],
        pyramid("AVE", Window((6, 5), (6, 5)), Window((3, 3), (3, 3), (0, 1))),
        name="of means",
    ),
    Row(
        "SPP",
        "spp_param { pyramid_height: 1 }",
        [(IMAGE, distinct)],
        lambda x: [x.max((2, 3), keepdims=True)],
        name="of one level",
    ),
]
