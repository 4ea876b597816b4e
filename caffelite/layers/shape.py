"""Layers that reshape, tile or discard blobs."""

from __future__ import annotations

import math

from ..prototxt import say_once
from .layer import Layer, Shape, register


@register
class Flatten(Layer):
    """Joins the axes ``axis`` (default 1) to ``end_axis`` (default -1) into one: (N, C, H, W) → (N, C·H·W); with
    end_axis one less than axis it inserts an axis of 1. As in Caffe."""

    field = "flatten_param"
    view = True
    takes_over_gradient = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        first, last = self.axis(self.p.axis, len(shape)), self.axis(self.p.end_axis, len(shape), "end_axis")
        if last < first - 1:
            raise self.error("end_axis is before axis", "end_axis", expected=f"{first} or more", found=last)
        if last < first:
            what = f'layer "{self.spec.name}" (Flatten): end_axis is before axis: it inserts an axis of 1'
            say_once(f"{self.locate('end_axis')}: {what}")
        self.first, self.couples_samples = first, first == 0 and last > 0
        return [(*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])]

    def divisible(self, axis: int) -> bool:
        return axis <= self.first and not (axis == 0 and self.couples_samples)

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def forward(self, x: list, y: list) -> None:
        pass

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        pass


@register
class Reshape(Flatten):
    """The bottom under another shape: its axes from ``axis`` (default 0) on, ``num_axes`` of them (default -1: all),
    become shape.dim.

    A dim of 0 is the bottom's at that axis; a single -1 is inferred. (N, C, H, W) → any shape of the same count. As
    in Caffe.
    """

    field = "reshape_param"
    takes_over_gradient = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, dims = bottoms[0], list(self.p.shape.dim)
        first = self.axis(self.p.axis + len(shape) + 1 if self.p.axis < 0 else self.p.axis, len(shape), end=True)
        stop = len(shape) if self.p.num_axes == -1 else first + self.p.num_axes
        if not first <= stop <= len(shape):
            raise self.error(
                "num_axes goes beyond the bottom's axes", "num_axes", expected=f"-1 to {len(shape) - first}"
            )
        for i, dim in enumerate(dims):
            if dim == 0:
                if first + i >= len(shape):
                    raise self.error(
                        "takes over an axis that the bottom lacks", "shape", "dim", i, found=f"bottom {list(shape)}"
                    )
                dims[i] = shape[first + i]
            elif dim < -1 or (dim == -1 and -1 in dims[:i]):
                raise self.error("a bad dimension", "shape", "dim", i, expected="0 or more, or a single -1", found=dim)
        if -1 in dims:
            known = -math.prod(dims) * math.prod(shape[:first]) * math.prod(shape[stop:])
            dims[dims.index(-1)] = math.prod(shape) // known
        found = (*shape[:first], *dims, *shape[stop:])
        if math.prod(found) != math.prod(shape):
            what = f"shape {list(found)} does not hold the bottom"
            raise self.error(
                what, "shape", expected=f"{math.prod(shape)} numbers, as {list(shape)} has", found=math.prod(found)
            )
        self.first, self.couples_samples = 0, found[:1] != shape[:1]
        return [found]


@register
class Tile(Layer):
    """The bottom ``tiles`` times along ``axis`` (default 1): (N, C, ...) → (N, C·tiles, ...). As in Caffe."""

    field = "tile_param"

    def setup(self) -> None:
        if self.p.tiles < 1:
            raise self.error("tiles must be at least 1", "tiles", found=self.p.tiles)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, axis = bottoms[0], self.axis(self.p.axis, len(bottoms[0]))
        self.tiled = math.prod(shape[:axis]), self.p.tiles, math.prod(shape[axis:])
        self.tiled_axis, self.couples_samples = axis, axis == 0
        self.view = self.p.tiles == 1
        return [(*shape[:axis], shape[axis] * self.p.tiles, *shape[axis + 1 :])]

    def divisible(self, axis: int) -> bool:
        return axis != self.tiled_axis

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def forward(self, x: list, y: list) -> None:
        if not self.view:
            outer, _, inner = self.tiled
            self.dev.assign(x[0].reshape(outer, 1, inner), y[0].reshape(self.tiled))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if not self.view:
            outer, tiles, inner = self.tiled
            top, bottom = dy[0].reshape(self.tiled), dx[0].reshape(outer, inner)
            self.dev.assign(top[:, 0], bottom)
            for i in range(1, tiles):
                self.dev.add(top[:, i], bottom)


@register
class Silence(Layer):
    """Consumes its bottoms, any number of any shape, so that they are no outputs."""

    bottoms, tops = (1, None), (0, 0)
    differentiable = couples_samples = False

    def divisible(self, axis: int) -> bool:
        return True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return []

    def forward(self, x: list, y: list) -> None:
        pass


@register
class Gather(Layer):
    """Collects the blobs of several processes where a net is divided in the middle; here each process has the blobs of
    its own samples, and y = x, for each of any number of bottoms; any shape.

    A bottom of one axis, as labels are, gets no gradient. Errors: another number of tops than of bottoms. Source:
    yjxiong/caffe src/caffe/layers/gather_layer.cpp.
    """

    bottoms, tops = (1, None), (1, None)
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if len(self.spec.top) != len(bottoms):
            raise self.error(f"has {len(self.spec.top)} tops for {len(bottoms)} bottoms", expected="as many tops")
        self.constant_tops = frozenset(i for i, shape in enumerate(bottoms) if len(shape) < 2)
        return bottoms

    def divisible(self, axis: int) -> bool:
        return True

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def forward(self, x: list, y: list) -> None:
        for bottom, top in zip(x, y, strict=True):
            self.dev.copy(bottom, top)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for top, bottom in zip(dy, dx, strict=True):
            if bottom is not None:
                self.dev.fill(bottom, 0) if top is None else self.dev.copy(top, bottom)
