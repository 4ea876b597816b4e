"""Geometry of boxes, over NumPy arrays: anchors, offsets, overlaps and non-maximum suppression.

A box is a row x1, y1, x2, y2 in pixels, whose last row and column belong to it: its width is x2 - x1 + 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RATIOS, SCALES = (0.5, 1.0, 2.0), (8.0, 16.0, 32.0)
MOST_GROWTH = 60.0  # of the logarithm of a side: beyond it float32 has no number


def base_anchors(
    base_size: int, ratios: Sequence[float], scales: Sequence[float], halves_to_even: bool = False
) -> np.ndarray:
    """A×4 of float64: for each ratio of height to width, for each scale, a box about the centre of the first
    ``base_size`` pixels. The sides of a ratio are rounded before they are scaled: halves up, or to the even number."""
    area, centre = float(base_size * base_size), 0.5 * (base_size - 1)
    nearest = np.rint if halves_to_even else lambda side: np.floor(side + 0.5)
    found = []
    for ratio in ratios:
        width = nearest(np.sqrt(area / ratio))
        height = nearest(width * ratio)
        for scale in scales:
            half = 0.5 * (np.array([width, height]) * scale - 1)
            found.append([*(centre - half), *(centre + half)])
    return np.array(found)


def anchors(base: np.ndarray, stride: int, height: int, width: int) -> np.ndarray:
    """(H·W·A)×4: the anchors of each place of a feature map, in the order row, column, anchor."""
    y, x = np.mgrid[:height, :width] * stride
    shift = np.stack([x, y, x, y], -1).astype(base.dtype)
    return (shift[:, :, None] + base).reshape(-1, 4)


def centres(boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centres and sizes, N×2 each."""
    size = boxes[:, 2:4] - boxes[:, :2] + 1
    return boxes[:, :2] + 0.5 * size, size


def offsets(boxes: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """N×4: what moves each box to its target, in units of the box: x, y, log width, log height."""
    (centre, size), (wanted, extent) = centres(boxes), centres(targets)
    return np.concatenate([(wanted - centre) / size, np.log(extent / size)], 1)


def moved(boxes: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """The boxes moved by their offsets. x2 and y2 are a pixel further than ``offsets`` undoes, as in R-CNN."""
    centre, size = centres(boxes)
    half = 0.5 * np.exp(np.minimum(moves[:, 2:], moves.dtype.type(MOST_GROWTH))) * size
    middle = moves[:, :2] * size + centre
    return np.concatenate([middle - half, middle + half], 1)


def clipped(boxes: np.ndarray, height: float, width: float) -> np.ndarray:
    """The boxes with corners inside an image."""
    most = np.array([width - 1, height - 1] * 2, boxes.dtype)
    return np.maximum(np.minimum(boxes, most), 0)


def overlaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """len(a)×len(b): intersection over union."""
    sides = np.minimum(a[:, None, 2:4], b[None, :, 2:4]) - np.maximum(a[:, None, :2], b[None, :, :2]) + 1
    common = np.maximum(sides, 0).prod(-1)
    areas = [(boxes[:, 2:4] - boxes[:, :2] + 1).prod(-1) for boxes in (a, b)]
    return common / (areas[0][:, None] + areas[1][None] - common)


def suppressed(boxes: np.ndarray, threshold: float, most: int) -> np.ndarray:
    """The numbers of at most ``most`` boxes, which come best first, that overlap no better one by more than
    ``threshold``."""
    x1, y1, x2, y2 = (np.ascontiguousarray(boxes[:, k]) for k in range(4))
    areas = (x2 - x1 + 1) * (y2 - y1 + 1)
    left = np.arange(len(boxes))
    kept: list[int] = []
    while len(left) and len(kept) < most:
        best, left = left[0], left[1:]
        kept.append(best)
        width = np.minimum(x2[best], x2[left]) - np.maximum(x1[best], x1[left]) + 1
        height = np.minimum(y2[best], y2[left]) - np.maximum(y1[best], y1[left]) + 1
        common = np.maximum(width, 0) * np.maximum(height, 0)
        left = left[~(common / (areas[best] + areas[left] - common) > threshold)]
    return np.array(kept, np.intp)
