"""Resample: images of another size."""

from __future__ import annotations

import numpy as np

from ... import caffelite_pb2 as pb
from ...layers.layer import Shape, register
from .resizing import Resized, bicubic, nearest, normalized, triangle

RESAMPLE = pb.ResampleParameter


@register
class Resample(Resized):
    """Images of another size: x (N, C, H, W) → y (N, C, OH, OW), OH and OW height and width, or those of a second
    bottom. type LINEAR (default), CUBIC or NEAREST.

    The pixel j of y is at x = j f + g / 2 - 1/2, f the ratio of sizes along its axis and g along the other one, as the
    fork has it. Where f or g is above 1 the kernel is f times as wide, unless antialias is false. Pixels outside x
    have no weight, and NEAREST takes the last one for them. factor has no effect. The host computes it. Errors: no
    size, type AREA. As in lmb-freiburg/flownet2, src/caffe/layers/resample_layer.cu, which has no gradient.
    """

    field = "resample_param"

    def setup(self) -> None:
        if self.p.type == RESAMPLE.AREA:
            raise self.error("type AREA is not supported", "type", expected="NEAREST, LINEAR or CUBIC")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        tops = super().shapes(bottoms)
        ratios = [before / after for before, after in zip(bottoms[0][2:], self.size, strict=True)]
        self._weights = [self._axis(bottoms[0][2 + i], self.size[i], ratios[i], ratios[1 - i]) for i in (0, 1)]
        return tops

    def _axis(self, before: int, after: int, ratio: float, other: float) -> np.ndarray:
        """The weights (OH, H) of pixels along an axis."""
        positions = np.arange(after) * ratio + other / 2 - 0.5
        if self.p.type == RESAMPLE.NEAREST:
            return nearest(positions, before)
        wide = ratio if self.p.antialias and max(ratio, other) > 1 else 1
        kernel = bicubic if self.p.type == RESAMPLE.CUBIC else triangle
        return normalized(kernel((positions[:, None] - np.arange(before)) / wide))

    def forward(self, x: list, y: list) -> None:
        rows, columns = self._weights
        self.dev.upload(y[0], rows @ self.dev.download(x[0]).astype(float) @ columns.T)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if len(dx) > 1 and dx[1] is not None:  # the numbers of the second have no effect
            self.dev.fill(dx[1], 0)
        if dx[0] is not None:
            rows, columns = self._weights
            self.dev.upload(dx[0], rows.T @ self.dev.download(dy[0]).astype(float) @ columns)
