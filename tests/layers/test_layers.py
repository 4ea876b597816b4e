"""One battery for every layer: a row in the table is a layer's test. Float64, against the plainest NumPy."""

from __future__ import annotations

import functools
import itertools
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import h5py
import numpy as np
import pytest
import reference
from devices.host.backend import HostBackend
from textnet import bind, feed, inputs, mistakes, run

from caffelite.devices import Window, open_device
from caffelite.devices.cuda import GPU, count
from caffelite.errors import CaffeliteError
from caffelite.layers import REGISTRY

FILL = 'weight_filler { type: "gaussian" } bias_filler { type: "gaussian" }'


def off_kinks(rng, shape):
    """Normal, but nowhere near 0, where a ReLU has no slope."""
    x = rng.normal(size=shape)
    return x + np.where(x < 0, -0.1, 0.1)


def distinct(rng, shape):
    """No two alike, so that every maximum is one number's own."""
    return rng.permutation(math.prod(shape)).reshape(shape) / math.prod(shape)


def positive(rng, shape):
    return 0.2 + rng.random(shape)


def share(rng, shape):
    return rng.random(shape)


def labels(classes: int, ignore: int | None = None):
    def draw(rng, shape):
        values = rng.integers(0, classes, shape).astype(float)
        if ignore is not None:
            values.flat[0] = ignore
        return values

    return draw


@dataclass
class Row:
    """A layer: its message, its bottoms (shape, how they are drawn), and its tops by the oracle from bottoms and
    parameters."""

    kind: str
    body: str
    bottoms: list[tuple[tuple[int, ...], Callable]]
    oracle: Callable
    tops: int = 1
    constant: tuple[int, ...] = ()  # bottoms without gradient
    phase: str = "TRAIN"
    name: str = ""
    source: list | None = field(default=None)
    prepare: Callable = lambda net: None  # done to each net

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip()

    @property
    def differentiable(self) -> bool:
        return REGISTRY[self.kind].differentiable

    def shapes(self, batch: int | None) -> list[tuple[int, ...]]:
        return [shape if batch is None else (batch, *shape[1:]) for shape, _ in self.bottoms]

    def draw(self, rng, batch: int | None = None) -> dict[str, np.ndarray]:
        return {
            f"x{i}": draw(rng, shape)
            for i, (shape, (_, draw)) in enumerate(zip(self.shapes(batch), self.bottoms, strict=True))
        }

    def text(self, batch: int | None = None, more: str = "") -> str:
        below = " ".join(f'bottom: "x{i}"' for i in range(len(self.bottoms)))
        above = " ".join(f'top: "y{i}"' for i in range(self.tops))
        fed = inputs(**{f"x{i}": shape for i, shape in enumerate(self.shapes(batch))})
        return fed + f'layer {{ name: "layer" type: "{self.kind}" {below} {above} {self.body} {more} }}\n'

    def bind(self, text: str, **options):
        net = bind(text, self.phase, open_source=lambda *_: Source(self.source), **options)
        self.prepare(net)
        return net


class Source:
    """Hands out the same batch again and again."""

    def __init__(self, batch):
        self.batch, self.shapes = batch, [a.shape for a in batch]

    def next(self):
        return self.batch

    def close(self):
        pass


def three(x, axis=1):
    """(N, C, P)."""
    return x.reshape(math.prod(x.shape[:axis]), x.shape[axis], -1)


def softmax(axis=1):
    return lambda x: [reference.softmax(three(x, axis)).reshape(x.shape)]


def log_loss(ignore=None, divisor=None, axis=1, top=2):
    def oracle(x, t):
        prob = reference.softmax(three(x, axis))
        count = divisor(x, t) if divisor else None
        return [reference.log_loss(prob, t.reshape(prob.shape[0], -1), ignore, count)[0], prob.reshape(x.shape)][:top]

    return oracle


def accuracy(ignore=None, top_k=1, axis=1):
    return lambda x, t: list(
        reference.accuracy(three(x, axis), t.reshape(three(x, axis).shape[0], -1), top_k, ignore)[:2]
    )


def cross_entropy(divisor, ignore=None):
    def oracle(x, t):
        each = np.where(t == ignore, 0, np.logaddexp(0, x) - x * t)
        return [each.sum() / divisor(x, t)]

    return oracle


def inner_product(axis=1, transpose=False):
    def oracle(x, w, b=0.0):
        flat = x.reshape(math.prod(x.shape[:axis]), -1)
        return [(flat @ (w if transpose else w.T) + b).reshape(*x.shape[:axis], -1)]

    return oracle


def convolution(window, groups=1):
    return lambda x, w, b=None: [reference.convolution(x, w, b, window, groups)]


def pooling(method, window):
    return lambda x: [reference.pooling(method, x, window)[0]]


def places(kernel):
    return itertools.product(*map(range, kernel))


def correlation(window, groups=1):
    """Convolution over any number of spatial axes: a sum over the kernel's places."""

    def oracle(x, w, b=None):
        kernel, stride, pad, dilation = window
        padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in pad)))
        out = [
            (n - d * (k - 1) - 1) // s + 1
            for n, k, s, d in zip(padded.shape[2:], kernel, stride, dilation, strict=True)
        ]
        y, part, share = np.zeros((len(x), len(w), *out)), w.shape[1], len(w) // groups
        for place in places(kernel):
            starts = [k * d for k, d in zip(place, dilation, strict=True)]
            seen = padded[
                (..., *(slice(i, i + (o - 1) * s + 1, s) for i, o, s in zip(starts, out, stride, strict=True)))
            ]
            for g in range(groups):
                rows = slice(g * share, (g + 1) * share)
                y[:, rows] += np.einsum(
                    "nc...,mc->nm...", seen[:, g * part : (g + 1) * part], w[(rows, slice(None), *place)]
                )
        return [y if b is None else y + b.reshape(-1, *[1] * len(kernel))]

    return oracle


def transposed(window, groups=1):
    """Deconvolution over any number of spatial axes: every input stamps the kernel onto the output."""

    def oracle(x, w, b=None):
        kernel, stride, pad, dilation = window
        sizes = list(zip(x.shape[2:], kernel, stride, dilation, strict=True))
        part, share = x.shape[1] // groups, w.shape[1]
        y = np.zeros((len(x), share * groups, *((n - 1) * s + d * (k - 1) + 1 for n, k, s, d in sizes)))
        for place in places(kernel):
            spot = [slice(i * d, i * d + (n - 1) * s + 1, s) for i, (n, _, s, d) in zip(place, sizes, strict=True)]
            for g in range(groups):
                rows = slice(g * part, (g + 1) * part)
                stamp = np.einsum("nc...,cm->nm...", x[:, rows], w[(rows, slice(None), *place)])
                y[(slice(None), slice(g * share, (g + 1) * share), *spot)] += stamp
        y = y[(..., *(slice(p, n - p) for p, n in zip(pad, y.shape[2:], strict=True)))]
        return [y if b is None else y + b.reshape(-1, *[1] * len(kernel))]

    return oracle


def columns(window):
    count = math.prod(window.kernel)
    return lambda x: correlation(window)(x, np.eye(x.shape[1] * count).reshape(-1, x.shape[1], *window.kernel))


def winners(window):
    def oracle(x):
        y, index = reference.pooling("MAX", x, window)
        return [y, index]

    return oracle


