"""Rows of the table of layers: values between the pixels."""

import numpy as np
from layers.layer_row import Row

IMAGES = (2, 4, 5, 6)


def value(image, row, column):
    """Of one channel, where the place is in reach."""
    height, width = image.shape
    row, column = min(max(row, 0), height - 1), min(max(column, 0), width - 1)
    return sum(
        image[r, c] * max(0, 1 - abs(row - r)) * max(0, 1 - abs(column - c))
        for r in range(height)
        for c in range(width)
    )


def reached(image, row, column):
    return -0.5 <= row <= image.shape[0] - 0.5 and -0.5 <= column <= image.shape[1] - 0.5


def boxes(rng, shape):
    rows = np.array([[0, 2, 1, 18, 17], [1, 5, 2, 13, 9], [1, 1, 9, 30, 22]], float)
    return rows[: shape[0]] + [0, 0.3, 0.3, 0.3, 0.3]


def away(x):
    """Rounded, halves away from 0."""
    return np.sign(x) * np.floor(abs(x) + 0.5)


def warped(high, wide, scale):
    def oracle(x, rois):
        y = np.zeros((len(rois), x.shape[1], high, wide))
        for r, c, i, j in np.ndindex(y.shape):
            x1, y1, x2, y2 = away(rois[r, 1:] * scale)
            row, column = y1 + i * (y2 - y1) / high, x1 + j * (x2 - x1) / wide
            image = x[int(rois[r, 0]), c]
            y[r, c, i, j] = value(image, row, column) if reached(image, row, column) else 0
        return [y]

    return oracle


def aligned(x, rois, outputs=1, group=2, scale=0.25, points=2):
    y = np.zeros((len(rois), outputs, group, group))
    for r, c, i, j in np.ndindex(y.shape):
        image, total = x[int(rois[r, 0]), (c * group + i) * group + j], 0.0
        axes = []
        for cell, first, last, size in ((i, 2, 4, image.shape[0]), (j, 1, 3, image.shape[1])):
            begin = rois[r, first] * scale
            step = max((rois[r, last] + 1) * scale - begin, 0.1) / group
            start, end = (min(max(begin + k * step, 0), size - 1) for k in (cell, cell + 1))
            axes.append([p for k in range(points) if (p := start + (k + 1) * step / (points + 1)) < end])
        for row in axes[0]:
            total += sum(value(image, row, column) for column in axes[1])
        y[r, c, i, j] = total / points**2
    return [y]


def moved(x, rois, moves=None, outputs=1, group=2, scale=0.25, per=2, std=0.25):
    y = np.zeros((len(rois), outputs, group, group))
    for r, c, i, j in np.ndindex(y.shape):
        image, actual = x[int(rois[r, 0]), (c * group + i) * group + j], []
        axes = []
        for side, cell in ((1, i), (0, j)):
            first = away(rois[r, 1 + side]) * scale - 0.5
            extent = max((away(rois[r, 3 + side]) + 1) * scale - 0.5 - first, 0.1)
            start = first + cell * extent / group + (0 if moves is None else moves[r, side, i, j] * std * extent)
            axes.append([start + k * extent / group / per for k in range(per)])
        for row in axes[0]:
            actual += [value(image, row, column) for column in axes[1] if reached(image, row, column)]
        y[r, c, i, j] = np.mean(actual) if actual else 0
    return [y]


def landmarks(rng, shape):
    return np.array([[1.2, 3.4, 5.8, 0.3], [7.1, 8.2, 4.4, 4.7]])[: shape[0]]


def pieces(x, places):
    tops = []
    for k in range(2):
        y = np.zeros((*x.shape[:2], 3, 2))
        for n, i, j in np.ndindex(len(x), 3, 2):
            row, column = away(places[n, 2 * k + 1] - 1) + i, away(places[n, 2 * k] - 1) + j
            if 0 <= row < x.shape[2] and 0 <= column < x.shape[3]:
                y[n, :, i, j] = x[n, :, int(row), int(column)]
        tops.append(y)
    return tops


def between(rng, shape):
    """Offsets that lead between pixels, some out of the image."""
    return rng.integers(-2, 2, shape) + 0.25 + rng.random(shape) / 2


