"""Rows of the table of layers: heat maps of joints."""

import numpy as np
from layers.layer_row import Row, distinct
from textnet import IMAGE


def partly_unknown(rng, shape):
    t = rng.normal(size=shape)
    t[0, 0] = -999
    return t


def heatmap_loss(x, t, image):
    known = t != -999
    return [((x - t)[known] ** 2).sum() / x.size]


def cubic(values, place):
    """Between values, of which the outermost go on."""
    first = max(0, int(place + 1e-5))
    v0, v1, v2, v3 = (values[min(max(0, first + i), len(values) - 1)] for i in (-1, 0, 1, 2))
    d = place - first
    return v1 + d * (v2 - v0) / 2 + d**2 * (v0 - 2.5 * v1 + 2 * v2 - v3 / 2) + d**3 * (v3 - v0 + 3 * (v1 - v2)) / 2


def resized(cuts, size):
    def oracle(x):
        y = np.zeros((1, x.shape[1], *size))
        for image, cut in zip(x, cuts, strict=False):
            inner = image[:, cut[0] : image.shape[1] - cut[0], cut[1] : image.shape[2] - cut[1]]
            rates = [b / a for a, b in zip(size, inner.shape[1:], strict=True)]
            for c, i, j in np.ndindex(y.shape[1:]):
                places = [(k - (1 / r / 2 - 0.5)) * r for k, r in zip((i, j), rates, strict=True)]
                y[0, c, i, j] += cubic([cubic(row, places[1]) for row in inner[c]], places[0])
        return [y / len(x)]

    return oracle


def peaks(threshold, parts, most):
    def oracle(x):
        y = np.zeros((len(x), parts, most + 1, 3))
        for n, c in np.ndindex(len(x), parts):
            actual = []
            for i, j in np.ndindex(x.shape[2] - 2, x.shape[3] - 2):
                block = x[n, c, i : i + 3, j : j + 3]
                if block[1, 1] > threshold and (block >= block[1, 1]).sum() == 1:
                    actual.append((i + 1, j + 1))
            y[n, c, 0, 0] = len(actual)
            for row, (i, j) in zip(y[n, c, 1:], actual, strict=False):
                near = [
                    (a, b)
                    for a in range(max(1, i - 3), min(x.shape[2], i + 4))
                    for b in range(max(1, j - 3), min(x.shape[3], j + 4))
                ]
                w = np.array([max(0, x[n, c, a, b]) for a, b in near])
                row[:] = *(w @ np.array(near)[:, ::-1] / w.sum()), x[n, c, i, j]
        return [y]

    return oracle


def highest(x):
    y = np.zeros((*x.shape[:2], 1, 3))
    for n, c in np.ndindex(x.shape[:2]):
        i, j = np.unravel_index(x[n, c].argmax(), x.shape[2:])
        y[n, c, 0] = j, i, x[n, c, i, j]
    return [y]


FED = [np.arange(2 * 3 * 4 * 4.0).reshape(2, 3, 4, 4), np.arange(2 * 5 * 2 * 2.0).reshape(2, 5, 2, 2)]
SIZES = "batchsize: 2 cropsize: 4 outsize: 4 label_width: 2 label_height: 2"

ROWS = [
    Row("CPMData", "cpm_transform_param { num_parts: 43 }", lambda: FED, tops=2, source=FED),
    Row("DataHeatmap", SIZES, lambda: FED, tops=2, source=FED),
    Row(
        "EuclideanLossHeatmap", "", heatmap_loss, [IMAGE, (IMAGE, partly_unknown), IMAGE], constant=(1, 2), exact=False
    ),
    Row(
        "ImResize",
        "target_spatial_height: 9 target_spatial_width: 5 scale_gap: 0.5",
        resized([(0, 0), (2, 1)], (9, 5)),
        [(2, 3, 8, 6)],
    ),
    Row("ImResize twice", "factor: 2", resized([(0, 0)], (8, 6)), [(1, 2, 4, 3)]),
    Row("Nms", "threshold: 0.5 num_parts: 2 max_peaks: 3", peaks(0.5, 2, 3), [((2, 3, 9, 8), distinct)]),
    Row("Maximum", "", highest, [(IMAGE, distinct)]),
]
