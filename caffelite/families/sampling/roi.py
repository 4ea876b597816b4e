"""Layers that read values between the pixels of regions of images."""

import math
from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register
from .points import Points, Sampling, in_reach, rounded


class BoxLayer(Sampling):
    """The base class: x (N, C, H, W) and boxes (R, 5), image, x1, y1, x2, y2 in pixels of the net's input."""

    bottoms = (2, 2)
    constant_bottoms = frozenset({1})

    def setup(self) -> None:
        require.value(self, "spatial_scale", 0 < self.p.spatial_scale < math.inf, "a finite number above 0")

    def check_boxes(self, bottoms: list[Shape]) -> None:
        require.images(self, bottoms)
        require.boxes(self, bottoms, 1)

    def group_channels(self, bottoms: list[Shape]) -> None:
        """Checks that x has output_dim · group_size² channels."""
        require.positive(self, "output_dim", "group_size")
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


@register
class PSROIAlign(BoxLayer):
    """The mean of sample_num² interpolated values of each of group_size × group_size cells of each box, a cell from
    channels of its own: x (N, C, H, W), C = output_dim · group_size², boxes (R, 5) → (R, output_dim, group_size,
    group_size).

    Cell (i, j) of output c reads channel (c · group_size + i) · group_size + j. Corners, the last plus 1, are
    multiplied by spatial_scale and not rounded; a box is at least 0.1 wide and high; cells are cut at the middles of
    the outermost pixels; point k is k / (sample_num + 1) of a whole cell from the cell's start, and counts 0 beyond its
    end. Defaults: sample_num 2. Errors: another number of channels; a box of an image that x has not. Source:
    afantideng/R-FCN-PSROIAlign caffe/src/caffe/layers/psroi_align_layer.cu.
    """

    field = "psroi_align_param"

    def setup(self) -> None:
        super().setup()
        require.positive(self, "sample_num")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.check_boxes(bottoms)
        self.group_channels(bottoms)
        return [(bottoms[1][0], self.p.output_dim, self.p.group_size, self.p.group_size)]

    def _along(self, xp: ModuleType, first: Any, last: Any, size: int) -> tuple[Any, Any]:
        """The points of each cell along an axis, (R, cells, points), and which count."""
        group, points = self.p.group_size, self.p.sample_num
        first, last = first * self.p.spatial_scale, (last + 1) * self.p.spatial_scale
        step = (xp.maximum(last - first, 0.1) / group)[:, None]
        cells = xp.arange(group)
        start = xp.clip(first[:, None] + cells * step, 0, size - 1)
        end = xp.clip(first[:, None] + (cells + 1) * step, 0, size - 1)
        positions = start[..., None] + xp.arange(1, points + 1) * (step / (points + 1))[..., None]
        return positions, positions < end[..., None]

    def points(self, xp: ModuleType, x: tuple) -> Points:
        (sample, corners), group = self.boxes(x), self.p.group_size
        rows, high = self._along(xp, corners[:, 1], corners[:, 3], x[0].shape[2])
        columns, wide = self._along(xp, corners[:, 0], corners[:, 2], x[0].shape[3])
        cells = xp.arange(self.p.output_dim * group * group).reshape(1, -1, group, group, 1, 1)
        at = sample.reshape(-1, 1, 1, 1, 1, 1)
        row, column = rows[:, None, :, None, :, None], columns[:, None, None, :, None, :]
        inside = high[:, None, :, None, :, None] & wide[:, None, None, :, None, :]
        return Points(xp, x[0].shape, at, cells, row, column, inside)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return self.points(xp, x).values(x[0]).mean((4, 5))

    def spread(self, xp: ModuleType, x: tuple, above: Any) -> Any:
        return above[..., None, None] / self.p.sample_num**2


