"""Rows of the table of layers: single layers."""

import numpy as np
from layers.layer_row import Row
from layers.oracles import normalized
from textnet import IMAGE


def grouped(x, groups, eps):
    return normalized(x.reshape(len(x), groups, -1), 2, eps)[0].reshape(x.shape)


def normal_share(x):
    """As the layer sums it; test_single.py compares it with the exact one."""
    t = 1 / (1 + 0.23164188 * np.abs(x))
    terms = np.polyval([0.530702714, -0.726576013, 0.710706871, -0.142248368, 0.127414796, 0], t)
    beyond = terms * np.exp(-(x**2) / 2)
    return np.where(x > 0, 1 - beyond, beyond)


FILLED = 'weight_filler { type: "gaussian" } bias_filler { type: "gaussian" }'


def lengths(capsules):
    return np.sqrt((capsules**2).sum(-1, keepdims=True) + 1e-7)


def mask(x):
    capsules = x.reshape(len(x), 3, -1)
    best = lengths(capsules)[..., 0].argmax(1)
    return [np.array([np.where(np.arange(3)[:, None] == b, c, 0) for b, c in zip(best, capsules, strict=True)])]


def convolved(image, w):
    k = w.shape[-1]
    padded = np.pad(image, ((0, 0), (k // 2,) * 2, (k // 2,) * 2))
    return sum(
        np.einsum("oc,chw->ohw", w[..., i, j], padded[:, i : i + image.shape[1], j : j + image.shape[2]])
        for i, j in np.ndindex(k, k)
    )


def active(x, scale, shift):
    mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    return np.maximum(0, scale * (x - mean) / np.sqrt(variance + 1e-5) + shift)


def dense(inner):
    def oracle(x, *blobs):
        for t in (0, 1):
            outer, first = blobs[t:10:2], blobs[10 + t :: 2] if inner else ()
            y = active(x, *outer[1:3])
            if first:
                y = active(np.stack([convolved(image, first[0]) for image in y]), *first[1:3])
            x = np.concatenate([x, np.stack([convolved(image, outer[0]) for image in y])], 1)
        return [x]

    return oracle


def recurrent(x, wx, b, wh):
    h = c = np.zeros((len(b) // 4, *x.shape[2:]))
    tops = []
    for image in x:
        i, f, g, o = np.split(convolved(image, wx) + b[:, None, None] + convolved(h, wh), 4)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        tops.append(h)
    return [np.stack(tops)]


def shuffled(x):
    n, c, h, w = x.shape
    y = np.zeros((n, c // 4, 2 * h, 2 * w))
    for k in range(c):
        y[:, k // 4, k // 2 % 2 :: 2, k % 2 :: 2] = x[:, k]
    return [y]


def winners(x, kernel, stride):
    """The values of the largest size of windows, and where they are."""
    mask = np.zeros(x.shape)
    for n, c in np.ndindex(*x.shape[:2]):
        for row in range(0, x.shape[2] - kernel[0] + 1, stride):
            for column in range(0, x.shape[3] - kernel[1] + 1, stride):
                window = np.abs(x[n, c, row : row + kernel[0], column : column + kernel[1]])
                a, b = np.unravel_index(window.argmax(), window.shape)
                mask[n, c, row + a, column + b] = 1
    return [x * mask, mask]


# Steps follow each other; the samples of a batch share their moments.
UNLIKE = "ConvLSTM DenseBlock".split()

ROWS = [
    Row("GroupNorm", "group_num: 2 eps: 0.25", lambda x: grouped(x, 2, 0.25), [(2, 6, 4, 3)]),
    Row("GroupNorm of vectors", "group_num: 1", lambda x: normalized(x, 1, 1e-5), [(4, 6)]),
    Row("SpatialWta", "kernel_h: 2 kernel_w: 3 stride: 2", lambda x: winners(x, (2, 3), 2)[:1], [(2, 3, 5, 6)]),
    Row("SpatialWta with its mask", "kernel_size: 2", lambda x: winners(x, (2, 2), 1), [(2, 3, 5, 6)], tops=2),
    Row("SpatialWta of a complete image", "global_wta: true", lambda x: winners(x, (4, 4), 1)[:1], [(2, 3, 4, 4)]),
    Row("PixelShuffle", "upscale_factor: 2", shuffled, [(2, 8, 3, 4)]),
    Row("GELU", "", lambda x: x * normal_share(x)),
    Row("MatMul", "", lambda a, b: a @ b, [(2, 3, 4, 5), (2, 3, 5, 2)]),
    Row("Mul", "", lambda a, b: a * b, [IMAGE, (2, 1, 6, 1)]),
    Row("Mul of a column", "", lambda a, b: a * b, [(2, 1), (2, 3)]),
    Row("Mul by a parameter", "mul_shape: 4 mul_shape: 1 mul_shape: 5", lambda x, w: x * w),
    Row(
        "ResizeNearestNeighbor",
        "output_height: 4 output_width: 9",
        lambda x: x[:, [0, 1, 3, 4]][:, :, [0, 0, 1, 1, 2, 2, 3, 3, 4]],
        [(2, 6, 5, 3)],
    ),
    Row(
        "ResizeNearestNeighbor aligned",
        'scale_height: 0.5 output_width: 9 align_corners: true data_format: "NCHW"',
        lambda x: x[:, :, [0, 3, 5]][..., [0, 1, 1, 2, 2, 3, 3, 4, 4]],
    ),
    Row(
        "ResizeNearestNeighbor by centers",
        'scale_height: 2 scale_width: 0.5 half_pixel_centers: true data_format: "NCHW"',
        lambda x: x.repeat(2, 2)[..., [1, 3]],
    ),
    Row(
        "ResizeNearestNeighbor as in ONNX",
        'scale_height: 2 scale_width: 1 half_pixel_onnx: true data_format: "NCHW"',
        lambda x: x[:, :, [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]],
    ),
    Row("DenseBlock", "numTransition: 2 initChannel: 4 growthRate: 2", dense(False)),
    Row("DenseBlock with bottlenecks", "numTransition: 2 initChannel: 4 growthRate: 2 use_BC: true", dense(True)),
    Row("GRN", "bias: 0.5", lambda x: x / np.sqrt((x**2).sum(1, keepdims=True) + 0.5)),
    Row("Sum", "", lambda *x: sum(x), [IMAGE, IMAGE, IMAGE]),
    Row("Sum of groups", "num_component: 2", lambda x: x.reshape(len(x), 2, 3, 3).sum(2), [(2, 6, 3)]),
    Row("SpatialDropout", "", lambda x: x, phase="TEST"),
    Row("ConvLSTM", f"num_output: 2 kernel_size: 3 {FILLED}", recurrent, [(3, 2, 4, 3)]),
]
