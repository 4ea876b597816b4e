"""Downsample and Resample: images of another size, along rows and columns."""

import numpy as np

from ... import caffelite_pb2 as pb
from ...layers.base import require, sliding
from ...layers.base.layer import Layer, Shape, register


class Resized(Layer):
    """Images of the size of a second bottom, or of the fields ``size_fields``."""

    bottoms = (1, 2)
    couples_samples = False
    requires_host = needs_images = True
    size_fields = ("height", "width")
    least = 1
    backward_reads_bottoms = backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i in range(len(bottoms)):
            require.images(self, bottoms, i)
        size = bottoms[1][2:] if len(bottoms) > 1 else tuple(getattr(self.p, name) for name in self.size_fields)
        for name, side in zip(self.size_fields, size, strict=True):
            if not self.least <= side <= sliding.LARGEST:
                raise self.error(f"a bad {name}", name, expected=f"{self.least} to {sliding.LARGEST}", found=side)
        self.size = size
        return [(*bottoms[0][:2], *size)]


def triangle(d: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(d), 0)


def bicubic(d: np.ndarray) -> np.ndarray:
    """Keys' kernel with a = -0.5."""
    d = np.abs(d)
    near, far = d * d * (1.5 * d - 2.5) + 1, d * (d * (-0.5 * d + 2.5) - 4) + 2
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def normalized(weights: np.ndarray) -> np.ndarray:
    """Rows that sum to 1, or are 0."""
    total = weights.sum(1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)


def nearest(positions: np.ndarray, size: int) -> np.ndarray:
    """Weights (places, size): 1 for the nearest pixel, of two the farther one."""
    index = np.clip(np.floor(positions + 0.5), 0, size - 1)
    return (index[:, None] == np.arange(size)).astype(float)


@register
class Downsample(Resized):
    """Flows of another size, some pixels of which may be unknown, NaN: x (N, C, H, W) → y (N, C, OH, OW), OH and OW
    top_height and top_width, or those of a second bottom.

    The corners of x and y coincide. A pixel of y is a weighted mean of those of x that are known, by a triangle as wide
    as the ratio of sizes; NaN where the unknown ones have more than half the weight of the others. No gradients. The
    host computes it. Errors: a size below 2. As in lmb-freiburg/flownet2, src/caffe/layers/downsample_layer.cu.
    """

    field = "downsample_param"
    differentiable = False
    size_fields = ("top_height", "top_width")
    least = 2

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        tops = super().shapes(bottoms)
        self._weights = [self._axis(*sizes) for sizes in zip(bottoms[0][2:], self.size, strict=True)]
        return tops

    @staticmethod
    def _axis(before: int, after: int) -> np.ndarray:
        if before == after:
            return np.eye(after)
        ratio = (before - 1) / (after - 1)
        distances = np.arange(after)[:, None] * ratio - np.arange(before)
        return triangle(distances / ratio) if ratio else np.ones((after, 1))

    def forward(self, x: list, y: list) -> None:
        rows, columns = self._weights
        values = self.dev.download(x[0]).astype(float)
        known = ~np.isnan(values)
        total, unknown = (rows @ mask.astype(float) @ columns.T for mask in (known, ~known))
        sums = rows @ np.where(known, values, 0) @ columns.T
        means = np.divide(sums, total, out=np.full(sums.shape, np.nan), where=total > 0)
        self.dev.upload(y[0], np.where(unknown > total / 2, np.nan, means))


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
