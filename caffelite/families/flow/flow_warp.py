"""FlowWarp: images whose pixels a flow fetches."""

from __future__ import annotations

import numpy as np

from ... import caffelite_pb2 as pb
from ...layers.layer import Layer, Shape, register
from .images import check_like

CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))  # of a pixel: whether below, whether right


class Corners:
    """The pixels around the places x + flow of images (N, C, H, W), and their weights. flow (N, 2, H, W): columns, then
    rows."""

    def __init__(self, flow: np.ndarray):
        count, _, height, width = flow.shape
        with np.errstate(invalid="ignore"):
            columns, rows = np.arange(width) + flow[:, 0], np.arange(height)[:, None] + flow[:, 1]
            self.inside = (columns >= 0) & (rows >= 0) & (columns < width) & (rows < height)
        self.unknown = np.isnan(columns) | np.isnan(rows)
        columns, rows = np.where(self.inside, columns, 0), np.where(self.inside, rows, 0)
        left, top = columns.astype(int), rows.astype(int)
        self.columns = left, np.minimum(left + 1, width - 1)
        self.rows = top, np.minimum(top + 1, height - 1)
        self.alpha, self.beta = columns - left, rows - top
        self._samples = np.arange(count)[:, None, None]

    def pixels(self, images: np.ndarray, below: int, right: int) -> np.ndarray:
        """(N, H, W, C): a corner's."""
        return images[self._samples, :, self.rows[below], self.columns[right]]

    def add(self, images: np.ndarray, below: int, right: int, values: np.ndarray) -> None:
        """Adds values (N, H, W, C) to a corner's pixels of ``images``."""
        np.add.at(images.transpose(0, 2, 3, 1), (self._samples, self.rows[below], self.columns[right]), values)

    def weights(self, below: int, right: int) -> np.ndarray:
        weight = (self.beta if below else 1 - self.beta) * (self.alpha if right else 1 - self.alpha)
        return (weight * self.inside)[..., None]


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
        check_like(self, bottoms, 2)
        return [bottoms[0]]

    def _read(self, x: list) -> tuple[np.ndarray, Corners]:
        return self.dev.download(x[0]).astype(float), Corners(self.dev.download(x[1]).astype(float))

    def forward(self, x: list, y: list) -> None:
        images, corners = self._read(x)
        warped = sum(corners.weights(*c) * corners.pixels(images, *c) for c in CORNERS)
        fill = np.nan if self.p.fill_value == pb.FlowWarpParameter.NOT_A_NUMBER else 0
        warped = np.where(corners.inside[..., None], warped, fill)
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