def drawn(window):
    return lambda x: [reference.stochastic_pooling(x, window, 1, zlib.crc32(b"layer"), 0, 0)[0]]


def pyramid(method, *windows):
    return lambda x: [np.concatenate([reference.pooling(method, x, w)[0].reshape(len(x), -1) for w in windows], 1)]


def samples(rng, shape):
    """Places of a batch of 4, the first once."""
    places = rng.integers(1, 4, shape).astype(float)
    places[0] = 0
    return places


def far(rng, shape):
    """Points so far apart that the 0.0001 which Caffe adds to their distance does not show."""
    return 100 * off_kinks(rng, shape)


def hinge(power):
    def oracle(x, t):
        x = x.reshape(len(x), -1)
        side = np.where(np.arange(x.shape[1]) == t[:, None], -1, 1)
        return [(np.maximum(1 + side * x, 0) ** power).sum() / len(x)]

    return oracle


def contrastive(apart):
    def oracle(a, b, alike):
        d = np.sqrt(((a - b) ** 2).sum(1))
        return [np.where(alike != 0, d * d, apart(d)).sum() / 2 / len(a)]

    return oracle


def infogain(divisor, axis=1):
    def oracle(x, t, h):
        prob, h = reference.softmax(three(x, axis)), h.reshape(x.shape[axis], -1)
        total = 0.0
        for (n, p), label in np.ndenumerate(t.reshape(prob.shape[0], -1)):
            if label < len(h):
                total -= (h[int(label)] * np.log(prob[n, :, p])).sum()
        return [total / divisor(x, t), prob.reshape(x.shape)]

    return oracle


def smooth(d):
    return np.where(np.abs(d) < 1, d * d / 2, np.abs(d) - 0.5)


def normalised(x, axes, eps, root=True):
    """Less its mean over axes, by its deviation there; eps under the root, or beside it."""
    centred = x - x.mean(axes, keepdims=True)
    variance = (centred**2).mean(axes, keepdims=True)
    return [centred / (np.sqrt(variance + eps) if root else np.sqrt(variance) + eps)]


def unit(x, axes, eps):
    return x / np.sqrt((x**2).sum(axes, keepdims=True) + eps)


