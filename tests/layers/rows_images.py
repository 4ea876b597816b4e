"""Rows of the table of layers: Layers over images: convolution, pooling, columns, crops."""

import math

import numpy as np
import reference
from layers.layer_row import Row, distinct, positive
from layers.oracles import columns, convolution, correlation, drawn, pooling, pyramid, transposed, volumes, winners
from textnet import IMAGE

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


def sided(kernel: int, stride: int, before: int, after: int, kind: str):
    """Square windows of an image that has ``before`` pixels at the left and top and ``after`` at the right and bottom
    around it: the largest number and its place, the mean of a window in the padded image, or of its pixels."""

    def oracle(x):
        starts = []
        for size in x.shape[2:]:
            count = math.ceil((size + before + after - kernel) / stride) + 1
            starts.append([i * stride - before for i in range(count) if i * stride < size + before])
        y = np.zeros((2, *x.shape[:2], *map(len, starts)))
        for (n, c, i, j), _ in np.ndenumerate(y[0]):
            at = [
                (rows[k], min(rows[k] + kernel, size + after))
                for rows, k, size in zip(starts, (i, j), x.shape[2:], strict=True)
            ]
            part = x[n, c][tuple(slice(max(0, low), high) for low, high in at)]
            if kind == "MAX":
                where = np.unravel_index(part.argmax(), part.shape)
                y[:, n, c, i, j] = part.max(), (where[0] + max(0, at[0][0])) * x.shape[3] + where[1] + max(0, at[1][0])
            else:
                size = math.prod(high - low for low, high in at)
                y[0, n, c, i, j] = part.mean() if kind == "AVE_EXC_PAD" else part.sum() / size
        return list(y) if kind == "MAX" else [y[0]]

    return oracle


# The columns of a pad are 0.
UNLIKE = "Im2col Padding".split()