def deformed(stride, pad, dilation, group, groups):
    def oracle(x, offsets, w, b):
        y = np.zeros((len(x), len(w), *offsets.shape[2:])) + b[:, None, None]
        wide, per = w.shape[3], len(w) // group
        for n, m, c, i, j in np.ndindex(len(x), len(w), w.shape[1], *offsets.shape[2:]):
            channel = m // per * w.shape[1] + c
            own = channel // (x.shape[1] // groups)
            for k in range(w.shape[2] * wide):
                down, across = offsets[n, 2 * (own * w.shape[2] * wide + k) :][:2, i, j]
                row = i * stride - pad + k // wide * dilation + down
                column = j * stride - pad + k % wide * dilation + across
                if 0 <= row < x.shape[2] and 0 <= column < x.shape[3]:
                    y[n, m, i, j] += w[m, c, k // wide, k % wide] * value(x[n, channel], row, column)
        return [y]

    return oracle


def local(x, w, b):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = np.zeros((len(x), 3, 3, 3))
    for n, m, i, j in np.ndindex(y.shape):
        patch = padded[n, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].reshape(-1)
        y[n, m, i, j] = patch @ w[m, 0, :, 3 * i + j] + b[0, 0, m, 3 * i + j]
    return [y]


def tiled(x):
    y = np.zeros((len(x), 2, 6, 8))
    for n, c, i, j in np.ndindex(y.shape):
        y[n, c, i, j] = x[n, 4 * c + i % 2 * 2 + j % 2, i // 2, j // 2]
    return [y]


def matrices(count):
    """Of transforms whose points are far from the middles of pixels."""

    def draw(rng, shape):
        whole = np.array([0.83, 0.13, 0.211, -0.17, 0.71, 0.037]) + 0.01 * rng.random((shape[0], 6))
        return whole[:, :count]

    return draw


def transformed(high, wide, fixed=()):
    def oracle(x, theta):
        y = np.zeros((*x.shape[:2], high, wide))
        for n, c, i, j in np.ndindex(y.shape):
            at = np.append(theta[n], fixed).reshape(2, 3) @ [2 * i / high - 1, 2 * j / wide - 1, 1]
            row, column = (at + 1) * x.shape[2:] / 2
            for r, s in np.ndindex(x.shape[2:]):
                y[n, c, i, j] += x[n, c, r, s] * max(0, 1 - abs(row - r)) * max(0, 1 - abs(column - s))
        return [y]

    return oracle


ROWS = [
    Row("SpatialTransformer", "", transformed(4, 5), [(2, 3, 4, 5), ((2, 6), matrices(6))]),
    Row(
        "SpatialTransformer with fixed elements",
        "output_H: 3 output_W: 2 theta_2_2: 0.7 theta_2_3: 0.1",
        transformed(3, 2, (0.7, 0.1)),
        [(2, 3, 4, 5), ((2, 4), matrices(4))],
    ),
    Row(
        "ROIWarping",
        "pooled_h: 3 pooled_w: 2 spatial_scale: 0.25",
        warped(3, 2, 0.25),
        [IMAGES, ((3, 5), boxes)],
        constant=(1,),
    ),
    Row(
        "PSROIAlign",
        "spatial_scale: 0.25 output_dim: 1 group_size: 2",
        aligned,
        [IMAGES, ((3, 5), boxes)],
        constant=(1,),
    ),
    Row(
        "DeformablePSROIPooling",
        "spatial_scale: 0.25 output_dim: 1 group_size: 2 sample_per_part: 2 trans_std: 0.25",
        moved,
        [IMAGES, ((3, 5), boxes), (3, 2, 2, 2)],
        constant=(1,),
    ),
    Row(
        "DeformablePSROIPooling at rest",
        "spatial_scale: 0.25 output_dim: 1 group_size: 2 sample_per_part: 2 no_trans: true",
        moved,
        [IMAGES, ((3, 5), boxes)],
        constant=(1,),
    ),
    Row(
        "MultiROIPooling",
        "pooled_h: 3 pooled_w: 2 top_num: 2",
        pieces,
        [IMAGES, ((2, 4), landmarks)],
        tops=2,
        constant=(1,),
    ),
    Row(
        "MaskResize",
        "output_height: 8 output_width: 4",
        lambda x: np.array(
            [
                [
                    [
                        [
                            value(plane, i * 5 / 8, j * 6 / 4) if reached(plane, i * 5 / 8, j * 6 / 4) else 0
                            for j in range(4)
                        ]
                        for i in range(8)
                    ]
                    for plane in image
                ]
                for image in x
            ]
        ),
        [IMAGES],
    ),
    Row("MaskPooling", "", lambda x, m: x * m, [IMAGES, (2, 1, 5, 6)]),
    Row(
        "DeformableConvolution",
        "num_output: 2 kernel_size: 3 pad: 1 deformable_group: 2",
        deformed(1, 1, 1, 1, 2),
        [IMAGES, ((2, 36, 5, 6), between)],
    ),
    Row(
        "DeformableConvolution in groups",
        "num_output: 2 kernel_h: 2 kernel_w: 1 stride: 2 dilation: 2 pad: 1 group: 2 deformable_group: 1",
        deformed(2, 1, 2, 2, 1),
        [(2, 4, 5, 3), ((2, 4, 3, 3), between)],
    ),
    Row("Local", "num_output: 3 kernel_size: 2 pad: 1 stride: 2", local, [(2, 2, 4, 5)]),
    Row("Tiling", "tile_dim: 2", tiled, [(2, 8, 3, 4)]),
]