def within(x, size, alpha, beta):
    squares = np.pad(x**2, ((0, 0), (0, 0), *[((size - 1) // 2,) * 2] * 2))
    mean = np.lib.stride_tricks.sliding_window_view(squares, (size, size), (2, 3)).mean((-2, -1))
    return [x * (1 + alpha * mean) ** -beta]


def numbers(rows: int):
    return lambda rng, shape: rng.integers(0, rows, shape).astype(float)


def starts(rng, shape):
    """cont of sequences: all start at the first two steps, one at the fourth."""
    cont = np.ones(shape)
    cont[:2], cont[3:4, :1] = 0, 0
    return cont


def some(rng, shape):
    return (np.arange(math.prod(shape)) % 2).reshape(shape).astype(float)


BATCH, IMAGE = (2, 3), (2, 4, 6, 5)
BATCH_SIZE = "loss_param { normalization: BATCH_SIZE }"
IN_MEMORY = np.arange(24.0).reshape(4, 3, 1, 2), np.arange(4.0)
FED = [np.arange(6.0).reshape(2, 3), np.array([1.0, 0.0])]

ROWS = [
    Row("ReLU", "", [(IMAGE, off_kinks)], lambda x: [np.maximum(x, 0)]),
    Row(
        "ReLU",
        "relu_param { negative_slope: 0.25 }",
        [(BATCH, off_kinks)],
        lambda x: [np.where(x > 0, x, x / 4)],
        name="leaky",
    ),
    Row(
        "ReLU",
        "relu_param { negative_slope: -0.5 }",
        [(BATCH, off_kinks)],
        lambda x: [np.where(x > 0, x, -x / 2)],
        name="contrary",
    ),
    Row("Sigmoid", "", [(BATCH, off_kinks)], lambda x: [1 / (1 + np.exp(-x))]),
    Row("TanH", "", [(BATCH, off_kinks)], lambda x: [np.tanh(x)]),
    Row("ELU", "elu_param { alpha: 0.5 }", [(BATCH, off_kinks)], lambda x: [np.where(x > 0, x, np.expm1(x) / 2)]),
    Row(
        "ELU",
        "elu_param { alpha: -0.5 }",
        [(BATCH, off_kinks)],
        lambda x: [np.where(x > 0, x, -np.expm1(x) / 2)],
        name="contrary",
    ),
    Row("Swish", "swish_param { beta: 2 }", [(BATCH, off_kinks)], lambda x: [x / (1 + np.exp(-2 * x))]),
    Row("AbsVal", "", [(BATCH, off_kinks)], lambda x: [np.abs(x)]),
    Row("BNLL", "", [(BATCH, off_kinks)], lambda x: [np.logaddexp(0, x)]),
    Row("Clip", "clip_param { min: -0.5 max: 0.75 }", [(BATCH, off_kinks)], lambda x: [np.clip(x, -0.5, 0.75)]),
    Row("Exp", "", [(BATCH, off_kinks)], lambda x: [np.exp(x)]),
    Row(
        "Exp",
        "exp_param { base: 2 scale: 0.5 shift: 3 }",
        [(BATCH, off_kinks)],
        lambda x: [2 ** (3 + x / 2)],
        name="base 2",
    ),
    Row("Log", "", [(BATCH, positive)], lambda x: [np.log(x)]),
    Row(
        "Log",
        "log_param { base: 2 scale: 0.5 shift: 3 }",
        [(BATCH, positive)],
        lambda x: [np.log2(3 + x / 2)],
        name="base 2",
    ),
    Row("Power", "", [(BATCH, off_kinks)], lambda x: [x]),
    Row(
        "Power",
        "power_param { power: 2 scale: 0.5 shift: 3 }",
        [(BATCH, off_kinks)],
        lambda x: [(3 + x / 2) ** 2],
        name="square",
    ),
    Row(
        "Power",
        "power_param { power: -1.5 scale: 0.5 shift: 3 }",
        [(BATCH, positive)],
        lambda x: [(3 + x / 2) ** -1.5],
        name="root",
    ),
    Row("PReLU", "", [(IMAGE, off_kinks)], lambda x, a: [np.where(x > 0, x, x * a[:, None, None])]),
    Row(
        "PReLU",
        "prelu_param { channel_shared: true }",
        [(BATCH, off_kinks)],
        lambda x, a: [np.where(x > 0, x, x * a)],
        name="shared",
    ),
    Row("Threshold", "threshold_param { threshold: 0.25 }", [(BATCH, off_kinks)], lambda x: [x > 0.25]),
    Row("Dropout", "", [(BATCH, off_kinks)], lambda x: [x], phase="TEST"),
    Row("Softmax", "", [(IMAGE, off_kinks)], softmax()),
    Row("Softmax", "softmax_param { axis: -1 }", [((2, 3, 4), off_kinks)], softmax(2), name="last axis"),
    Row("Flatten", "", [(IMAGE, off_kinks)], lambda x: [x.reshape(len(x), -1)]),
    Row(
        "Flatten",
        "flatten_param { axis: -3 end_axis: 2 }",
        [(IMAGE, off_kinks)],
        lambda x: [x.reshape(len(x), 24, 5)],
        name="middle",
    ),
    Row(
        "Reshape",
        "reshape_param { shape { dim: 0 dim: -1 dim: 2 } }",
        [(IMAGE, off_kinks)],
        lambda x: [x.reshape(len(x), -1, 2)],
    ),
    Row("Tile", "tile_param { tiles: 3 }", [(IMAGE, off_kinks)], lambda x: [np.concatenate([x] * 3, 1)]),
    Row("Concat", "", [(IMAGE, off_kinks), ((2, 1, 6, 5), off_kinks)], lambda *x: [np.concatenate(x, 1)]),
    Row(
        "Concat",
        "concat_param { axis: -1 }",
        [(BATCH, off_kinks), ((2, 5), off_kinks)],
        lambda *x: [np.concatenate(x, 1)],
        name="last axis",
    ),
    Row("Slice", "", [(IMAGE, off_kinks)], lambda x: [x[:, :2], x[:, 2:]], tops=2),
    Row(
        "Slice",
        "slice_param { axis: 2 slice_point: 1 slice_point: 4 }",
        [(IMAGE, off_kinks)],
        lambda x: [x[:, :, :1], x[:, :, 1:4], x[:, :, 4:]],
        tops=3,
        name="points",
    ),
    Row("Split", "", [(BATCH, off_kinks)], lambda x: [x, x], tops=2),
    Row("Eltwise", "", [(BATCH, off_kinks), (BATCH, off_kinks)], lambda a, b: [a + b]),
    Row(
        "Eltwise",
        "eltwise_param { coeff: 2 coeff: -0.5 }",
        [(BATCH, off_kinks), (BATCH, off_kinks)],
        lambda a, b: [2 * a - b / 2],
        name="weighted",
    ),
    Row(
        "Eltwise",
        "eltwise_param { operation: PROD }",
        [(BATCH, off_kinks), (BATCH, off_kinks), (BATCH, off_kinks)],
        lambda a, b, c: [a * b * c],
        name="product",
    ),
    Row(
        "Eltwise",
        "eltwise_param { operation: MAX }",
        [(BATCH, off_kinks), (BATCH, off_kinks), (BATCH, off_kinks)],
        lambda *x: [np.max(x, 0)],
        name="maximum",
    ),
    Row("InnerProduct", f"inner_product_param {{ num_output: 4 {FILL} }}", [(IMAGE, off_kinks)], inner_product()),
    Row(
        "InnerProduct",
        f"inner_product_param {{ num_output: 4 axis: 2 transpose: true bias_term: false {FILL} }}",
        [((2, 3, 5), off_kinks)],
        inner_product(2, True),
        name="transposed",
    ),
    Row(
        "InnerProduct",
        f"inner_product_param {{ num_output: 4 axis: -1 {FILL} }}",
        [((2, 3, 5), off_kinks)],
        inner_product(2),
        name="last axis",
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
        "Embed",
        f"embed_param {{ input_dim: 3 num_output: 5 {FILL} }}",
        [((2, 4), numbers(3))],
        lambda x, w, b: [w[x.astype(int)] + b],
        constant=(0,),
    ),
    Row(
        "Embed",
        f"embed_param {{ input_dim: 7 num_output: 2 bias_term: false {FILL} }}",
        [((4,), numbers(7))],
        lambda x, w: [w[x.astype(int)]],
        constant=(0,),
        name="without bias",
    ),
    Row(
        "RNN",
        f"recurrent_param {{ num_output: 2 debug_info: true {FILL} }}",
        [((5, 3, 4), off_kinks), ((5, 3), starts)],
        lambda x, cont, *params: reference.rnn(x, cont, None, [np.zeros((3, 2))], params)[:1],
        constant=(1,),
    ),
    Row(
        "LSTM",
        f"recurrent_param {{ num_output: 2 {FILL} }}",
        [((5, 3, 4), off_kinks), ((5, 3), starts)],
        lambda x, cont, *params: reference.lstm(x, cont, None, [np.zeros((3, 2))] * 2, params)[:1],
        constant=(1,),
    ),
    Row(
        "LSTMUnit",
        "",
        [((1, 3, 2), off_kinks), ((1, 3, 8), off_kinks), ((1, 3), some)],
        lambda c, x, k: reference.lstm_unit(c, x, k[..., None]),
        tops=2,
        constant=(2,),
    ),
    Row("SoftmaxWithLoss", "", [(BATCH, off_kinks), ((2,), labels(3))], log_loss(), tops=2, constant=(1,)),
    Row(
        "SoftmaxWithLoss",
        "loss_param { ignore_label: 1 }",
        [((2, 3, 4), off_kinks), ((2, 4), labels(3, 1))],
        log_loss(1, top=1),
        constant=(1,),
        name="ignoring",
    ),
    Row(
        "SoftmaxWithLoss",
        f"softmax_param {{ axis: 2 }} {BATCH_SIZE}",
        [((2, 4, 3), off_kinks), ((2, 4), labels(3))],
        log_loss(divisor=lambda x, t: x.shape[0] * x.shape[1], axis=2, top=1),
        constant=(1,),
        name="last axis",
    ),
    Row(
        "SoftmaxWithLoss",
        "loss_param { normalization: NONE }",
        [(BATCH, off_kinks), ((2,), labels(3))],
        log_loss(divisor=lambda x, t: 1, top=1),
        constant=(1,),
        name="sum",
    ),
    Row(
        "SigmoidCrossEntropyLoss",
        "",
        [(BATCH, off_kinks), (BATCH, share)],
        cross_entropy(lambda x, t: len(x)),
        constant=(1,),
    ),
    Row(
        "SigmoidCrossEntropyLoss",
        "loss_param { ignore_label: 2 normalization: VALID }",
        [(BATCH, off_kinks), (BATCH, labels(2, 2))],
        cross_entropy(lambda x, t: max(1, (t != 2).sum()), 2),
        constant=(1,),
        name="ignoring",
    ),
    Row(
        "SigmoidCrossEntropyLoss",
        "loss_param { normalization: FULL }",
        [(BATCH, off_kinks), (BATCH, share)],
        cross_entropy(lambda x, t: x.size),
        constant=(1,),
        name="mean",
    ),
    Row(
        "EuclideanLoss", "", [(IMAGE, off_kinks), (IMAGE, off_kinks)], lambda a, b: [((a - b) ** 2).sum() / 2 / len(a)]
    ),
    Row("Accuracy", "", [((9, 3), distinct), ((9,), labels(3))], accuracy(), tops=2),
    Row(
        "Accuracy",
        "accuracy_param { top_k: 2 ignore_label: 1 axis: 2 }",
        [((2, 4, 3), distinct), ((2, 4), labels(3, 1))],
        accuracy(1, 2, 2),
        tops=2,
        name="top 2",
    ),
    Row(
        "Eltwise",
        "eltwise_param { operation: PROD stable_prod_grad: false }",
        [(BATCH, off_kinks), (BATCH, off_kinks), (BATCH, off_kinks)],
        lambda a, b, c: [a * b * c],
        name="product by division",
    ),
    Row("Reduction", "reduction_param { coeff: 2 }", [(IMAGE, off_kinks)], lambda x: [2 * x.sum()]),
    Row(
        "Reduction",
        "reduction_param { operation: ASUM axis: 1 coeff: -0.5 }",
        [(IMAGE, off_kinks)],
        lambda x: [-np.abs(x).sum((1, 2, 3)) / 2],
        name="of absolutes",
    ),
    Row(
        "Reduction",
        "reduction_param { operation: SUMSQ axis: -1 }",
        [(IMAGE, off_kinks)],
        lambda x: [(x * x).sum(-1)],
        name="of squares",
    ),
    Row(
        "Reduction",
        "reduction_param { operation: MEAN axis: 2 }",
        [(IMAGE, off_kinks)],
        lambda x: [x.mean((2, 3))],
        name="mean",
    ),
    Row("ArgMax", "", [(IMAGE, distinct)], lambda x: [x.reshape(len(x), -1).argmax(1).reshape(-1, 1, 1, 1)]),
    Row(
        "ArgMax",
        "argmax_param { top_k: 2 out_max_val: true }",
        [(BATCH, distinct)],
        lambda x: [np.stack([(-x).argsort(1)[:, :2], -np.sort(-x, 1)[:, :2]], 1)],
        name="with values",
    ),
    Row(
        "ArgMax",
        "argmax_param { axis: 1 top_k: 3 }",
        [(IMAGE, distinct)],
        lambda x: [(-x).argsort(1)[:, :3]],
        name="along an axis",
    ),
    Row(
        "ArgMax",
        "argmax_param { axis: -1 out_max_val: true }",
        [(IMAGE, distinct)],
        lambda x: [x.max(-1, keepdims=True)],
        name="values along an axis",
    ),
    Row("BatchReindex", "", [((4, 3, 2), off_kinks), ((6,), samples)], lambda x, i: [x[i.astype(int)]], constant=(1,)),
    Row(
        "Filter",
        "",
        [((4, 3), off_kinks), ((4, 2), off_kinks), ((4,), lambda rng, shape: rng.integers(1, 3, shape) * 1.0)],
        lambda a, b, s: [a, b],
        tops=2,
        constant=(2,),
    ),
    Row("HingeLoss", "", [((4, 3), off_kinks), ((4,), labels(3))], hinge(1), constant=(1,)),
    Row(
        "HingeLoss",
        "hinge_loss_param { norm: L2 }",
        [((4, 3, 2), off_kinks), ((4,), labels(6))],
        hinge(2),
        constant=(1,),
        name="squared",
    ),
    Row(
        "MultinomialLogisticLoss",
        "",
        [((4, 3), share), ((4,), labels(3))],
        lambda x, t: [-np.log(x[np.arange(len(x)), t.astype(int)]).mean()],
        constant=(1,),
    ),
    Row(
        "ContrastiveLoss",
        "contrastive_loss_param { margin: 300 }",
        [((8, 3), far), ((8, 3), far), ((8,), labels(2))],
        contrastive(lambda d: np.maximum(300 - d, 0) ** 2),
        constant=(2,),
    ),
    Row(
        "ContrastiveLoss",
        "contrastive_loss_param { margin: 9 legacy_version: true }",
        [((8, 3), off_kinks), ((8, 3), off_kinks), ((8,), labels(2))],
        contrastive(lambda d: np.maximum(9 - d * d, 0)),
        constant=(2,),
        name="legacy",
    ),
    Row(
        "InfogainLoss",
        "",
        [((4, 3), off_kinks), ((4,), labels(3)), ((1, 1, 3, 3), share)],
        infogain(lambda x, t: t.size),
        tops=2,
        constant=(1, 2),
    ),
    Row(
        "InfogainLoss",
        "infogain_loss_param { axis: -2 } loss_param { ignore_label: 7 }",
        [((2, 4, 3, 5), off_kinks), ((2, 4, 5), labels(3, 7)), ((1, 9), share)],
        infogain(lambda x, t: max(1, (t != 7).sum()), 2),
        tops=2,
        constant=(1, 2),
        name="of pixels",
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
    Row(
        "Axpy",
        "",
        [((2, 4, 1, 1), off_kinks), (IMAGE, off_kinks), (IMAGE, off_kinks)],
        lambda a, x, b: [a * x + b],
    ),
    Row("Axpy", "", [(BATCH, off_kinks)] * 3, lambda a, x, b: [a * x + b], name="of vectors"),
    Row(
        "Permute",
        "permute_param { order: 0 order: 2 order: 3 order: 1 }",
        [(IMAGE, off_kinks)],
        lambda x: [x.transpose(0, 2, 3, 1)],
    ),
    Row(
        "Permute",
        "permute_param { order: 0 order: 3 }",
        [(IMAGE, off_kinks)],
        lambda x: [x.transpose(0, 3, 1, 2)],
        name="in part",
    ),
    Row("Permute", "", [(IMAGE, off_kinks)], lambda x: [x], name="of nothing"),
    Row("Normalize", "norm_param { eps: 0.5 }", [(IMAGE, off_kinks)], lambda x, s: [s * unit(x, (1, 2, 3), 0.5)]),
    Row(
        "Normalize",
        "norm_param { across_spatial: false channel_shared: false }",
        [(IMAGE, off_kinks)],
        lambda x, s: [s[:, None, None] * unit(x, 1, 1e-10)],
        name="of each place",
    ),
    Row(
        "Normalize",
        "norm_param { across_spatial: false }",
        [(BATCH, off_kinks)],
        lambda x, s: [s * unit(x, 1, 1e-10)],
        name="of vectors",
    ),
    Row(
        "Normalize",
        "norm_param { channel_shared: false }",
        [(IMAGE, off_kinks)],
        lambda x, s: [s[:, None, None] * unit(x, (1, 2, 3), 0)],
        name="channels apart",
    ),
    Row(
        "SoftmaxWithLoss",
        "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 2.5 }",
        [(BATCH, off_kinks), ((2,), labels(3))],
        log_loss(divisor=lambda x, t: 2.5),
        tops=2,
        constant=(1,),
        name="PRE_FIXED",
    ),
    Row(
        "SmoothL1Loss",
        "smooth_l1_loss_param { sigma: 2 } loss_param { normalization: NONE }",
        [(IMAGE, off_kinks), (IMAGE, off_kinks)],
        lambda a, b: [smooth(4 * (a - b)).sum() / 4],
        name="with sigma",
    ),
    Row("L1Loss", "", [(IMAGE, off_kinks), (IMAGE, off_kinks)], lambda a, b: [np.abs(a - b).sum() / len(a)]),
    Row("SmoothL1Loss", "", [(IMAGE, off_kinks), (IMAGE, off_kinks)], lambda a, b: [smooth(a - b).sum() / len(a)]),
    Row(
        "SmoothL1Loss",
        "",
        [(BATCH, off_kinks), (BATCH, off_kinks), (BATCH, share), (BATCH, off_kinks)],
        lambda a, b, inside, outside: [(outside * smooth(inside * (a - b))).sum() / len(a)],
        constant=(2, 3),
        name="weighted",
    ),
    Row("Silence", "", [(BATCH, off_kinks), (IMAGE, off_kinks)], lambda *x: [], tops=0),
    Row(
        "HDF5Output",
        'hdf5_output_param { file_name: "out.h5" }',
        [(BATCH, off_kinks), ((2,), labels(3))],
        lambda *x: [],
        tops=0,
    ),
    Row("Parameter", "parameter_param { shape { dim: 2 dim: 3 } }", [], lambda w: [w]),
    Row("Input", "input_param { shape { dim: 2 dim: 3 } }", [], lambda: [np.zeros((2, 3))]),
    Row(
        "DummyData",
        'dummy_data_param { shape { dim: 2 } data_filler { type: "constant" value: 3 } }',
        [],
        lambda: [np.full(2, 3.0)],
    ),
    Row(
        "DummyData",
        "dummy_data_param { num: 2 channels: 3 height: 1 width: 4 }",
        [],
        lambda: [np.zeros((2, 3, 1, 4))] * 2,
        tops=2,
        name="old",
    ),
    Row(
        "MemoryData",
        "memory_data_param { batch_size: 2 channels: 3 height: 1 width: 2 }",
        [],
        lambda: [IN_MEMORY[0][:2], IN_MEMORY[1][:2]],
        tops=2,
        prepare=lambda net: net.graph.nodes[0].layer.set_input_arrays(*IN_MEMORY),
    ),
    Row(
        "Python",
        'python_param { module: "user_scaling" layer: "Scaling" param_str: "3" share_in_parallel: true }',
        [(BATCH, off_kinks)],
        lambda x: [3 * x],
    ),
    Row("Data", "", [], lambda: FED, tops=2, source=FED),
    Row("ImageData", "", [], lambda: FED, tops=2, source=FED),
    Row("WindowData", "", [], lambda: FED, tops=2, source=FED),
    Row("HDF5Data", "", [], lambda: FED[:1], source=FED),
]

every_row = pytest.mark.parametrize("row", ROWS, ids=str)
every_gradient = pytest.mark.parametrize("row", [r for r in ROWS if r.differentiable], ids=str)


@functools.cache
def opened(kind: str, dtype: str, precision: str = "fp32"):
    """A device, for all rows the same."""
    return (
        open_device(None, dtype)
        if kind == "cpu"
        else GPU(0, dtype, HostBackend() if kind == "host" else None, precision)
    )


@pytest.fixture(params=["cpu", "host", pytest.param("gpu", marks=pytest.mark.gpu)])
def kind(request):
    """A CPU, the GPU's kernels run by the host, and a GPU where there is one."""
    if request.param == "gpu" and not count():
        pytest.skip("no usable GPU")
    return request.param


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_layer_has_a_row():
    assert {row.kind for row in ROWS} == set(REGISTRY)
    assert all(cls.__doc__ for cls in REGISTRY.values())


def assert_forward(row: Row, rng, dev, batch: int | None = None, rtol: float = 1e-10, atol: float = 1e-12) -> None:
    net, fed = row.bind(row.text(batch), dev=dev), row.draw(rng, batch)
    for blob in net.params.blobs:
        dev.upload(blob, rng.normal(size=blob.shape))
    feed(net, **fed)
    net.forward()
    expected = row.oracle(*fed.values(), *[dev.download(p).astype(float) for p in net.params.blobs])
    assert len(expected) == row.tops
    for i, values in enumerate(expected):
        found = dev.download(net.blobs[f"y{i}"])
        assert found.shape == np.shape(values)
        np.testing.assert_allclose(found, values, rtol, atol)
    net.check_faults()


@every_row
def test_forward(row, rng, kind):
    assert_forward(row, rng, opened(kind, "float64"))


@pytest.mark.gpu
@every_row
@pytest.mark.parametrize(
    "precision, rtol, atol", [("fp32", 1e-4, 1e-5), ("tf32", 1e-2, 1e-2), ("fp16", 1e-2, 2e-2), ("bf16", 5e-2, 1e-1)]
)
def test_forward_in_float32(row, rng, precision, rtol, atol):
    if not count():
        pytest.skip("no usable GPU")
    assert_forward(row, rng, opened("gpu", "float32", precision), rtol=rtol, atol=atol)


@pytest.mark.parametrize("row", [r for r in ROWS if r.bottoms], ids=str)
def test_a_batch_of_one(row, rng, kind):
    assert_forward(row, rng, opened(kind, "float64"), 1)


@every_gradient
def test_gradient(row, rng, kind):
    """Along random directions of bottoms and parameters, with a random gradient from above."""
    dev = opened(kind, "float64")
    blobs = row.bind(row.text()).blobs
    judged = {f"t{i}": blobs[f"y{i}"].shape for i in range(row.tops) if i not in REGISTRY[row.kind].constant_tops}
    judge = 'layer {{ name: "j{0}" type: "EuclideanLoss" bottom: "y{0}" bottom: "t{0}" top: "j{0}" }}\n'
    text = "force_backward: true\n" + inputs(**judged) + row.text() + "".join(judge.format(name[1:]) for name in judged)
    net, fed = row.bind(text, keep=True, dev=dev), row.draw(rng)
    dev.upload(net.params.data, rng.normal(size=net.params.size))
    fed |= {name: rng.normal(size=shape) for name, shape in judged.items()}
    feed(net, **fed)
    run(net)
    values = {v.name: v for v in net.graph.values.values()}
    moved = [f"x{i}" for i in range(len(row.bottoms)) if i not in row.constant]
    assert [name for name in fed if name not in judged and values[name] in net.diff] == moved
    gradients = [dev.download(net.diff[values[name]]) for name in moved] + [dev.download(net.params.diff)]
    spots = [net.data[values[name]] for name in moved] + [net.params.data]
    starts = [dev.download(spot) for spot in spots]
    for _ in range(3):
        steps = [rng.normal(size=s.shape) * 1e-5 for s in starts]
        slope = sum(float((g * s).sum()) for g, s in zip(gradients, steps, strict=True))
        losses = []
        for sign in (1, -1):
            for spot, start, step in zip(spots, starts, steps, strict=True):
                dev.upload(spot, start + sign * step)
            losses.append(run(net))
        assert (losses[0] - losses[1]) / 2 == pytest.approx(slope, rel=1e-5, abs=1e-13)
    if kind == "host" and not net.requires_host:
        assert not dev.why_eager() and len(dev.backend.graphs) >= 2, "passes from the third on were captured"


@pytest.mark.parametrize("kind", sorted(k for k, cls in REGISTRY.items() if cls.in_place and cls.differentiable))
def test_in_place_gives_the_same(kind, rng):
    """Over a layer of its own, whose output nobody else reads: the wish is granted where backward can do without the
    bottom."""
    head = inputs(x=(3, 4), target=(3, 5))
    head += (
        f'layer {{ name: "ip" type: "InnerProduct" bottom: "x" top: "h" inner_product_param {{ num_output: 5 '
        f"{FILL} }} }}\n"
    )
    fed = {"x": rng.normal(size=(3, 4)), "target": rng.normal(size=(3, 5))}
    found = {}
    for top in "hy":
        text = head + f'layer {{ name: "layer" type: "{kind}" bottom: "h" top: "{top}" }}\n'
        text += f'layer {{ name: "loss" type: "EuclideanLoss" bottom: "{top}" bottom: "target" top: "loss" }}'
        net = bind(text, fuse=False)
        feed(net, **fed)
        found[top] = (run(net), net.params.diff.copy())
        node = net.graph.nodes[3]
        shared = net.data[node.tops[0]].ctypes.data == net.data[node.bottoms[0]].ctypes.data
        assert shared is not node.layer.backward_reads_bottom(0)
    for of_one, of_both in zip(found["h"], found["y"], strict=True):
        np.testing.assert_array_equal(of_one, of_both)


# A label gives no score, the columns of a pad are 0, the samples of a batch share their moments, and a batch of states
# has N second.
NAN_ROWS = [
    r
    for r in ROWS
    if r.differentiable and r.bottoms and 0 not in r.constant and r.kind not in ("Im2col", "BatchNorm", "LSTMUnit")
]


@pytest.mark.parametrize("row", NAN_ROWS, ids=str)
def test_nan_is_not_hidden(row, rng):
    net, fed = row.bind(row.text()), row.draw(rng)
    for i in set(range(len(row.bottoms))) - set(row.constant):
        fed[f"x{i}"][0] = np.nan
    feed(net, **fed)
    net.forward()
    top = net.blobs["y0"]
    assert np.isnan(top if top.shape == () else top[0]).all()
    assert top.shape == () or not np.isnan(top[1:]).any()


@pytest.mark.parametrize("nan", ["all", "own", "rival"])
def test_accuracy_never_counts_nan_as_right(nan):
    net = bind(
        inputs(x=(1, 3), t=(1,)) + 'layer { name: "a" type: "Accuracy" bottom: "x" bottom: "t" top: "y" }', "TEST"
    )
    scores = np.array([[0.0, 9.0, 1.0]])
    feed(net, x=scores, t=np.array([1.0]))
    net.forward()
    assert net.blobs["y"] == 1
    scores[0, {"all": slice(None), "own": 1, "rival": 2}[nan]] = np.nan
    feed(net, x=scores)
    net.forward()
    assert net.blobs["y"] == 0


def test_accuracy_counts_a_tie_as_wrong():
    net = bind(
        inputs(x=(1, 3), t=(1,)) + 'layer { name: "a" type: "Accuracy" bottom: "x" bottom: "t" top: "y" }', "TEST"
    )
    feed(net, x=np.array([[1.0, 1.0, 0.0]]), t=np.array([0.0]))
    net.forward()
    assert net.blobs["y"] == 0


# labels


@pytest.mark.parametrize("kind", ["SoftmaxWithLoss", "Accuracy"])
@pytest.mark.parametrize("label", [3, -1, np.nan])
def test_labels_out_of_range(kind, label):
    text = inputs(x=(4, 3), t=(4,)) + f'layer {{ name: "layer" type: "{kind}" bottom: "x" bottom: "t" top: "y" }}'
    net = bind(text)
    feed(net, x=np.zeros((4, 3)), t=np.array([0, 2, label, 1]))
    net.forward()
    message = (
        'layer "layer" .*: a label in bottom "t" is no class .sample 2 of the batch.; expected whole numbers 0 '
        'to 2, the channels of "x"'
    )
    with pytest.raises(CaffeliteError, match=message) as caught:
        net.check_faults()
    assert str(caught.value).startswith("net.prototxt:3:1: ")


def test_labels_out_of_range_of_pixels():
    text = (
        inputs(x=(2, 3, 4), t=(2, 4))
        + 'layer { name: "layer" type: "SoftmaxWithLoss" bottom: "x" bottom: "t" top: "y" loss_param { ignore_label: '
        "255 } }"
    )
    net, given = bind(text), np.zeros((2, 4))
    given[0, 1] = 255
    feed(net, x=np.zeros((2, 3, 4)), t=given)
    net.forward()
    net.check_faults()
    given[1, 2] = 3
    feed(net, t=given)
    net.forward()
    with pytest.raises(CaffeliteError, match="sample 1 of the batch, position 2"):
        net.check_faults()


# data


def test_dummy_data_keeps_constants_and_redraws_the_rest():
    filler = 'data_filler { type: "constant" value: 2 } data_filler { type: "uniform" }'
    net = bind(
        f'layer {{ name: "d" type: "DummyData" top: "a" top: "b" dummy_data_param {{ shape {{ dim: 500 }} {filler} '
        f"}} }}"
    )
    seen = []
    for iteration, part in ((0, 0), (1, 0), (1, 1), (1, 1)):
        net.forward(iteration, part)
        assert (net.blobs["a"] == 2).all()
        seen.append(net.blobs["b"].copy())
    assert len({s.tobytes() for s in seen}) == 3 and np.array_equal(seen[2], seen[3])
    assert all(0.4 < s.mean() < 0.6 for s in seen)
    net.blobs["a"][...] = 7
    net.forward(2)
    assert (net.blobs["a"] == 7).all(), "filled once"


def test_memory_data_goes_round():
    net = bind(
        'layer { name: "m" type: "MemoryData" top: "a" top: "b" memory_data_param { batch_size: 2 channels: 3 '
        "height: 1 width: 2 } }"
    )
    layer = net.graph.nodes[0].layer
    with pytest.raises(
        CaffeliteError,
        match=r"^net.prototxt:1:1: layer .m. .MemoryData.: has no data; give it some with set_input_arrays",
    ):
        net.forward()
    data, labels = IN_MEMORY
    layer.set_input_arrays(np.repeat(data, 2, 0)[::2], labels[:, None])  # no matter how it lies in memory
    for start in (0, 2, 0):
        net.forward()
        np.testing.assert_array_equal(net.blobs["a"], data[start : start + 2])
        np.testing.assert_array_equal(net.blobs["b"], labels[start : start + 2])
    for bad in ((data[:3], labels[:3]), (data[:0], labels[:0]), (data[:, :2], labels)):
        with pytest.raises(
            CaffeliteError, match="its data does not fit; expected M×3×1×2, M a multiple of batch_size 2, found"
        ):
            layer.set_input_arrays(*bad)
    with pytest.raises(CaffeliteError, match="its labels do not fit the data; expected 4, found .3."):
        layer.set_input_arrays(data, labels[:3])


def test_hdf5_output_appends(rng):
    row = next(r for r in ROWS if r.kind == "HDF5Output")
    for _ in range(2):  # a second run starts the file anew
        net, batches = row.bind(row.text()), [row.draw(rng) for _ in range(3)]
        for fed in batches:
            feed(net, **fed)
            net.forward()
    with h5py.File("out.h5") as file:
        for name, x in (("data", "x0"), ("label", "x1")):
            expected = np.concatenate([b[x] for b in batches]).astype(np.float32)
            np.testing.assert_array_equal(file[name][...].reshape(expected.shape), expected)
            assert file[name].ndim == 4


def test_hdf5_output_that_cannot_be_written():
    row = next(r for r in ROWS if r.kind == "HDF5Output")
    net = row.bind(row.text().replace("out.h5", "none/out.h5"))
    with pytest.raises(
        CaffeliteError, match=r"^net.prototxt:3:\d+: layer .layer. .HDF5Output.: cannot write none/out.h5: "
    ):
        net.forward()


# mistakes: each @ marks the place that the message names


def one(kind: str, body: str, *shapes: tuple[int, ...], tops: str = "y") -> str:
    below = " ".join(f'bottom: "x{i}"' for i in range(len(shapes)))
    above = " ".join(f'top: "{t}"' for t in tops)
    return (
        inputs(**{f"x{i}": s for i, s in enumerate(shapes)})
        + f'layer {{ name: "layer" type: "{kind}" {below} {above} {body} }}'
    )


def conv(body: str, shape=IMAGE) -> str:
    return one("Convolution", f"convolution_param {{ {body} }}", shape)


def pool(body: str, shape=IMAGE) -> str:
    return one("Pooling", f"pooling_param {{ {body} }}", shape)


def at_bottom(text: str, i: int) -> str:
    return text.replace(f'bottom: "x{i}"', f'bottom: @"x{i}"')


def at_layer(text: str) -> str:
    return text.replace('layer { name: "layer"', '@layer { name: "layer"')


MISTAKES = [
    (
        one("Dropout", "dropout_param { dropout_ratio: @1 }", BATCH),
        "a bad dropout_ratio; expected 0 or more and less than 1, found 1",
    ),
    (one("Dropout", "dropout_param { dropout_ratio: @-0.5 }", BATCH), "a bad dropout_ratio"),
    (one("Dropout", "dropout_param { dropout_ratio: @nan }", BATCH), "a bad dropout_ratio"),
    (one("Clip", "clip_param { min: 1 max: @0 }", BATCH), "max lies below min; expected 1 or more, found 0"),
    (one("Exp", "exp_param { base: @0 }", BATCH), "a bad base; expected more than 0, or -1 for e, found 0"),
    (one("Log", "log_param { base: @-2 }", BATCH), "a bad base"),
    (one("Log", "log_param { base: @1 }", BATCH), "no logarithm has base 1"),
    (at_bottom(one("PReLU", "", (2,)), 0), 'bottom "x0" has no channels'),
    (
        one("Softmax", "softmax_param { axis: @2 }", BATCH),
        "axis 2 is outside the bottom's 2 axes; expected -2 to 1, found 2",
    ),
    (one("SoftmaxWithLoss", "softmax_param { axis: @-3 }", BATCH, (2,)), "axis -3 is outside"),
    (at_layer(one("Softmax", "", (2,))), "axis 1 is outside the bottom's 1 axes"),
    (
        one("Flatten", "flatten_param { axis: 2 end_axis: @1 }", IMAGE),
        "end_axis lies before axis; expected 2 or more, found 1",
    ),
    (one("Flatten", "flatten_param { end_axis: @4 }", IMAGE), "end_axis 4 is outside the bottom's 4 axes"),
    (one("InnerProduct", "@inner_product_param { }", BATCH), "num_output must be positive; set num_output"),
    (one("InnerProduct", "inner_product_param { num_output: @0 }", BATCH), "num_output must be positive"),
    (
        one("InnerProduct", "inner_product_param { num_output: 2 axis: @3 }", BATCH),
        "axis 3 is outside the bottom's 2 axes; expected -2 to 2",
    ),
    (conv("num_output: @0 kernel_size: 1"), "num_output must be positive"),
    (
        conv("num_output: 2").replace("convolution_param", "@convolution_param"),
        "kernel_size must be at least 1; found none",
    ),
    (conv("num_output: 2 @kernel_size: 3 kernel_size: 0"), "kernel_size must be at least 1; found 0"),
    (conv("num_output: 2 @kernel_size: 7"), "its kernel [7, 7] does not fit; found an image of 6×5"),
    (conv("num_output: 2 kernel_size: 3 @stride: 0"), "stride must be at least 1; found 0"),
    (conv("num_output: 2 kernel_size: 3 @dilation: 0"), "dilation must be at least 1"),
    (
        conv("num_output: 2 kernel_size: 3 kernel_size: 3 kernel_size: @3"),
        "has 3 values of kernel_size; expected one, or one for each of the 2",
    ),
    (conv("num_output: 2 @kernel_size: 3 kernel_h: 3"), "gives kernel_size and kernel_h/kernel_w; keep one of the two"),
    (conv("num_output: 3 kernel_size: 1 group: @2"), "group 2 does not divide the 3 num_output"),
    (conv("num_output: 3 kernel_size: 1 group: @3"), "group 3 does not divide the 4 input channels"),
    (conv("num_output: 3 kernel_size: 1 group: @0"), "group 0 does not divide"),
    (
        at_bottom(conv("num_output: 2 kernel_size: 1", (3,)), 0),
        'bottom "x0" has no axis 1; expected N×C×H×W, with channels at axis 1, found shape [3]',
    ),
    (at_bottom(conv("num_output: 2 kernel_size: 1 axis: 4"), 0), 'bottom "x0" has no axis 4'),
    (conv("num_output: 2 kernel_size: 1 axis: @-5"), "axis -5 is outside the bottom's 4 axes"),
    (
        conv("num_output: 2 kernel_h: @1 kernel_w: 1", (2, 3, 4)),
        "kernel_h and kernel_w are for two spatial axes; expected kernel_size for 1",
    ),
    (conv("num_output: 2 kernel_size: 1 kernel_size: @1", (2, 3, 4)), "has 2 values of kernel_size; expected one"),
    (
        conv("num_output: 2 kernel_size: 1 stride: 1 stride: @2", (2, 3, 4, 5, 6)),
        "has 2 values of stride; expected one, or one for each of the 3",
    ),
    (
        one("Deconvolution", "convolution_param { num_output: 2 kernel_size: 2 @pad: 9 }", IMAGE),
        "its pad leaves nothing of the output; found pad [9, 9], output [-11, -12]",
    ),
    (
        one("Im2col", "convolution_param { @kernel_size: 7 }", IMAGE),
        "its kernel [7, 7] does not fit; found an image of 6×5",
    ),
    (at_bottom(one("Im2col", "convolution_param { kernel_size: 1 }", BATCH), 0), "has no spatial axes"),
    (
        at_bottom(one("Crop", "", IMAGE, BATCH), 1),
        'bottom "x1" has another number of axes; expected 4, as the first, found [2, 3]',
    ),
    (
        one("Crop", "crop_param { offset: 1 offset: 1 offset: @1 }", IMAGE, IMAGE),
        "has 3 values of offset; expected one, or one for each of the 2 axes from axis 2",
    ),
    (
        one("Crop", "crop_param { offset: 0 offset: @1 }", IMAGE, IMAGE),
        'its part leaves "x0" [2, 4, 6, 5] along axis 3; expected offset + 5 up to 5, found offset 1',
    ),
    (at_layer(one("Crop", "", IMAGE, (2, 4, 7, 5))), "along axis 2; expected offset + 7 up to 6, found offset 0"),
    (one("Crop", "crop_param { axis: @4 }", IMAGE, IMAGE), "axis 4 is outside"),
    (
        one("Scale", "scale_param { num_axes: @4 }", IMAGE),
        "num_axes 4 from axis 1 leaves the bottom's 4 axes; expected -1 to 3, found 4",
    ),
    (one("Bias", "bias_param { num_axes: @-2 }", IMAGE), "num_axes -2 from axis 1 leaves"),
    (one("Bias", "bias_param { axis: @-5 }", IMAGE), "axis -5 is outside"),
    (at_bottom(one("Scale", "", IMAGE, (4, 5)), 1), 'bottom "x1" does not fit; expected [4, 6], found [4, 5]'),
    (at_bottom(one("Bias", "", IMAGE, (2,)), 1), 'bottom "x1" does not fit; expected [4], found [2]'),
    (one("LRN", "lrn_param { local_size: @4 }", IMAGE), "local_size must be odd; found 4"),
    (at_bottom(one("LRN", "", BATCH), 0), "is no batch of images"),
    (
        one("BatchNorm", "param { lr_mult: 0 } param { lr_mult: @1 }", IMAGE),
        "its blobs are statistics, not parameters to learn; expected lr_mult: 0, or none, found 1",
    ),
    (
        one("BatchNorm", "batch_norm_param { scale_bias: true }" + " param { }" * 5 + " @param { }", IMAGE),
        "6 param messages; expected at most 5",
    ),
    (
        at_bottom(one("Axpy", "", (2, 3), IMAGE, IMAGE), 0),
        'bottom "x0" does not fit; expected [2, 4] or [2, 4, 1, 1], found [2, 3]',
    ),
    (
        at_bottom(one("Axpy", "", (2, 4), IMAGE, (2, 4, 6, 4)), 2),
        'bottom "x2" does not fit; expected [2, 4, 6, 5], found [2, 4, 6, 4]',
    ),
    (at_bottom(one("Axpy", "", (2,), (2,), (2,)), 1), 'bottom "x1" has no channels'),
    (
        one("Permute", "permute_param { order: @4 }", IMAGE),
        "axis 4 is outside the bottom's 4 axes; expected 0 to 3, found 4",
    ),
    (one("Permute", "permute_param { order: 1 order: @1 }", IMAGE), "names axis 1 twice"),
    (at_bottom(one("Normalize", "", (2,)), 0), 'bottom "x0" has no channels'),
    (
        one("SmoothL1Loss", "smooth_l1_loss_param { sigma: @0 }", BATCH, BATCH),
        "a bad sigma; expected a finite number above 0, found 0",
    ),
    (
        one("SoftmaxWithLoss", "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: @-1 }", BATCH, (2,)),
        "a bad pre_fixed_normalizer; expected a finite number above 0, found -1",
    ),
    (one("Embed", "@embed_param { input_dim: 3 }", (2,)), "num_output must be positive; set num_output"),
    (one("Embed", "embed_param { num_output: 3 input_dim: @0 }", (2,)), "input_dim must be positive; set input_dim"),
    (
        one("MemoryData", "memory_data_param { batch_size: 1 channels: 1 height: @0 width: 1 }", tops="yz"),
        "height must be positive",
    ),
    (
        one("MemoryData", "@memory_data_param { }", tops="yz"),
        "batch_size must be positive; set batch_size, channels, height and width",
    ),
    (one("SPP", "@spp_param { }", IMAGE), "a bad pyramid_height; expected 1 level or more, at most 16, found none"),
    (one("SPP", "spp_param { pyramid_height: @0 }", IMAGE), "a bad pyramid_height"),
    (
        one("SPP", "spp_param { pyramid_height: @3 }", IMAGE),
        "level 2 of the pyramid, 4 by 4, is too fine for an image of 6×5; make the pyramid lower, or the image larger",
    ),
    (one("SPP", "spp_param { pyramid_height: 2 pool: @STOCHASTIC }", IMAGE), "stochastic pooling knows no pad"),
    (at_bottom(one("SPP", "spp_param { pyramid_height: 1 }", BATCH), 0), "is no batch of images"),
    (
        at_bottom(
            one("Convolution", "convolution_param { num_output: 2 kernel_size: 1 }", IMAGE, (2, 4, 5, 6), tops="yz"), 1
        ),
        'bottom "x1" differs from the first',
    ),
    (
        at_layer(one("Convolution", "convolution_param { num_output: 2 kernel_size: 1 }", IMAGE, IMAGE)),
        "has 1 tops for 2 bottoms; expected as many tops as bottoms",
    ),
    (
        pool("pool: STOCHASTIC kernel_size: 2 pad: @1"),
        "stochastic pooling knows no pad; expected pad 0, found pad [1, 1]",
    ),
    (
        one("Pooling", "pooling_param { pool: AVE kernel_size: 2 }", IMAGE, tops="yz").replace('"z"', '@"z"'),
        "a second top, the winners' places, is for MAX pooling; found pool: AVE",
    ),
    (pool("global_pooling: @true kernel_size: 2"), "global_pooling takes its kernel from the bottom; drop kernel_size"),
    (pool("global_pooling: @true pad: 1"), "global_pooling has one window; expected stride 1 and pad 0"),
    (pool("global_pooling: @true stride: 2"), "global_pooling has one window"),
    (pool("kernel_size: @7"), "its kernel [7, 7] does not fit"),
    (pool("kernel_size: @7 stride: 2 round_mode: FLOOR"), "its kernel [7, 7] does not fit; found an image of 6×5"),
    (
        pool("kernel_size: 2 round_mode: CEIL ceil_mode: @false"),
        "ceil_mode and round_mode contradict each other; found round_mode: CEIL, ceil_mode: false; keep one of the two",
    ),
    (pool("kernel_size: 2 pad: @2"), "pad must be less than the kernel; found pad [2, 2], kernel [2, 2]"),
    (pool("kernel_size: 2 stride: @0"), "stride must be at least 1"),
    (at_bottom(pool("kernel_size: 2", BATCH), 0), 'bottom "x0" is no batch of images'),
    (
        at_bottom(one("SoftmaxWithLoss", "", BATCH, (3,)), 1),
        'bottom "x1" does not fit; expected 2 labels, one for each vector of "x0" [2, 3] along axis 1, found 3 [3]',
    ),
    (
        at_bottom(one("SigmoidCrossEntropyLoss", "", BATCH, (2, 2)), 1),
        'bottom "x1" does not fit; expected 6 values, as "x0" [2, 3] has, found 4 [2, 2]',
    ),
    (at_bottom(one("EuclideanLoss", "", BATCH, (2, 2)), 1), 'bottom "x1" does not fit'),
    (at_bottom(one("Accuracy", "", BATCH, BATCH), 1), 'bottom "x1" does not fit; expected 2 labels'),
    (
        one("Accuracy", "accuracy_param { top_k: @4 }", BATCH, (2,)),
        "top_k must lie among the classes; expected 1 to 3, found 4",
    ),
    (one("Accuracy", "accuracy_param { top_k: @0 }", BATCH, (2,)), "top_k must lie among the classes"),
    (
        at_bottom(one("HDF5Output", 'hdf5_output_param { file_name: "o.h5" }', BATCH, (3,), tops=""), 1),
        'bottom "x1" differs in batch size',
    ),
    (one("HDF5Output", "@hdf5_output_param { }", BATCH, BATCH, tops=""), "has no file_name"),
    (one("Parameter", "parameter_param { shape { dim: 2 dim: @0 } }"), "a bad dimension; expected 1 or more, found 0"),
    (one("Input", "input_param { @shape { dim: 1 } shape { dim: 1 } }"), "has 2 shapes for 1 tops; expected 1 or 1"),
    (one("DummyData", "@dummy_data_param { }"), "has 0 shapes for 1 tops"),
    (
        one("DummyData", "dummy_data_param { @shape { dim: 1 } num: 1 }"),
        "gives shape and num/channels/height/width; keep shape",
    ),
    (
        one("DummyData", "dummy_data_param { @num: 1 channels: 1 height: 1 }"),
        "num, channels, height and width differ in number",
    ),
    (one("DummyData", "@dummy_data_param { num: 1 channels: 1 height: 1 width: 0 }"), "a bad dimension"),
    (
        one("DummyData", "dummy_data_param { shape { dim: 1 } @data_filler { } data_filler { } }"),
        "has 2 fillers for 1 tops",
    ),
    (one("Data", "", tops="abc").replace('"c"', '@"c"'), "has 3 top blobs"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_mistakes(text, message):
    mistakes(text, message)


def test_more_tops_than_a_source_fills():
    text = 'layer { name: "layer" type: "HDF5Data" top: "a" top: "b" top: @"c" }'
    mistakes(
        text,
        "its source fills 2 tops; expected at most 2, found 3",
        run=lambda t, phase: bind(t, phase, open_source=lambda *_: Source(FED)),
    )