ROWS = [
    Row("Padding of Deeplab", "pad_beg: 2 pad_end: 1 pad_t: 1", lambda x: np.pad(x, ((0, 0), (0, 0), (3, 1), (2, 1)))),
    Row(
        "Padding that cuts",
        "pad_beg: -1 pad_end: -2 pad_l: 3",
        lambda x: np.pad(x[:, :, 1:-2, :-2], ((0, 0), (0, 0), (0, 0), (2, 0))),
    ),
    Row(
        "Padding",
        "pad_l: 1 pad_r: 2 pad_b: 3 value: -0.5",
        lambda x: np.pad(x, ((0, 0), (0, 0), (0, 3), (1, 2)), constant_values=-0.5),
    ),
    Row("Convolution", "num_output: 4 kernel_size: 3", convolution(Window((3, 3)))),
    Row(
        "Convolution grouped",
        "num_output: 6 kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 2 group: 2",
        convolution(Window((2, 3), (2, 1), (0, 2)), 2),
    ),
    Row(
        "Convolution dilated",
        "num_output: 2 kernel_size: 3 kernel_size: 2 dilation: 2 pad: 1 bias_term: false",
        convolution(Window((3, 2), (1, 1), (1, 1), (2, 2))),
    ),
    Row(
        "Convolution of two",
        "num_output: 2 kernel_size: 2",
        lambda x0, x1, w, b: [reference.convolution(x, w, b, Window((2, 2))) for x in (x0, x1)],
        [IMAGE, IMAGE],
        tops=2,
    ),
    Row(
        "Pooling",
        "kernel_size: 3 stride: 2 pad: 1",
        pooling("MAX", Window((3, 3), (2, 2), (1, 1))),
        [(IMAGE, distinct)],
    ),
    Row("Pooling average", "pool: AVE kernel_size: 3 stride: 2 pad: 1", pooling("AVE", Window((3, 3), (2, 2), (1, 1)))),
    Row(
        "Pooling average without pad",
        "pool: AVE_EXC_PAD kernel_h: 3 kernel_w: 4 stride: 2 pad_h: 1 pad_w: 2",
        means_inside((3, 4), 2, (1, 2)),
    ),
    Row(
        "Pooling average of Intel",
        "pool: AVE kernel_size: 3 stride: 1 pad: 1 avg_include_pad: false",
        means_inside((3, 3), 1, (1, 1)),
        [(2, 3, 5, 6)],
    ),
    Row("Pooling global", "pool: AVE global_pooling: true", lambda x: x.mean((2, 3), keepdims=True)),
    Row(
        "Pooling larger than the image",
        "kernel_h: 7 kernel_w: 6 stride: 2",
        lambda x: x.max((2, 3), keepdims=True),
        [(IMAGE, distinct)],
    ),
    Row(
        "Pooling average larger than the padded image",
        "pool: AVE kernel_h: 8 kernel_w: 8 stride: 3 pad_h: 0 pad_w: 1",
        pooling("AVE", Window((8, 8), (3, 3), (0, 1))),
    ),
    Row(
        "Pooling floor of forks",
        "kernel_size: 2 stride: 3 ceil_mode: false",
        lambda x: np.stack([x[:, :, i : i + 2, j : j + 2].max((2, 3)) for i in (0, 3) for j in (0, 3)], -1).reshape(
            *x.shape[:2], 2, 2
        ),
        [((2, 4, 6, 6), distinct)],
    ),
    Row(
        "Pooling floor",
        "kernel_size: 2 stride: 3 round_mode: FLOOR",
        lambda x: np.stack([x[:, :, i : i + 2, j : j + 2].max((2, 3)) for i in (0, 3) for j in (0, 3)], -1).reshape(
            *x.shape[:2], 2, 2
        ),
        [((2, 4, 6, 6), distinct)],
    ),
    Row(
        "Convolution of one axis",
        "num_output: 4 kernel_size: 3 stride: 2 pad: 1 group: 2",
        correlation(Window((3,), (2,), (1,), (1,)), 2),
        [(2, 4, 7)],
    ),
    Row(
        "Convolution of three axes",
        "num_output: 4 kernel_size: 3 kernel_size: 2 kernel_size: 3 stride: 2 stride: 1 stride: 2 pad: 1 "
        "dilation: 1 dilation: 2 dilation: 1 group: 2 force_nd_im2col: true engine: CAFFE",
        correlation(Window((3, 2, 3), (2, 1, 2), (1, 1, 1), (1, 2, 1)), 2),
        [(2, 2, 4, 5, 5)],
    ),
    Row(
        "Convolution of four axes",
        "num_output: 2 kernel_size: 2 bias_term: false",
        correlation(Window((2,) * 4, (1,) * 4, (0,) * 4, (1,) * 4)),
        [(2, 1, 2, 3, 2, 3)],
    ),
    Row(
        "Convolution without spatial axes",
        "num_output: 4 kernel_size: 3 pad: 1 stride: 2 group: 2",
        lambda x, w, b: np.concatenate([x[:, :3] @ w[:2].T, x[:, 3:] @ w[2:].T], 1) + b,
        [(3, 6)],
    ),
    Row("Convolution of rows", "num_output: 4 axis: 2 bias_term: false", lambda x, w: x @ w.T, [(2, 3, 5)]),
    Row(
        "Deconvolution without spatial axes",
        "num_output: 4 kernel_size: 1 axis: -1",
        lambda x, w, b: x @ w + b,
        [(3, 5)],
    ),
    Row(
        "Convolution of sequences",
        "num_output: 3 kernel_size: 2 axis: -3",
        lambda x, w, b: reference.convolution(x.reshape(-1, 2, 4, 3), w, b, Window((2, 2))).reshape(len(x), 2, 3, 3, 2),
        [(2, 2, 2, 4, 3)],
    ),
    Row("Deconvolution", "num_output: 3 kernel_size: 3 stride: 2", transposed(Window((3, 3), (2, 2), (0, 0), (1, 1)))),
    Row(
        "Deconvolution grouped",
        "num_output: 6 kernel_h: 4 kernel_w: 2 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0 dilation: 1 "
        "dilation: 2 group: 2 bias_term: false",
        transposed(Window((4, 2), (2, 1), (1, 0), (1, 2)), 2),
    ),
    Row(
        "Deconvolution of one axis",
        "num_output: 2 kernel_size: 3 stride: 2 pad: 1",
        transposed(Window((3,), (2,), (1,), (1,))),
        [(2, 3, 4)],
    ),
    Row(
        "Deconvolution of three axes",
        "num_output: 2 kernel_size: 2 stride: 2 stride: 1 stride: 2 pad: 0 pad: 1 pad: 1 group: 2",
        transposed(Window((2, 2, 2), (2, 1, 2), (0, 1, 1), (1, 1, 1)), 2),
        [(2, 4, 2, 3, 2)],
    ),
    Row(
        "Im2col",
        "kernel_size: 3 kernel_size: 2 stride: 2 pad: 1 dilation: 1 dilation: 2",
        columns(Window((3, 2), (2, 2), (1, 1), (1, 2))),
    ),
    Row("Im2col of one axis", "kernel_size: 2 stride: 2 pad: 1", columns(Window((2,), (2,), (1,), (1,))), [(2, 3, 5)]),
    Row(
        "Im2col of three axes",
        "kernel_size: 2 pad: 1 stride: 2 stride: 1 stride: 1",
        columns(Window((2,) * 3, (2, 1, 1), (1,) * 3, (1,) * 3)),
        [(2, 2, 3, 2, 3)],
    ),
    Row("Crop", "offset: 1", lambda x, r: x[:, :, 1:4, 1:5], [IMAGE, (2, 4, 3, 4)]),
    Row(
        "Crop of channels",
        "axis: -3 offset: 1 offset: 0 offset: 2",
        lambda x, r: x[:, 1:3, :, 2:],
        [IMAGE, (2, 2, 6, 3)],
    ),
    Row(
        "Pooling and its winners",
        "kernel_size: 3 stride: 2 pad: 1 engine: CAFFE",
        winners(Window((3, 3), (2, 2), (1, 1))),
        [(IMAGE, distinct)],
        tops=2,
    ),
    Row(
        "Pooling with pads by side",
        "kernel_size: 2 stride: 2 pad_r: 1 pad_b: 1",
        sided(2, 2, 0, 1, "MAX"),
        [((2, 2, 6, 5), distinct)],
        tops=2,
    ),
    Row(
        "Pooling with pads at the start",
        "kernel_size: 3 stride: 2 pad_l: 1 pad_t: 1",
        sided(3, 2, 1, 0, "MAX"),
        [((2, 2, 6, 5), distinct)],
        tops=2,
    ),
    Row(
        "Pooling average with pads by side",
        "pool: AVE kernel_size: 3 stride: 2 pad_l: 1 pad_t: 1 pad_r: 2 pad_b: 2",
        sided(3, 2, 1, 2, "AVE"),
    ),
    Row(
        "Pooling average with pads at the end",
        "pool: AVE kernel_size: 2 stride: 2 pad_r: 1 pad_b: 1",
        sided(2, 2, 0, 1, "AVE"),
    ),
    Row(
        "Pooling average without pads by side",
        "pool: AVE_EXC_PAD kernel_size: 3 stride: 2 pad_r: 1 pad_b: 1",
        sided(3, 2, 0, 1, "AVE_EXC_PAD"),
    ),
    Row(
        "Pooling drawn", "pool: STOCHASTIC kernel_size: 3 stride: 2", drawn(Window((3, 3), (2, 2))), [(IMAGE, positive)]
    ),
    Row(
        "Pooling of one axis",
        "pool: AVE kernel_size: 3 stride: 2 pad: 1",
        lambda x: reference.pooling("AVE", x[:, :, None], Window((1, 3), (1, 2), (0, 1)))[0][:, :, 0],
        [(2, 3, 7)],
    ),
    Row(
        "Pooling3D",
        "kernel_size: 2 stride: 2 kernel_depth: 3 temporal_stride: 2",
        volumes(np.max, (3, 2, 2), (2, 2, 2)),
        [((2, 2, 6, 5, 4), distinct)],
    ),
    Row(
        "Pooling3D of P3D",
        "kernel_size: 2 stride: 2 kernel_l: 3 stride_l: 2 pad_l: 0",
        volumes(np.max, (3, 2, 2), (2, 2, 2)),
        [((2, 2, 6, 5, 4), distinct)],
    ),
    Row(
        "Pooling3D of means",
        "pool: AVE kernel_size: 3 stride: 2 pad: 1 kernel_depth: 2 temporal_stride: 2",
        volumes(np.mean, (2, 3, 3), (2, 2, 2), pad=1, past=1),
        [(2, 3, 3, 5, 4)],
    ),
    Row(
        "SPP",
        "pyramid_height: 3",
        pyramid("MAX", Window((9, 7), (9, 7)), Window((5, 4), (5, 4), (1, 1)), Window((3, 2), (3, 2), (2, 1))),
        [((2, 3, 9, 7), distinct)],
    ),
    Row(
        "SPP of means",
        "pyramid_height: 2 pool: AVE engine: CUDNN",
        pyramid("AVE", Window((6, 5), (6, 5)), Window((3, 3), (3, 3), (0, 1))),
    ),
    Row("SPP of one level", "pyramid_height: 1", lambda x: x.max((2, 3), keepdims=True), [(IMAGE, distinct)]),
]
