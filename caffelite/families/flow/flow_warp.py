"""FlowWarp and Warp: images whose pixels a flow fetches."""

import numpy as np

from ... import caffelite_pb2 as pb
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register

CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))  # of a pixel: whether below, whether right


class Corners:
    """The pixels around the places x + flow of images (N, C, H, W), and their weights. flow (N, 2, H, W): columns, then
    rows. ``inside``: places that have pixels; between the last pixel and the edge behind it x is the last pixel's."""

    def __init__(self, flow: np.ndarray):
        count, _, *size = flow.shape
        places = [flow[:, 0] + np.arange(size[1]), flow[:, 1] + np.arange(size[0])[:, None]]
        self.unknown = np.isnan(places[0]) | np.isnan(places[1])
        with np.errstate(invalid="ignore"):
            places = [self.place(*place) for place in zip(places, size[::-1], strict=True)]
            self.inside = self.within(places[0], size[1]) & self.within(places[1], size[0])
        columns, rows = (np.where(self.inside, place, 0) for place in places)
        left, top = columns.astype(int), rows.astype(int)
        self.columns, self.rows = self.pair(columns, left, size[1]), self.pair(rows, top, size[0])
        self.alpha, self.beta = columns - left, rows - top
        self._samples = np.arange(count)[:, None, None]

    def place(self, at: np.ndarray, size: int) -> np.ndarray:
        """Places along an axis, which may be moved."""
        return at

    def within(self, at: np.ndarray, size: int) -> np.ndarray:
        return (at >= 0) & (at < size)

    def pair(self, at: np.ndarray, before: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the pixels before and behind a place."""
        return before, np.minimum(before + 1, size - 1)

    def pixels(self, images: np.ndarray, below: int, right: int) -> np.ndarray:
        """(N, H, W, C): a corner's."""
        return images[self._samples, :, self.rows[below], self.columns[right]]

    def add(self, images: np.ndarray, below: int, right: int, values: np.ndarray) -> None:
        """Adds values (N, H, W, C) to a corner's pixels of ``images``."""
        np.add.at(images.transpose(0, 2, 3, 1), (self._samples, self.rows[below], self.columns[right]), values)

    def weights(self, below: int, right: int) -> np.ndarray:
        weight = (self.beta if below else 1 - self.beta) * (self.alpha if right else 1 - self.alpha)
        return (weight * self.inside)[..., None]


class BetweenCorners(Corners):
    """Places have pixels from the first pixel to the last one; one at a pixel has no other."""

    def within(self, at: np.ndarray, size: int) -> np.ndarray:
        return (at >= 0) & (at <= size - 1)

    def pair(self, at: np.ndarray, before: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        return before, np.ceil(at).astype(int)


class NearestCorners(BetweenCorners):
    """Places outside are moved to the nearest pixel."""

    def place(self, at: np.ndarray, size: int) -> np.ndarray:
        return np.clip(at, 0, size - 1)


@register
class FlowWarp(Layer):
    """y at a pixel = x at that pixel moved by its flow, interpolated between four pixels; fill_value ZERO (default) or
    NOT_A_NUMBER where that is outside the image.

    x (N, C, H, W), flow (N, 2, H, W), its columns, then its rows, in pixels; y (N, C, H, W); both get gradients.
    Between the last pixel and the edge behind it x is the last pixel's. A flow that is NaN gives NaN, where the fork
    fills. The host computes it. Errors: a flow of another shape. As in lmb-freiburg/flownet2,
    src/caffe/layers/flow_warp_layer.cpp.
    """

    field = "flow_warp_param"
    bottoms = (2, 2)
    requires_host = needs_images = True
    couples_samples = False
    backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        require.shape(self, bottoms, 1, (bottoms[0][0], 2, *bottoms[0][2:]))
        return [bottoms[0]]

    def corners(self) -> type[Corners]:
        return Corners

    def fill(self) -> float:
        """The value of pixels from outside."""
        return np.nan if self.p.fill_value == pb.FlowWarpParameter.NOT_A_NUMBER else 0

    def _read(self, x: list) -> tuple[np.ndarray, Corners]:
        return self.dev.download(x[0]).astype(float), self.corners()(self.dev.download(x[1]).astype(float))

    def forward(self, x: list, y: list) -> None:
        images, corners = self._read(x)
        warped = sum(corners.weights(*c) * corners.pixels(images, *c) for c in CORNERS)
        warped = np.where(corners.inside[..., None], warped, self.fill())
        warped = np.where(corners.unknown[..., None], np.nan, warped)
        self.dev.upload(y[0], np.ascontiguousarray(warped.transpose(0, 3, 1, 2)))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        images, corners = self._read(x)
        above = self.dev.download(dy[0]).astype(float).transpose(0, 2, 3, 1)
        if dx[0] is not None:
            slopes = np.zeros_like(images)
            for corner in CORNERS:
                corners.add(slopes, *corner, corners.weights(*corner) * above)
            self.dev.upload(dx[0], slopes)
        if dx[1] is not None:
            a, b, c, d = (corners.pixels(images, *corner) for corner in CORNERS)
            alpha, beta = corners.alpha[..., None], corners.beta[..., None]
            columns, rows = (1 - beta) * (b - a) + beta * (d - c), (1 - alpha) * (c - a) + alpha * (d - b)
            sums = [(above * side).sum(3) for side in (columns, rows)]
            self.dev.upload(dx[1], np.stack(sums, 1) * corners.inside[:, None])


@register
class Warp(FlowWarp):
    """FlowWarp with outliers NEAREST, the nearest pixel of the image, or TRUNCATE (default), 0, for places before the
    first pixel or behind the last one.

    x (N, C, H, W), flow (N, 2, H, W), its columns, then its rows, in pixels; y (N, C, H, W); both get gradients, the
    flow none where it leads exactly to a row or column of pixels, as in the fork. A flow that is NaN gives NaN. The
    host computes it. Errors: as of FlowWarp. As in raghudeep/netwarp_public, caffe/src/caffe/layers/warp_layer.cpp.
    """

    field = "warp_param"

    def corners(self) -> type[Corners]:
        return NearestCorners if self.p.outliers == pb.WarpParameter.NEAREST else BetweenCorners

    def fill(self) -> float:
        return 0
