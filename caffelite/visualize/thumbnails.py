"""Small pictures of activations and maps as arrays, without matplotlib: for pages that show many of them."""

import math

import numpy as np

from ..errors import CaffeliteError

# Anchors of viridis and of inferno, at equal distances from 0 to 1.
VIRIDIS = np.array([(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)], float)
INFERNO = np.array([(0, 0, 4), (87, 16, 110), (188, 55, 84), (249, 142, 9), (252, 255, 164)], float)
GAP = 1  # pixels between maps
LEAST = 256  # pixels of a picture's longer side, at least
FEW = 20  # values that are shown in one row
GROUND = 128  # of the gaps


def colored(values: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """H×W×3 of uint8: the least value in the first color, the greatest in the last; values that are not finite as the
    least."""
    finite = np.isfinite(values)
    low, high = (float(values[finite].min()), float(values[finite].max())) if finite.any() else (0.0, 0.0)
    scaled = (np.where(finite, values, low) - low) / (high - low if high > low else 1.0)
    at = scaled * (len(anchors) - 1)
    first = np.minimum(at.astype(int), len(anchors) - 2)
    fraction = (at - first)[..., None]
    return np.rint(anchors[first] * (1 - fraction) + anchors[first + 1] * fraction).astype(np.uint8)


def activations(values: np.ndarray, most: int) -> np.ndarray:
    """H×W×3: the first ``most`` channels of C×h×w side by side in a grid; other values as the cells of one map. All on
    one scale."""
    if values.ndim == 3 and values.shape[1] * values.shape[2] > 1:
        maps = values[:most]
        columns = math.ceil(math.sqrt(len(maps) * 2.2 * maps.shape[1] / maps.shape[2]))
        columns = min(len(maps), max(1, columns))
    else:
        maps = values.reshape(-1, 1, 1)[: most * 16]
        columns = min(len(maps), FEW if len(maps) <= FEW else 50)
    painted = colored(maps, VIRIDIS)
    rows, (height, width) = -(-len(maps) // columns), maps.shape[1:]
    gap = GAP if values.ndim == 3 and height * width > 1 else 0
    down, across = height + gap, width + gap
    sheet = np.full((rows * down - gap, columns * across - gap, 3), GROUND, np.uint8)
    for i, one in enumerate(painted):
        top, left = i // columns * down, i % columns * across
        sheet[top : top + height, left : left + width] = one
    return enlarged(sheet)


def heat(values: np.ndarray) -> np.ndarray:
    """H×W×3 of a map H×W."""
    return enlarged(colored(values, INFERNO))


def overlay(pixels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """An image H×W×3 with a map h×w over it, enlarged to the image. Errors: the map is larger than the image."""
    height, width = pixels.shape[:2]
    if values.shape[0] > height or values.shape[1] > width:
        raise CaffeliteError("the map is larger than the image")
    rows = _interpolated(values, height, 0)
    grown = _interpolated(rows, width, 1)
    gray = pixels.mean(2, keepdims=True)
    opacity = 0.6 * ((grown - grown.min()) / (np.ptp(grown) or 1.0))[..., None]
    return enlarged(np.rint(gray * (1 - opacity) + colored(grown, INFERNO) * opacity).astype(np.uint8))


def _interpolated(values: np.ndarray, length: int, axis: int) -> np.ndarray:
    """Linear interpolation along an axis, the centers of the first and last values at the ends."""
    have = values.shape[axis]
    at = np.clip((np.arange(length) + 0.5) * have / length - 0.5, 0, have - 1)
    first = at.astype(int)
    second = np.minimum(first + 1, have - 1)
    shape = (-1, 1) if axis == 0 else (1, -1)
    fraction = (at - first).reshape(shape)
    return np.take(values, first, axis) * (1 - fraction) + np.take(values, second, axis) * fraction


def enlarged(pixels: np.ndarray) -> np.ndarray:
    """Pixels repeated so that the longer side has at least LEAST."""
    times = max(1, -(-LEAST // max(pixels.shape[:2])))
    return pixels.repeat(times, 0).repeat(times, 1)
