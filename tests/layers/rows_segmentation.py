"""Rows of the table of layers: segmentation and mobile nets of Caffe's forks."""

import tempfile

import numpy as np
import reference
from layer_row import Row, distinct, labels, off_kinks
from textnet import IMAGE

from caffelite.devices import Window

WRITTEN = tempfile.TemporaryDirectory()  # removed at exit


def depthwise(window: Window):
    """A convolution of each channel apart; an output channel m belongs to the input channel m // (M / C)."""

    def oracle(x, w, b):
        each = len(w) // x.shape[1]
        parts = [
            reference.convolution(x[:, c : c + 1], w[each * c : each * (c + 1)], None, window)
            for c in range(x.shape[1])
        ]
        return [np.concatenate(parts, 1) + b[:, None, None]]

    return oracle


def shuffled(group: int):
    return lambda x: [x[:, [c % group * (x.shape[1] // group) + c // group for c in range(x.shape[1])]]]


def hats(size: int, count: int) -> np.ndarray:
    """(count, size): the weights of ``size`` points in ``count`` between the first and the last of them."""
    at = np.linspace(0, size - 1, count)
    return np.maximum(0, 1 - abs(at[:, None] - np.arange(size)))


def resized(height: int, width: int, begin: int = 0, end: int = 0):
    def oracle(x):
        part = x[:, :, begin : x.shape[2] - end, begin : x.shape[3] - end]
        return [np.einsum("ah,bw,nchw->ncab", hats(part.shape[2], height), hats(part.shape[3], width), part)]

    return oracle


def places(rng, shape):
    """Of each plane of a top that is twice as high and wide, different ones."""
    pixels = 4 * shape[2] * shape[3]
    return np.stack(
        [rng.permutation(pixels)[: shape[2] * shape[3]] for _ in range(shape[0] * shape[1])]
    ).reshape(shape).astype(float)  # fmt: skip


def unpooled(height: int, width: int):
    def oracle(x, mask):
        y = np.zeros((*x.shape[:2], height, width))
        for (n, c, h, w), value in np.ndenumerate(x):
            y[n, c, int(mask[n, c, h, w]) // width, int(mask[n, c, h, w]) % width] = value
        return [y]

    return oracle


def normalized(eps: float, tops: int = 1):
    def oracle(x, a, b, *stored):
        mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
        return [a * (x - mean) / np.sqrt(variance + eps) + b, mean, variance][:tops]

    return oracle


def overlaps(x, label, ignore: int | None = None):
    """Accuracy, mean recall, mean intersection over union, pixel by pixel."""
    actual, given = x.argmax(1).ravel(), label.ravel()
    actual, given = actual[given != ignore], given[given != ignore]
    recalls, shares = [], []
    for k in range(x.shape[1]):
        of_class, as_class = given == k, actual == k
        if of_class.any():
            recalls.append((actual[of_class] == k).mean())
        either = of_class | as_class
        shares.append((of_class & as_class).sum() / either.sum() if either.any() else 1.0)
    return [np.reshape([(actual == given).mean(), np.mean(recalls), np.mean(shares)], (1, 1, 1, 3))]


def weighed(weights, ignore: int):
    """caffe-segnet's loss: the sum of weighted losses over the number of labels that count."""

    def oracle(x, t):
        terms = [
            (np.log(np.exp(x[n, :, i]).sum()) - x[n, int(k), i]) * weights[int(k)]
            for (n, i), k in np.ndenumerate(t)
            if k != ignore
        ]
        return [np.sum(terms) / len(terms)]

    return oracle


ROWS = [
    Row("SpatialProduct", "", lambda x, w: x * w, [(2, 3, 4, 5), (2, 1, 4, 5)]),
    Row(
        "SoftmaxWithLoss weighed as in SegNet",
        "loss_param { weight_by_label_freqs: true class_weighting: 0.5 class_weighting: 3 "
        "class_weighting: 0.25 ignore_label: 7 }",
        weighed([0.5, 3, 0.25], 7),
        [(3, 3, 4), ((3, 4), labels(3, 7))],
    ),
    Row(
        "DepthwiseConvolution",
        "num_output: 4 kernel_size: 3 pad: 1 stride: 2 group: 4",
        depthwise(Window((3, 3), (2, 2), (1, 1))),
    ),
    Row(
        "ConvolutionDepthwise of as many outputs as channels",
        "num_output: 8 group: 3 kernel_h: 2 kernel_w: 3",
        depthwise(Window((2, 3))),
    ),
    Row(
        "DepthwiseConvolution of two outputs a channel",
        "num_output: 8 kernel_h: 2 kernel_w: 3",
        depthwise(Window((2, 3))),
    ),
    Row("ReLU6", "", lambda x: np.clip(x, 0, 6), [((3, 40), lambda rng, shape: 8 * off_kinks(rng, shape))]),
    Row(
        "ReLU6 leaky",
        "negative_slope: 0.125",
        lambda x: np.where(x < 0, 0.125 * x, np.minimum(x, 6)),
        [((3, 40), lambda rng, shape: 8 * off_kinks(rng, shape))],
    ),
    Row("ShuffleChannel", "group: 3", shuffled(3), [(2, 6, 2, 3)]),
    Row("ShuffleChannel of vectors", "group: 2", shuffled(2), [(3, 4)]),
    Row("ShuffleChannel of one group", "", lambda x: x, [(3, 4)]),
    Row("Interp", "height: 7 width: 4", resized(7, 4)),
    Row(
        "Interp to the size of a blob",
        "use_blob_size: true",
        lambda x, reference: resized(3, 8)(x),
        [IMAGE, (2, 1, 3, 8)],
    ),
    Row("Interp zoomed", "zoom_factor: 3", resized(16, 13)),
    Row("Interp shrunk and cut", "shrink_factor: 2 pad_beg: -1", resized(3, 2, 1)),
    Row(
        "Interp of both factors",
        "shrink_factor: 2 zoom_factor: 2 pad_end: -1 pad_beg: -2",
        resized(5, 3, 2, 1),
        [(2, 3, 9, 7)],
    ),
    Row("Interp of the same size", "height: 6 width: 5", lambda x: x),
    Row("Interp of one row", "height: 1 width: 3", lambda x: np.repeat(x[:, :, :1], 3, 3), [(2, 3, 4, 1)]),
    Row("Upsample", "scale: 2", unpooled(4, 6), [(2, 3, 2, 3), ((2, 3, 2, 3), places)], constant=(1,)),
    Row(
        "Upsample to a size",
        "upsample_h: 5 upsample_w: 7",
        unpooled(5, 7),
        [(2, 3, 2, 3), ((2, 3, 2, 3), places)],
        constant=(1,),
    ),
    Row("Upsample by factors", "scale_h: 2 scale_w: 3", lambda x: x.repeat(2, 2).repeat(3, 3), [(2, 3, 2, 3)]),
    Row("BN", "", normalized(1e-5)),
    Row("BN of CTPN", "scale_filler { value: 1 } decay: 0.95 var_eps: 0.25", normalized(0.25), phase="TEST"),
    Row("BNConv", "", normalized(1e-10)),
    Row("BN of vectors", "eps: 0.5 momentum: 0.5", normalized(0.5), [(5, 3, 1, 1)]),
    Row("BN of SegNet", "bn_mode: LEARN", normalized(1e-9, 3), tops=3, phase="TEST"),
    Row("BN without moments", "bn_mode: INFERENCE", lambda x, a, b: a * x + b),
    Row("SegAccuracy", "", overlaps, [((3, 4, 5, 6), distinct), ((3, 1, 5, 6), labels(3))], phase="TEST"),
    Row(
        "SegAccuracy but for a label",
        "ignore_label: 255 ignore_label: 7",
        lambda x, label: overlaps(x, label, 255),
        [((2, 3, 2, 2), distinct), ((2, 2, 2), labels(3, 255))],
    ),
    Row("MatWrite", f'prefix: "{WRITTEN.name}/"', lambda *x: [], [IMAGE, IMAGE], tops=0),
]
