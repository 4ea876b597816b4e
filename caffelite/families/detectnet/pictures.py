"""Colors, sizes, rotations and crops of images 3×H×W in [0, 1], blue first, as OpenCV makes them."""

from __future__ import annotations

import math

import numpy as np

SHARPNESS = -0.75  # of the cubic kernel


def recolored(image: np.ndarray, turn: float, saturation: float) -> np.ndarray:
    """With the hue turned by degrees, and the saturation multiplied."""
    blue, green, red = image
    value, low = image.max(0), image.min(0)
    spread = value - low
    safe = np.where(spread > 0, spread, 1)
    sixths = [(green - blue) / safe, 2 + (blue - red) / safe]
    hue = np.select([value == red, value == green], sixths, 4 + (red - green) / safe) * (spread > 0)
    chroma = np.where(value > 0, spread / np.where(value > 0, value, 1), 0) * saturation * value
    hue = (hue + turn / 60) % 6
    return np.stack([value - chroma * np.clip(np.minimum(k, 4 - k), 0, 1) for k in ((n + hue) % 6 for n in (1, 3, 5))])


def _cubic(size: int, count: int) -> np.ndarray:
    """The weights of ``size`` values for each of ``count``; beyond the edge is the last value."""
    positions = (np.arange(count) + 0.5) * size / count - 0.5
    first = np.floor(positions).astype(int)
    weights = np.zeros((count, size))
    for step in range(-1, 3):
        d = np.abs(positions - first - step)
        near = (SHARPNESS + 2) * d**3 - (SHARPNESS + 3) * d**2 + 1
        far = SHARPNESS * (d**3 - 5 * d**2 + 8 * d - 4)
        np.add.at(weights, (np.arange(count), np.clip(first + step, 0, size - 1)), np.where(d <= 1, near, far))
    return weights


def resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    if image.shape[1:] == (height, width):
        return image
    return _cubic(image.shape[1], height) @ image @ _cubic(image.shape[2], width).T


class Turn:
    """A rotation by degrees, clockwise, into the frame that holds the whole image."""

    def __init__(self, height: int, width: int, degrees: float):
        angle = math.radians(degrees)
        self.matrix = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        extent = np.abs(self.matrix) @ (width, height)
        self.width, self.height = (math.ceil(side - 1e-6) for side in extent)
        self.before, self.after = np.array([width, height]) / 2, extent / 2

    def moved(self, x: float, y: float) -> np.ndarray:
        return self.matrix @ (np.array([x, y]) - self.before) + self.after

    def image(self, image: np.ndarray) -> np.ndarray:
        """Interpolated between four pixels; 0 outside."""
        rows, columns = np.mgrid[: self.height, : self.width]
        positions = np.stack([columns - self.after[0], rows - self.after[1]]).reshape(2, -1)
        x, y = self.matrix.T @ positions + self.before[:, None]
        left, top = np.floor(x).astype(int), np.floor(y).astype(int)
        inside = (left >= 0) & (top >= 0) & (left < image.shape[2] - 1) & (top < image.shape[1] - 1)
        left, top, x, y = (np.where(inside, part, 0) for part in (left, top, x, y))
        right, down = np.where(inside, x - left, 0), np.where(inside, y - top, 0)
        corners = image[:, top, left] * (1 - right) * (1 - down) + image[:, top, left + inside] * right * (1 - down)
        corners += image[:, top + inside, left] * (1 - right) * down
        corners += image[:, top + inside, left + inside] * right * down
        return (corners * inside).reshape(3, self.height, self.width)


def cropped(image: np.ndarray, x: int, y: int, height: int, width: int) -> np.ndarray:
    """The part from (x, y) on, which may lie outside; 0 there."""
    target = np.zeros((3, height, width))
    rows = slice(max(0, y), max(0, min(image.shape[1], y + height)))
    columns = slice(max(0, x), max(0, min(image.shape[2], x + width)))
    part = image[:, rows, columns]
    top, left = rows.start - y, columns.start - x
    target[:, top : top + part.shape[1], left : left + part.shape[2]] = part
    return target
