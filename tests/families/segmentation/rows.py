"""Rows of the table of layers: segmentation."""

import tempfile

import numpy as np
from layers.layer_row import Row, distinct, labels
from textnet import IMAGE

WRITTEN = tempfile.TemporaryDirectory()  # removed at exit


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


FED = [np.arange(6.0).reshape(2, 3), np.array([1.0, 0.0])]


# The samples of a batch share their moments; what Upsample adds is 0.
UNLIKE = "BN BNConv Upsample Unpooling".split()

ROWS = [
    Row(
        "Unpooling",
        "kernel_size: 2 stride: 2 unpool_h: 5 unpool_w: 7",
        unpooled(5, 7),
        [(2, 3, 2, 3), ((2, 3, 2, 3), places)],
        constant=(1,),
    ),
    Row(
        "Unpooling of any size",
        "kernel_size: 2 stride: 2",
        unpooled(4, 6),
        [(2, 3, 2, 3), ((2, 3, 2, 3), places)],
        constant=(1,),
    ),
    Row(
        "Unpooling of sides",
        "kernel_h: 6 kernel_w: 3 stride_h: 4 stride_w: 2 pad_h: 2 pad_w: 0",
        unpooled(6, 7),
        [(2, 3, 2, 3), ((2, 3, 2, 3), places)],
        constant=(1,),
    ),
    Row("SpatialProduct", "", lambda x, w: x * w, [(2, 3, 4, 5), (2, 1, 4, 5)]),
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
    Row("DenseImageData", "", lambda: FED, tops=2, source=FED),
    Row("ImageLabelmapData", "", lambda: FED, tops=2, source=FED),
    Row("ImageSegData", "", lambda: FED, tops=2, source=FED),
    Row("WindowSegData", "", lambda: FED, tops=2, source=FED),
]
