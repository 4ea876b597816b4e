"""Layers that join blobs or part them: Concat, Slice, Split, Eltwise."""

from __future__ import annotations

import itertools
import math

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from .layer import Layer, Shape, register

ELTWISE = pb.EltwiseParameter


class Joint(Layer):
    """One blob (outer, total, inner) on one side, on the other blobs that hold ``sizes`` of its ``axis`` each."""

    old_axis = ""  # the axis's name in old files

    def setup(self) -> None:
        if self.p.HasField("axis") and self.p.HasField(self.old_axis):
            raise self.error(f"gives axis and {self.old_axis}", self.old_axis, remedy="keep axis")

    def joint_axis(self, rank: int) -> int:
        if self.p.HasField(self.old_axis):
            return self.axis(getattr(self.p, self.old_axis), rank, self.old_axis)
        return self.axis(self.p.axis, rank)

    def lay_out(self, whole: Shape, axis: int, sizes: list[int]) -> None:
        self.whole = math.prod(whole[:axis]), -1
        inner = math.prod(whole[axis + 1 :])
        self.ends = list(itertools.accumulate((size * inner for size in sizes), initial=0))
        self.view = len(sizes) == 1

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def join(self, parts: list, whole) -> None:
        """Copies the parts, zeros for those that are None, into the whole."""
        if self.view:
            return
        whole = whole.reshape(self.whole)
        if any(part is None for part in parts):
            self.dev.fill(whole, 0)
        for part, start, stop in zip(parts, self.ends, self.ends[1:], strict=False):
            if part is not None:
                self.dev.assign(part.reshape(self.whole), whole[:, start:stop])

    def part(self, whole, parts: list) -> None:
        """Copies the whole's parts out, but for those that are None."""
        if self.view:
            return
        whole = whole.reshape(self.whole)
        for part, start, stop in zip(parts, self.ends, self.ends[1:], strict=False):
            if part is not None:
                self.dev.assign(whole[:, start:stop], part.reshape(self.whole))


