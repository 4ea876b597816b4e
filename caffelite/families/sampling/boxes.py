"""What layers that read points in boxes share."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from ...layers import require
from ...layers.arrays import ArrayLayer
from ...layers.layer import Shape
from .points import Points


class BoxLayer(ArrayLayer):
    """The base class: x (N, C, H, W) and boxes (R, 5), image, x1, y1, x2, y2 in pixels of the net's input."""

    bottoms = (2, 2)
    constant_bottoms = frozenset({1})
    needs_images = True

    def setup(self) -> None:
        require.value(self, "spatial_scale", 0 < self.p.spatial_scale < math.inf, "a finite number above 0")

    def check_boxes(self, bottoms: list[Shape]) -> None:
        require.images(self, bottoms)
        require.boxes(self, bottoms, 1)

    def group_channels(self, bottoms: list[Shape]) -> None:
        """Checks that x has output_dim · group_size² channels."""
        require.positive(self, "output_dim")
        require.positive(self, "group_size")
        wanted = self.p.output_dim * self.p.group_size**2
        if bottoms[0][1] != wanted:
            expected = f"{wanted} channels, output_dim × group_size²"
            raise self.bottom_error(0, "does not fit", expected=expected, found=bottoms[0][1])

    def boxes(self, x: tuple) -> tuple[Any, Any]:
        """The image of each box, and its corners (R, 4). Errors: a box of an image that x has not."""
        rows = x[1].reshape(-1, 5)
        sample = rows[:, 0].astype("int64")
        if bool(((sample < 0) | (sample >= x[0].shape[0])).any()):
            what = f'bottom "{self.spec.bottom[1]}" has a box of no image'
            raise self.error(what, expected=f'images 0 to {x[0].shape[0] - 1}, as in "{self.spec.bottom[0]}"')
        return sample, rows[:, 1:]

    def points(self, xp: ModuleType, x: tuple) -> Points:
        raise NotImplementedError

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        slopes = xp.zeros_like(x[0])
        self.points(xp, x).add(slopes, self.spread(xp, x, dy[0]))
        return (slopes, *(None for _ in x[1:]))

    def spread(self, xp: ModuleType, x: tuple, above: Any) -> Any:
        """The slopes of the points' values from those of the top."""
        return above
