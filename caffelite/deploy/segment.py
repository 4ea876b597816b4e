"""The classes of an image's pixels, as a segmentation net finds them, and their colours."""

from __future__ import annotations

import numpy as np

from ..data.images import resize

BITS = 8  # of a colour


def palette(count: int) -> np.ndarray:
    """count×3 of uint8, blue, green, red: the colours of PASCAL VOC, where class 0 is black. Class i has bit 3·j + k of
    i as bit 7 - j of colour k (red, green, blue)."""
    indices = np.arange(count)[:, None]
    colours = np.zeros((count, 3), np.uint8)
    for j in range(BITS):
        colours |= ((indices >> (3 * j + np.arange(3)) & 1) << (BITS - 1 - j)).astype(np.uint8)
    return colours[:, ::-1]


def pixel_classes(scores: np.ndarray, shape: tuple[int, ...], size: tuple[int, int]) -> np.ndarray:
    """H×W of uint16: the class with the greatest score at each place, for an image of this size (H, W). scores: of a
    net's output of ``shape``, C×h×w."""
    classes = scores.reshape(shape).argmax(0).astype(np.uint16)
    return classes if classes.shape == size else resize(classes[None], *size, "INTER_NEAREST")[0]


def shares(classes: np.ndarray, count: int) -> np.ndarray:
    """(count): the share of pixels of each class."""
    return np.bincount(classes.ravel(), minlength=count) / classes.size


def coloured(image: np.ndarray, classes: np.ndarray, count: int) -> np.ndarray:
    """The image C×H×W, half covered by the colours of its pixels' classes (H×W); class 0 has none. 3×H×W of uint8."""
    pixels = np.broadcast_to(image[:3] if len(image) > 2 else image[:1], (3, *image.shape[1:])).astype(np.float32)
    colours = palette(count)[classes].transpose(2, 0, 1)
    return np.rint(np.where(classes > 0, (pixels + colours) / 2, pixels)).astype(np.uint8)