@register
class DeformablePSROIPooling(BoxLayer):
    """The mean of the interpolated values at sample_per_part² points of each of group_size × group_size cells of each
    box, moved by offsets, a cell from channels of its own: x (N, C, H, W), C = output_dim · group_size², boxes (R, 5),
    offsets (R, 2·K, part_size, part_size) unless no_trans → (R, output_dim, group_size, group_size).

    Cell (i, j) of output c reads channel (c · group_size + i) · group_size + j. Corners are rounded, the last plus 1,
    then multiplied by spatial_scale, less 0.5; a box is at least 0.1 wide and high. Offsets, columns before rows, are
    those of class c · K / output_dim; trans_std times the box's size moves the cell. Points more than half a pixel
    outside do not count; a cell without points gives 0. Defaults: part_size group_size, sample_per_part 1, trans_std 0.
    Errors: another number of channels, offsets of another shape; a box of an image that x has not. Source: Dai et al.
    2017, as in GT9505/MONet caffe/src/caffe/layers/deformable_psroi_pooling_layer.cu.
    """

    field = "deformable_psroi_pooling_param"
    bottoms = (2, 3)

    def setup(self) -> None:
        super().setup()
        require.positive(self, "sample_per_part")
        wanted = 2 if self.p.no_trans else 3
        if len(self.spec.bottom) != wanted:
            found, expected = f"{len(self.spec.bottom)} bottoms", f"{wanted}: x, boxes{', offsets' * (wanted == 3)}"
            raise self.error("no_trans and the bottoms do not fit", "no_trans", expected=expected, found=found)
        if self.p.HasField("pooled_size") and self.p.pooled_size != self.p.group_size:
            expected, found = f"group_size, {self.p.group_size}", self.p.pooled_size
            raise self.error("pools into group_size cells", "pooled_size", expected=expected, found=found)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.check_boxes(bottoms)
        self.group_channels(bottoms)
        self.cells, count = self.p.part_size or self.p.group_size, bottoms[1][0]
        if not self.p.no_trans:
            shape = bottoms[2]
            self.classes = shape[1] // 2 if len(shape) == 4 else 0
            fits = shape == (count, 2 * self.classes, self.cells, self.cells)
            if not fits or not self.classes or self.p.output_dim % self.classes:
                expected = f"{count}×2·K×{self.cells}×{self.cells}, K a divisor of {self.p.output_dim}"
                raise self.bottom_error(2, "does not fit", expected=expected, found=list(shape))
        return [(count, self.p.output_dim, self.p.group_size, self.p.group_size)]

    def _cell_index(self, xp: ModuleType) -> tuple:
        """Of the offsets of each cell of each output: class, row, column."""
        part = xp.arange(self.p.group_size) * self.cells // self.p.group_size
        label = xp.arange(self.p.output_dim) // (self.p.output_dim // self.classes)
        return label[:, None, None], part[:, None], part

    def points(self, xp: ModuleType, x: tuple) -> Points:
        (sample, corners), p = self.boxes(x), self.p
        group, scale, per = p.group_size, p.spatial_scale, p.sample_per_part
        moves = 0, 0
        if not p.no_trans:
            label, high, wide = self._cell_index(xp)
            moves = tuple(x[2][:, 2 * label + side, high, wide] * p.trans_std for side in (0, 1))
        positions, self.extents = [], []
        for side in (0, 1):  # columns, rows
            first = xp.floor(corners[:, side] + 0.5) * scale - 0.5
            last = (xp.floor(corners[:, side + 2] + 0.5) + 1) * scale - 0.5
            extent = xp.maximum(last - first, 0.1).reshape(-1, 1, 1, 1)
            cell = xp.arange(group).reshape(-1, 1) if side else xp.arange(group)
            start = first.reshape(-1, 1, 1, 1) + cell * extent / group + moves[side] * extent
            inner = xp.arange(per).reshape(-1, 1) if side else xp.arange(per)
            positions.append(start[..., None, None] + inner * (extent / group / per)[..., None, None])
            self.extents.append(extent)
        column, row = positions
        channels = xp.arange(p.output_dim * group * group).reshape(1, -1, group, group, 1, 1)
        inside = in_reach(x[0].shape, row, column)
        self.counts = xp.broadcast_to(inside, inside.shape[:4] + (per, per)).sum((4, 5))
        return Points(xp, x[0].shape, sample.reshape(-1, 1, 1, 1, 1, 1), channels, row, column, inside)

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        values = self.points(xp, x).values(x[0]).sum((4, 5))
        return values / xp.maximum(self.counts, 1)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        points, slopes = self.points(xp, x), xp.zeros_like(x[0])
        above = (dy[0] / xp.maximum(self.counts, 1))[..., None, None]
        points.add(slopes, above)
        if self.p.no_trans:
            return slopes, None
        moves, (label, high, wide) = xp.zeros_like(x[2]), self._cell_index(xp)
        rows, columns = points.slopes(x[0])
        box = xp.arange(len(x[1])).reshape(-1, 1, 1, 1)
        for side, each in enumerate((columns, rows)):
            total = (above * each).sum((4, 5)) * self.p.trans_std * self.extents[side]
            index = xp.broadcast_arrays(box, 2 * label + side, high, wide, total)[:4]
            xp.add.at(moves, tuple(index), total)
        return slopes, None, moves

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        return 4 * math.prod(tops[0]) * self.p.sample_per_part**2