@register
class Concat(Joint):
    """The bottoms one after the other along ``axis`` (default 1, the channels; concat_dim in old files).

    (N, C1, ...), (N, C2, ...), … → (N, C1 + C2 + …, ...). Errors: bottoms that differ along another axis. As in Caffe.
    """

    field = "concat_param"
    bottoms = (1, None)
    old_axis = "concat_dim"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        first = bottoms[0]
        axis = self.joint_axis(len(first))
        for i, shape in enumerate(bottoms):
            if len(shape) != len(first) or any(a != b for d, (a, b) in enumerate(zip(first, shape, strict=True)) if d != axis):
                raise self.bottom_error(i, "does not fit the first", expected=f"{list(first)} but for axis {axis}", found=list(shape))
        sizes = [shape[axis] for shape in bottoms]
        self.lay_out(first, axis, sizes)
        return [(*first[:axis], sum(sizes), *first[axis + 1 :])]

    def forward(self, x: list, y: list) -> None:
        self.join(x, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.part(dy[0], dx)


@register
class Slice(Joint):
    """The bottom's parts along ``axis`` (default 1; slice_dim in old files): cut before each slice_point, or else in equal parts.

    (N, C, ...) → (N, C1, ...), (N, C2, ...), …. Errors: points that do not rise within the axis, parts that do not come out even. As in
    Caffe.
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
            raise self.error("slice_point must rise within the axis", "slice_point", expected=f"1 to {total - 1}, rising", found=points)
        self.lay_out(shape, axis, sizes)
        return [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]

    def forward(self, x: list, y: list) -> None:
        self.part(x[0], y)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.join(dy, dx[0])


@register
class Split(Layer):
    """Every top is the bottom; its gradient is the sum of theirs. Nets need none, since any number of layers may read a blob."""

    tops = (1, None)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return bottoms * len(self.spec.top)

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def forward(self, x: list, y: list) -> None:
        for top in y:
            self.dev.copy(x[0], top)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        first, *others = [top for top in dy if top is not None]
        self.dev.copy(first, dx[0])
        for top in others:
            self.dev.add(top, dx[0])


@register
class Eltwise(Layer):
    """Bottoms of one shape joined element by element: SUM (default) Σ coeff_i · x_i (coeff 1), PROD Π x_i, MAX.

    x_i, y (N, ...). The slope of PROD multiplies the other bottoms; with stable_prod_grad: false it is y / x_i, no number at 0. MAX sends
    its gradient to the bottom that was the largest; of equals, to the second of the first two, then to the earliest. As in Caffe, but a
    NaN is the largest of all.
    """

    field = "eltwise_param"
    bottoms = (2, None)

    def setup(self) -> None:
        count, coeffs = len(self.spec.bottom), len(self.p.coeff)
        if coeffs and self.p.operation != ELTWISE.SUM:
            raise self.error("takes coeff for SUM only", "coeff", 0)
        if coeffs not in (0, count):
            raise self.error(f"has {coeffs} coeff for {count} bottoms", "coeff", expected=f"none, or {count}")
        self.in_place = self.p.operation == ELTWISE.SUM

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i, shape in enumerate(bottoms):
            if shape != bottoms[0]:
                raise self.bottom_error(i, "does not fit the first", expected=list(bottoms[0]), found=list(shape))
        return [bottoms[0]]

    def backward_reads_bottom(self, index: int) -> bool:
        return self.p.operation != ELTWISE.SUM

    def backward_reads_top(self, index: int) -> bool:
        return self.p.operation == ELTWISE.MAX or (self.p.operation == ELTWISE.PROD and not self.p.stable_prod_grad)

    def build(self, dev) -> None:
        names = tuple(f"x{i}" for i in range(len(self.spec.bottom)))
        if self.p.operation == ELTWISE.SUM:
            coeffs = {f"c{i}": c for i, c in enumerate(self.p.coeff or [1.0] * len(names))}
            text = " + ".join(f"c{i} * x{i}" for i in range(len(names)))
            self._y = dev.map(Formula(text, names, constants=tuple(coeffs)), **coeffs)
            self._dx = [dev.map(Formula("c * dy", ("dy",), constants=("c",)), c=c) for c in coeffs.values()]
        elif self.p.operation == ELTWISE.PROD:
            self._y = dev.map(Formula(" * ".join(names), names))
            self._dx = [dev.map(Formula(f"dy * {self._others(names, i)}", (*names, "y", "dy"))) for i in range(len(names))]
        else:
            self._y = dev.map(Formula("where(a > b, a, where(a == a, b, a))", ("a", "b")))
            self._later = dev.map(Formula("where(a >= b, a, where(a == a, b, a))", ("a", "b")))
            self._dx = [dev.map(Formula(self._wins(i), (*names, "y", "dy"))) for i in range(len(names))]

    def _others(self, names: tuple[str, ...], i: int) -> str:
        return " * ".join(n for n in names if n != names[i]) if self.p.stable_prod_grad else f"(y / {names[i]})"

    @staticmethod
    def _wins(i: int) -> str:
        """dy where bottom i is the one that MAX took: none that goes before it is as large."""
        text = f"where(x{i} == y, dy, 0)"
        for earlier in {0: [1], 1: []}.get(i, range(i)):
            text = f"where(x{earlier} < y, {text}, 0)"
        return text

    def forward(self, x: list, y: list) -> None:
        if self.p.operation != ELTWISE.MAX:
            self._y(*x, y[0])
            return
        self._y(x[0], x[1], y[0])
        for bottom in x[2:]:
            self._later(y[0], bottom, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for i in reversed(range(len(dx))):  # the first may lie on dy
            if dx[i] is None:
                continue
            if self.p.operation == ELTWISE.SUM:
                self._dx[i](dy[0], dx[i])
            else:
                self._dx[i](*x, y[0], dy[0], dx[i])
