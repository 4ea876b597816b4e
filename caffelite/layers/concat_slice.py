"""Concat and Slice: several blobs along an axis of one."""

import itertools
import math
from collections.abc import Collection

from ..devices.inference_ops import Join, View
from ..devices.protocol import Device
from .base.compilation import Which, all_but
from .base.facets import Described
from .base.image_layout import ImageLayout
from .base.layer import Layer, Shape, register


class Joint(ImageLayout, Layer):
    """One blob (outer, total, inner) on one side, on the other blobs that hold ``sizes`` of its ``axis`` each."""

    old_axis = ""  # the axis's name in old files
    follows_precision = True
    backward_reads_bottoms = backward_reads_tops = False

    def setup(self) -> None:
        if self.p.HasField("axis") and self.p.HasField(self.old_axis):
            raise self.error(f"gives axis and {self.old_axis}", self.old_axis, remedy="keep axis")

    def joint_axis(self, rank: int) -> int:
        if self.p.HasField(self.old_axis):
            return self.axis(getattr(self.p, self.old_axis), rank, self.old_axis)
        return self.axis(self.p.axis, rank)

    def lay_out(self, whole: Shape, axis: int, sizes: list[int]) -> None:
        self.outer, self.inner, self.sizes = math.prod(whole[:axis]), math.prod(whole[axis + 1 :]), sizes
        self.view = len(sizes) == 1
        self.joint, self.couples_samples = axis, axis == 0
        self.follows_layout = len(whole) == 4 and axis == 1

    def rows(self) -> tuple[int, list[int]]:
        """How many rows the joint blob has as it is stored, and at which columns its parts begin; at last its width."""
        last = self.channels_last
        inner = 1 if last else self.inner
        starts = list(itertools.accumulate((size * inner for size in self.sizes), initial=0))
        return self.outer * (self.inner if last else 1), starts

    def build(self, dev: Device) -> None:
        rows, self.ends = self.rows()
        self.whole = rows, -1

    @property
    def divisible_axes(self) -> Which:
        return all_but(self.joint)

    def join(self, parts: list, whole, stored: Collection[int] = ()) -> None:
        """Copies the parts (zeros where None) into the concatenated blob; skips those ``stored`` there already."""
        if self.view:
            return
        whole = whole.reshape(self.whole)
        if any(part is None for part in parts):
            self.dev.fill(whole, 0)
        for i, (part, start) in enumerate(zip(parts, self.ends, strict=False)):
            if part is not None and i not in stored:
                self.dev.copy_into(part.reshape(self.whole), whole, start)

    def part(self, wholes: list, parts: list) -> None:
        """Copies slices of the concatenated blob, or of the sum of several, into the parts that are not None."""
        if self.view:
            return
        whole, *more = [each.reshape(self.whole) for each in wholes]
        for part, start in zip(parts, self.ends, strict=False):
            if part is not None:
                self.dev.copy_out(whole, start, part.reshape(self.whole), *([more] if more else []))


@register
@Described(purpose="joins channels")
class Concat(Joint):
    """The bottoms one after the other along ``axis`` (default 1, the channels; concat_dim in old files).

    (N, C1, ...), (N, C2, ...), … → (N, C1 + C2 + …, ...). Errors: bottoms that differ along another axis. As in Caffe.
    """

    field = "concat_param"
    bottoms = (1, None)
    old_axis = "concat_dim"
    stored = stored_gradients = frozenset[int]()  # of which bottoms: in the top, or its gradient, without a copy

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        first = bottoms[0]
        axis = self.joint_axis(len(first))
        for i, shape in enumerate(bottoms):
            if (*shape[:axis], *shape[axis + 1 :]) != (*first[:axis], *first[axis + 1 :]) or len(shape) != len(first):
                expected = f"{list(first)} but for axis {axis}"
                raise self.bottom_error(i, "does not fit the first", expected=expected, found=list(shape))
        sizes = [shape[axis] for shape in bottoms]
        self.lay_out(first, axis, sizes)
        return [(*first[:axis], sum(sizes), *first[axis + 1 :])]

    def forward(self, x: list, y: list) -> None:
        self.join(x, y[0], self.stored)

    def inference_operation(self) -> object | None:
        if self.view:
            return View()
        rows, starts = self.rows()
        samples = 1 if self.couples_samples else self.outer
        widths = tuple(stop - start for start, stop in itertools.pairwise(starts))
        wanted = tuple(None if i in self.stored else start for i, start in enumerate(starts[:-1]))
        return Join(samples, rows // samples, widths, wanted, starts[-1])

    def most_gradient_parts(self) -> int:
        """In how many arrays, at most, backward takes the top's gradient: ``dy`` then are these parts."""
        return 1 if self.view else 8

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.part(dy, [None if i in self.stored_gradients else part for i, part in enumerate(dx)])

    def top_slices(self) -> list[tuple[int, int]]:
        """Where each bottom is in the top, (start, pitch) as in net/slices.py, if it can be stored there."""
        rows, starts = self.rows()
        if self.view or (rows > 1 and not self.channels_last):
            return []
        return [(start, starts[-1] if rows > 1 else 0) for start in starts[:-1]]


@register
class Slice(Joint):
    """The bottom's parts along ``axis`` (default 1; slice_dim in old files): cut before each slice_point, or else in
    equal parts.

    (N, C, ...) → (N, C1, ...), (N, C2, ...), …. Errors: points that do not rise within the axis, parts that do not come
    out even. As in Caffe.
    """

    field = "slice_param"
    tops = (1, None)
    old_axis = "slice_dim"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, points, count = bottoms[0], list(self.p.slice_point), len(self.spec.top)
        axis = self.joint_axis(len(shape))
        total = shape[axis]
        if points and len(points) != count - 1:
            raise self.error(f"has {len(points)} slice_point for {count} tops", "slice_point", expected=count - 1)
        if not points and total % count:
            what = f"axis {axis} of {total} does not part into {count} equal tops"
            raise self.bottom_error(0, f"does not fit: {what}", remedy="give slice_point")
        ends = [0, *points, total] if points else range(0, total + 1, total // count)
        sizes = [stop - start for start, stop in itertools.pairwise(ends)]
        if min(sizes) < 1:
            raise self.error(
                "slice_point must rise within the axis",
                "slice_point",
                expected=f"1 to {total - 1}, rising",
                found=points,
            )
        self.lay_out(shape, axis, sizes)
        return [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]

    def forward(self, x: list, y: list) -> None:
        self.part(x, y)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.join(dy, dx[0])
