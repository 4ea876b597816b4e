"""Rows of the table of layers: optical flow."""

import numpy as np
from layers.layer_row import Row
from textnet import BATCH, IMAGE


def correlation_of_rows(k, most, pad, stride, step, right=False, before=False):
    def oracle(a, b):
        a, b = (np.pad(image, ((0, 0), (0, 0), (0, 0), (pad, pad))) for image in (a, b))
        shifts = range(0 if right else -(most // step) * step, most + 1, step)
        if before:
            shifts = range(-(most // step + 1) * step, 0, step)
            b, shifts = np.pad(b, ((0, 0), (0, 0), (0, 0), (step, 0))), [shift + step for shift in shifts]
        size = -(-(a.shape[2] - k + 1) // stride), -(-(a.shape[3] - 2 * most - k + 1) // stride)
        y = np.zeros((len(a), len(shifts), *size))
        for n, q, i, j in np.ndindex(y.shape):
            top, left = i * stride, most + j * stride
            here = a[n, :, top : top + k, left : left + k]
            y[n, q, i, j] = (here * b[n, :, top : top + k, left + shifts[q] : left + shifts[q] + k]).mean()
        return [y]

    return oracle


def correlation(k, most, pad, stride, step, each):
    def oracle(a, b):
        a, b = (np.pad(image, ((0, 0), (0, 0), (pad, pad), (pad, pad))) for image in (a, b))
        border, radius = most + (k - 1) // 2, most // step
        size = [-(-(side - 2 * border) // stride) for side in a.shape[2:]]
        y = np.zeros((len(a), (2 * radius + 1) ** 2, *size))
        for n, q, i, j in np.ndindex(y.shape):
            dy, dx = ((part - radius) * step for part in divmod(q, 2 * radius + 1))
            top, left = most + i * stride, most + j * stride
            here = a[n, :, top : top + k, left : left + k]
            y[n, q, i, j] = each(here, b[n, :, top + dy : top + dy + k, left + dx : left + dx + k]).mean()
        return [y]

    return oracle


def between(rng, shape):
    """Flows that lead between pixels, some out of the image."""
    return rng.integers(-3, 3, shape) + 0.25 + rng.random(shape) / 2


def warped(fill):
    def oracle(x, flow):
        height, width = x.shape[2:]
        y = np.full(x.shape, float(fill))
        for n, i, j in np.ndindex(len(x), height, width):
            column, row = j + flow[n, 0, i, j], i + flow[n, 1, i, j]
            if 0 <= column < width and 0 <= row < height:
                y[n, :, i, j] = sum(
                    x[n, :, min(r, height - 1), min(c, width - 1)] * (1 - abs(row - r)) * (1 - abs(column - c))
                    for r in (int(row), int(row) + 1)
                    for c in (int(column), int(column) + 1)
                )
        return [y]

    return oracle


def moved(nearest):
    def oracle(x, flow):
        height, width = x.shape[2:]
        y = np.zeros(x.shape)
        for n, i, j in np.ndindex(len(x), height, width):
            column, row = j + flow[n, 0, i, j], i + flow[n, 1, i, j]
            at = np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)
            if nearest or at == (row, column):
                y[n, :, i, j] = np.einsum("r,c,krc->k", *(map(hats, at, (height, width))), x[n])
        return [y]

    return oracle


def hats(at, size):
    return np.maximum(1 - np.abs(at - np.arange(size)), 0)


def absolute(ignored):
    return lambda a, b: [np.where(ignored(np.trunc(b)), 0, np.abs(a - b)).sum() / len(a)]


def depths(rng, shape):
    """Numbers between integers from 0 to 4."""
    return rng.integers(0, 4, shape) + rng.uniform(0.2, 0.8, shape)


def resampled(height, width, kernel, wide=True):
    def oracle(x):
        f, g = x.shape[3] / width, x.shape[2] / height
        sides = (f, g) if wide and max(f, g) > 1 else (1, 1)
        y = np.zeros((*x.shape[:2], height, width))
        for i, j in np.ndindex(height, width):
            column, row = j * f + g / 2 - 0.5, i * g + f / 2 - 0.5
            w = np.array(
                [
                    [kernel((column - c) / sides[0]) * kernel((row - r) / sides[1]) for c in range(x.shape[3])]
                    for r in range(x.shape[2])
                ]
            )
            y[:, :, i, j] = (x * w).sum((2, 3)) / w.sum()
        return [y]

    return oracle


def hat(d):
    return max(0.0, 1 - abs(d))


def cubic(d):
    d = abs(d)
    if d <= 1:
        return 1.5 * d**3 - 2.5 * d**2 + 1
    return -0.5 * d**3 + 2.5 * d**2 - 4 * d + 2 if d < 2 else 0.0


def with_holes(rng, shape):
    """A fifth of it unknown."""
    return np.where(rng.random(shape) < 0.2, np.nan, rng.normal(size=shape))


def downsampled(x):
    height, width = 3, 2
    y = np.zeros((*x.shape[:2], height, width))
    for n, c, i, j in np.ndindex(y.shape):
        row, column = i * (x.shape[2] - 1) / (height - 1), j * (x.shape[3] - 1) / (width - 1)
        sums = {True: [0.0, 0.0], False: [0.0, 0.0]}
        for r, s in np.ndindex(x.shape[2:]):
            w = hat((row - r) / (x.shape[2] - 1) * (height - 1)) * hat((column - s) / (x.shape[3] - 1) * (width - 1))
            known = not np.isnan(x[n, c, r, s])
            sums[known][0] += w
            sums[known][1] += w * x[n, c, r, s] if known else 0
        total = sums[True][0]
        y[n, c, i, j] = np.nan if not total or sums[False][0] / total > 0.5 else sums[True][1] / total
    return [y]


CUT = (3, 4)


def changes(rng, shape):
    """Positions alone: mirrored or not, moved, turned and zoomed."""
    vectors = np.zeros(shape)
    vectors[:, 0, 0, 0] = rng.integers(0, 2, len(vectors))
    vectors[:, 1:6, 0, 0] = rng.uniform(-0.3, 0.3, (len(vectors), 5))
    return vectors


def source(i, j, vector, size):
    """The row and column of an image from which a pixel of the crop comes."""
    mirror, dx, dy, angle, *zoom = vector[:6, 0, 0]
    column, row = (CUT[1] / 2 - j if mirror else j - CUT[1] / 2), i - CUT[0] / 2
    turned = (column + 1j * row) * np.exp(1j * angle) + dx * CUT[1] + 1j * dy * CUT[0]
    return turned.imag / np.exp(zoom[1]) + size[0] / 2, turned.real / np.exp(zoom[0]) + size[1] / 2


def cut(x, vectors=None):
    y = np.zeros((*x.shape[:2], *CUT))
    for n, i, j in np.ndindex(len(x), *CUT):
        at = source(i, j, np.zeros((6, 1, 1)) if vectors is None else vectors[n], x.shape[2:])
        at = [np.clip(place, 0, side - 1.05) for place, side in zip(at, x.shape[2:], strict=True)]
        y[n, :, i, j] = np.einsum("r,c,krc->k", *map(hats, at, x.shape[2:]), x[n])
    return y


def moved_flow(flow, first, second):
    y = np.zeros((len(flow), 2, *CUT))
    for n, i, j in np.ndindex(len(flow), *CUT):
        row, column = source(i, j, first[n], flow.shape[2:])
        near = (np.clip(int(at + 0.5), 0, side - 1) for at, side in zip((row, column), flow.shape[2:], strict=True))
        target = np.array([column, row]) + flow[(n, slice(None), *near)]
        origin, *sides = (np.array(source(*at, second[n], flow.shape[2:]))[::-1] for at in ((0, 0), (0, 1), (1, 0)))
        y[n, :, i, j] = np.linalg.solve(np.stack([side - origin for side in sides], 1), target - origin) - (j, i)
    return [y]


VECTORS = (2, 42, 1, 1)


def shared_mean(x):
    m = np.tile([0.5, 0.25], x.shape[1] // 2)[:, None, None]
    return 2 * (3 * x - m / 2)


IMAGES = (2, 3, 7, 6)
FLOWS = (2, 2, 4, 5)
FED = [np.arange(24.0).reshape(2, 3, 2, 2), np.arange(16.0).reshape(2, 2, 2, 2) / 32]  # by a source

# What is NaN does not count.
UNLIKE = ("L1Loss of flows", "L1Loss of lengths")

ROWS = [
    Row("NegReLU", "", lambda x: np.minimum(x, 0), [BATCH]),
    Row("NegReLU with a slope", "negative_slope: 0.5", lambda x: np.where(x < 0, x, x / 2), [BATCH]),
    Row(
        "Correlation",
        "kernel_size: 1 max_displacement: 2 pad: 2 stride_2: 2",
        correlation(1, 2, 2, 1, 2, np.multiply),
        [IMAGES, IMAGES],
    ),
    Row(
        "Correlation of patches",
        "kernel_size: 3 max_displacement: 1 pad: 1 stride_1: 2 do_abs: true",
        correlation(3, 1, 1, 2, 1, np.multiply),
        [IMAGES, IMAGES],
    ),
    Row(
        "Correlation of differences",
        "kernel_size: 3 max_displacement: 2 pad: 2 correlation_type: SUBTRACT",
        correlation(3, 2, 2, 1, 1, lambda a, b: np.abs(a - b)),
        [IMAGES, IMAGES],
    ),
    Row(
        "Correlation1D",
        "kernel_size: 3 max_displacement: 2 pad: 3 stride_1: 2",
        correlation_of_rows(3, 2, 3, 2, 1),
        [IMAGES, IMAGES],
    ),
    Row(
        "Correlation1D to the right",
        "kernel_size: 1 max_displacement: 3 pad: 3 stride_2: 2 single_direction: 1",
        correlation_of_rows(1, 3, 3, 1, 2, right=True),
        [IMAGES, IMAGES],
    ),
    Row(
        "Correlation1D to the left",
        "kernel_size: 1 max_displacement: 3 pad: 3 stride_2: 2 single_direction: -1",
        correlation_of_rows(1, 3, 3, 1, 2, before=True),
        [IMAGES, IMAGES],
    ),
    Row("FlowWarp", "", warped(0), [FLOWS[:1] + (3, 4, 5), (FLOWS, between)]),
    Row("Warp", "", moved(False), [FLOWS[:1] + (3, 4, 5), (FLOWS, between)]),
    Row("Warp nearest", "outliers: NEAREST", moved(True), [FLOWS[:1] + (3, 4, 5), (FLOWS, between)]),
    Row("AbsLoss", "", absolute(lambda b: b != b), [FLOWS, FLOWS]),
    Row(
        "AbsLoss without a value",
        "loss_param { ignore_label: 2 }",
        absolute(lambda b: b == 2),
        [FLOWS, (FLOWS, depths)],
    ),
    Row(
        "AbsLoss below a value",
        "loss_param { ignore_label: 0 ignore_mode: THRES }",
        absolute(lambda b: b >= 0),
        [FLOWS, (FLOWS, lambda rng, shape: depths(rng, shape) - 2.5)],
    ),
    Row("ChannelNorm", "", lambda x: np.sqrt((x**2).sum(1, keepdims=True))),
    Row("Resample", "height: 9 width: 8", resampled(9, 8, hat)),
    Row("Resample smaller", "height: 3 width: 2", resampled(3, 2, hat)),
    Row("Resample cubic", "height: 4 width: 3 type: CUBIC antialias: false", resampled(4, 3, cubic, False)),
    Row("Resample nearest", "height: 3 width: 2 type: NEAREST", lambda x: x[:, :, 1::2, 1::2], [(2, 3, 6, 4)]),
    Row("Downsample", "top_height: 3 top_width: 2", downsampled, [((2, 2, 7, 5), with_holes)]),
    Row(
        "L1Loss of flows",
        "l1_loss_param { plateau: 0.25 }",
        lambda a, b: np.abs(a - b)[np.abs(a - b) >= 0.25].sum() / len(a),
        [FLOWS, FLOWS],
    ),
    Row(
        "L1Loss of lengths",
        "l1_loss_param { l2_per_location: true l2_prescale_by_channels: true normalize_by_num_entries: "
        "true epsilon: 0.25 }",
        lambda a: np.sqrt((a**2).mean(1) + 0.25).mean(),
        [FLOWS],
    ),
    Row(
        "DataAugmentation",
        "crop_width: 4 crop_height: 3 mean: 1 mean: 2 mean: 3 mean_per_pixel: false",
        lambda x, passes: cut(x) - np.array([1, 2, 3])[:, None, None],
        [(2, 3, 6, 5)],
    ),
    Row(
        "DataAugmentation by given numbers",
        "crop_width: 4 crop_height: 3",
        lambda x, vectors, passes: [cut(x, vectors), vectors],
        [(2, 2, 6, 5), (VECTORS, changes)],
        tops=2,
    ),
    Row(
        "FlowAugmentation",
        "crop_width: 4 crop_height: 3",
        moved_flow,
        [(2, 2, 6, 5), (VECTORS, changes), (VECTORS, changes)],
    ),
    Row(
        "GenerateAugmentationParameters",
        "crop_width: 4 crop_height: 3 bottomwidth: 5 bottomheight: 6",
        lambda vectors: vectors,
        [(VECTORS, changes)],
    ),
    Row(
        "Mean",
        "operation: SUBTRACT value: 0.5 value: 0.25 mean_scale: 0.5 input_scale: 3 output_scale: 2",
        lambda *x: [*map(shared_mean, x)],
        [IMAGE, (2, 2, 3, 1)],
        tops=2,
    ),
    Row("CustomData", "slice_point: 3", lambda: FED, tops=2, source=FED),
]
