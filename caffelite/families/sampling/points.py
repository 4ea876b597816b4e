"""Values of images between their pixels, by bilinear interpolation, and their slopes."""

from types import ModuleType
from typing import Any

from ...layers.base.arrays import ArrayLayer

CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))  # of a pixel: whether below, whether right


class Points:
    """Points (row, column) of the channels ``channel`` of the images ``sample`` of a blob N×C×H×W, all arrays that
    broadcast. Between the edge and the last pixel's middle an image is as there; points that are not ``inside`` have
    the value 0, and no slope."""

    def __init__(self, xp: ModuleType, shape: tuple, sample: Any, channel: Any, row: Any, column: Any, inside: Any):
        self.xp, self.inside = xp, inside
        self.index = sample, channel
        self.corners, self.fractions, self.within = [], [], []
        for position, size in ((row, shape[2]), (column, shape[3])):
            near = xp.clip(xp.where(inside, position, 0), 0, size - 1)
            low = xp.floor(near).astype("int64")
            self.corners.append((low, xp.minimum(low + 1, size - 1)))
            self.fractions.append(near - low)
            self.within.append((position >= 0) & (position <= size - 1))

    def _pixels(self, below: int, right: int) -> tuple:
        return (*self.index, self.corners[0][below], self.corners[1][right])

    def _weight(self, below: int, right: int) -> Any:
        down, across = self.fractions
        return (down if below else 1 - down) * (across if right else 1 - across) * self.inside

    def values(self, images: Any) -> Any:
        return sum(self._weight(*corner) * images[self._pixels(*corner)] for corner in CORNERS)

    def add(self, slopes: Any, above: Any) -> None:
        """Adds to the slopes of the images what follows from those of the values."""
        for corner in CORNERS:
            values = self._weight(*corner) * above
            pixels = self.xp.broadcast_arrays(*self._pixels(*corner), values)[:4]
            self.xp.add.at(slopes, tuple(pixels), values)

    def slopes(self, images: Any) -> tuple[Any, Any]:
        """Those of the values by row and by column."""
        (down, across), ((a, b), (c, d)) = (
            self.fractions,
            [[images[self._pixels(below, right)] for right in (0, 1)] for below in (0, 1)],
        )
        row = ((1 - across) * (c - a) + across * (d - b)) * self.within[0]
        column = ((1 - down) * (b - a) + down * (d - c)) * self.within[1]
        return row * self.inside, column * self.inside


class Sampling(ArrayLayer):
    """The base class of layers of images x (N, C, H, W) whose top is of the values at ``points``."""

    needs_images = True

    def points(self, xp: ModuleType, x: tuple) -> Points:
        raise NotImplementedError

    def spread(self, xp: ModuleType, x: tuple, above: Any) -> Any:
        """The slopes of the points' values from those of the top."""
        return above

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return self.points(xp, x).values(x[0])

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        slopes = xp.zeros_like(x[0])
        self.points(xp, x).add(slopes, self.spread(xp, x, dy[0]))
        return (slopes, *(None for _ in x[1:]))


def in_reach(shape: tuple, row: Any, column: Any) -> Any:
    """Which points are at most half a pixel from the middle of one."""
    return (row >= -0.5) & (row <= shape[2] - 0.5) & (column >= -0.5) & (column <= shape[3] - 0.5)


def rounded(xp: ModuleType, values: Any) -> Any:
    """Halves away from 0."""
    return xp.sign(values) * xp.floor(xp.abs(values) + 0.5)
