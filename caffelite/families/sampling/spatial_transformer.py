"""SpatialTransformer: images seen through affine transforms."""

import math
from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register

THETA = [f"theta_{row}_{column}" for row in (1, 2) for column in (1, 2, 3)]
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))  # of a pixel: whether below, whether right


@register
class SpatialTransformer(ArrayLayer):
    """y at row i and column j = x at row (r + 1) H / 2 and column (c + 1) W / 2, (r, c) = θ (2 i / H' - 1, 2 j / W' -
    1, 1), interpolated between four pixels, those outside the image 0.

    x (N, C, H, W), θ (N, 6), a 2×3 matrix by rows, less the elements that are fields `theta_1_1` to `theta_2_3`; y (N,
    C, H', W'), output_H and output_W or the sides of x. x gets a gradient unless `to_compute_dU: false`. Errors: θ of
    another size; other types than affine and bilinear. Source: Jaderberg et al. 2015, as in
    daerduoCarey/SpatialTransformerLayer and Yuliang-Liu/Curve-Text-Detector caffe/src/caffe/layers/st_layer.cpp.
    """

    field = "st_param"
    bottoms = (2, 2)
    couples_samples = False
    needs_images = True

    def setup(self) -> None:
        for name, known in (("transform_type", "affine"), ("sampler_type", "bilinear")):
            if (kind := getattr(self.p, name)) != known:
                raise self.error(f"a bad {name}", name, expected=known, found=kind)
        self.fixed = {i: getattr(self.p, name) for i, name in enumerate(THETA) if self.p.HasField(name)}

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, c, *size = require.images(self, bottoms)
        free = 6 - len(self.fixed)
        require.fits(self, bottoms, 1, math.prod(bottoms[1]) == n * free, f"{n}×{free}")
        self.out = tuple(
            getattr(self.p, name) if self.p.HasField(name) else side
            for name, side in zip(("output_H", "output_W"), size, strict=True)
        )
        if min(self.out) < 1:
            raise self.error("the top has no pixels", "output_H", expected="1 or more", found=min(self.out))
        return [(n, c, *self.out)]

    def _points(self, xp: ModuleType, x: Any, theta: Any) -> tuple[Any, Any, Any]:
        """The grid (3, H', W'), and rows and columns of x (N, H', W')."""
        free = iter(theta.reshape(len(x), -1).T)
        rows = [self.fixed[i] + xp.zeros_like(x[:, 0, 0, 0]) if i in self.fixed else next(free) for i in range(6)]
        down, across = (xp.arange(side) * (2 / side) - 1 for side in self.out)
        grid = xp.stack([*xp.meshgrid(down, across, indexing="ij"), xp.ones(self.out)]).astype(x.dtype)
        positions = (xp.stack(rows, 1).reshape(-1, 2, 3) @ grid.reshape(3, -1)).reshape(-1, 2, *self.out)
        return grid, (positions[:, 0] + 1) * (x.shape[2] / 2), (positions[:, 1] + 1) * (x.shape[3] / 2)

    def _corner(self, xp: ModuleType, x: Any, points: list, corner: tuple[int, int]) -> tuple[tuple, list, Any]:
        """The index of a corner's pixels, its weights by row and by column, and where it is in the image."""
        index, weights, within = [xp.arange(len(x))[:, None, None], slice(None)], [], xp.asarray(True)
        for position, size, far in zip(points, x.shape[2:], corner, strict=True):
            pixel = xp.floor(position) + far
            within = within & (pixel >= 0) & (pixel < size)
            weights.append(1 - xp.abs(position - pixel))
            index.append(xp.clip(xp.nan_to_num(pixel), 0, size - 1).astype("int64"))
        return tuple(index), weights, within

    def compute(self, xp: ModuleType, x: Any, theta: Any) -> Any:
        _, *points = self._points(xp, x, theta)
        y = 0.0
        for corner in CORNERS:
            index, (down, across), within = self._corner(xp, x, points, corner)
            y = y + x[index] * xp.where(within, down * across, xp.where(xp.isnan(down * across), xp.nan, 0))[..., None]
        return xp.moveaxis(y, 3, 1)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        image, theta = x
        grid, *points = self._points(xp, image, theta)
        above, slopes = xp.moveaxis(dy[0], 1, 3), xp.zeros_like(image)
        by_place = [0.0, 0.0]
        for corner in CORNERS:
            index, weights, within = self._corner(xp, image, points, corner)
            each = above * within[..., None]
            if self.p.to_compute_dU:
                sample, _, row, column = index
                channel = xp.arange(image.shape[1])
                at = sample[..., None], channel, row[..., None], column[..., None]
                xp.add.at(slopes, at, each * (weights[0] * weights[1])[..., None])
            value = (each * image[index]).sum(3)
            for i, far in enumerate(corner):
                by_place[i] = by_place[i] + (value if far else -value) * weights[1 - i]
        scaled = [by_place[i] * (side / 2) for i, side in enumerate(image.shape[2:])]
        all_six = xp.stack([(half * line).sum((1, 2)) for half in scaled for line in grid], 1)
        free = [i for i in range(6) if i not in self.fixed]
        return slopes, all_six[:, free].reshape(theta.shape)
