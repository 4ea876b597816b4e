"""Rows of the table of layers: DetectNet."""

import numpy as np
from layers.layer_row import Row

OBJECTS = [[(2, 1, 4, 6, 1), (7, 0, 5, 4, 3)], [(0, 3, 9, 5, 3), (1, 1, 3, 3, 2)]]


def pixels(rng, shape):
    return rng.integers(0, 256, shape).astype(float)


def objects(rng, shape):
    """Rows of 7 values: the number of rows, then x, y, width, height, angle, class."""
    actual = np.zeros(shape)
    for n in range(shape[0]):
        actual[n, 0, 0, :2] = 2, 7
        for i, (*box, label) in enumerate(OBJECTS[n], 1):
            actual[n, 0, i, :4], actual[n, 0, i, 5] = box, label
    return actual


def grids(x, labels):
    actual = np.zeros((len(x), 10, 2, 3))
    for n, i, j in np.ndindex(len(x), 2, 3):
        for left, top, width, height, label in OBJECTS[n]:
            half = width / 4, height / 4
            middle = left + width / 2, top + height / 2
            across = min(middle[0] + half[0], 4 * j + 4) - max(middle[0] - half[0], 4 * j)
            down = min(middle[1] + half[1], 4 * i + 4) - max(middle[1] - half[1], 4 * i)
            if label in (1, 3) and across > 0 and down > 0:
                corners = left - 4 * j, top - 4 * i, left + width - 4 * j, top + height - 4 * i
                actual[n, :8, i, j] = 1, *corners, 1 / width, 1 / height, 64 / width / height
                actual[n, 8:, i, j] = label == 1, label == 3
    return [x - np.array([10, 20, 30])[:, None, None], actual]


ROWS = [
    Row(
        "DetectNetTransformation",
        "transform_param { mean_value: 10 mean_value: 20 mean_value: 30 } detectnet_groundtruth_param "
        "{ image_size_x: 12 image_size_y: 8 obj_norm: true object_class { src: 1 dst: 0 } "
        "object_class { src: 3 dst: 1 } }",
        grids,
        [((2, 3, 8, 12), pixels), ((2, 1, 4, 7), objects)],
        tops=2,
        phase="TEST",
    )
]