@register
class ROIWarping(BoxLayer):
    """The interpolated values of x at pooled_h × pooled_w points of each box: x (N, C, H, W), boxes (R, 5) → (R, C,
    pooled_h, pooled_w).

    Corners times spatial_scale are rounded to pixels, halves away from 0; point (i, j) is at y1 + i (y2 - y1) /
    pooled_h, x1 + j (x2 - x1) / pooled_w. Points more than half a pixel outside give 0. Boxes get no gradient here; the
    fork has one, as if corners were not rounded. Errors: a box of an image that x has not. Source: Dai et al. 2016, as
    in daijifeng001/caffe-mnc src/caffe/layers/roi_warping_layer.cu.
    """

    field = "roi_warping_param"

    def setup(self) -> None:
        super().setup()
        require.positive(self, "pooled_h", "pooled_w")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.check_boxes(bottoms)
        return [(bottoms[1][0], bottoms[0][1], self.p.pooled_h, self.p.pooled_w)]

    def points(self, xp: ModuleType, x: tuple) -> Points:
        sample, corners = self.boxes(x)
        x1, y1, x2, y2 = rounded(xp, corners * self.p.spatial_scale).T[..., None]
        rows = y1 + xp.arange(self.p.pooled_h) * xp.maximum(y2 - y1, 0) / self.p.pooled_h
        columns = x1 + xp.arange(self.p.pooled_w) * xp.maximum(x2 - x1, 0) / self.p.pooled_w
        row, column = rows[:, None, :, None], columns[:, None, None, :]
        channel = xp.arange(x[0].shape[1])[:, None, None]
        inside = in_reach(x[0].shape, row, column)
        return Points(xp, x[0].shape, sample[:, None, None, None], channel, row, column, inside)


@register
class MultiROIPooling(ArrayLayer):
    """The pooled_h × pooled_w pixels around each of top_num landmarks of each image, a top for each: x (N, C, H, W),
    landmarks (N, 2·top_num), column and row → top_num tops (N, C, pooled_h, pooled_w).

    The first pixel is the landmark times spatial_scale less half of the sides, rounded down, then rounded, halves away
    from 0; pixels outside are 0. Errors: another number of tops or landmarks. Source: Li et al. 2018, as in
    mysee1989/PG-CNN src/multi_roi_pooling_layer.cu.
    """

    field = "multi_roi_pooling_param"
    bottoms, tops = (2, 2), (1, None)
    constant_bottoms = frozenset({1})
    couples_samples = False
    needs_images = True

    def setup(self) -> None:
        require.positive(self, "pooled_h", "pooled_w")
        if len(self.spec.top) != self.p.top_num:
            raise self.error(f"has {len(self.spec.top)} tops", "top_num", expected=f"{self.p.top_num}, top_num")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        count = bottoms[0][0] * 2 * self.p.top_num
        if math.prod(bottoms[1]) != count:
            expected = f"{count} values, a column and a row for each top and image"
            raise self.bottom_error(1, "does not fit", expected=expected, found=list(bottoms[1]))
        return [(*bottoms[0][:2], self.p.pooled_h, self.p.pooled_w)] * self.p.top_num

    def _points(self, xp: ModuleType, x: tuple) -> list[Points]:
        n, c, height, width = x[0].shape
        p, centers = self.p, x[1].reshape(n, -1, 2) * self.p.spatial_scale
        column = rounded(xp, centers[..., 0] - p.pooled_w // 2).reshape(n, -1, 1, 1, 1) + xp.arange(p.pooled_w)
        row = rounded(xp, centers[..., 1] - p.pooled_h // 2).reshape(n, -1, 1, 1, 1) + xp.arange(p.pooled_h)[:, None]
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        sample, channel = xp.arange(n).reshape(-1, 1, 1, 1), xp.arange(c).reshape(-1, 1, 1)
        each = range(p.top_num)
        return [Points(xp, x[0].shape, sample, channel, row[:, i], column[:, i], inside[:, i]) for i in each]

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        return tuple(points.values(x[0]) for points in self._points(xp, x))

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        slopes = xp.zeros_like(x[0])
        for points, above in zip(self._points(xp, x), dy, strict=True):
            points.add(slopes, above)
        return slopes, None
