"""Layers that reshape, reorder, repeat, choose or discard the values of blobs and compute nothing."""

import math

import numpy as np

from ..devices import ops
from ..devices.protocol import Device
from ..errors import CaffeliteError
from ..prototxt import say_once
from .base import require
from .base.compilation import Which, all_but
from .base.facets import Coordinates, Described, Learned
from .base.layer import Layer, Shape, register
from .base.state import Varying


@register
@Described(purpose="one row of numbers for each image")
@Learned(takes_over=True)
class Flatten(Layer):
    """Joins the axes ``axis`` (default 1) to ``end_axis`` (default -1) into one: (N, C, H, W) → (N, C·H·W); with
    end_axis one less than axis it inserts an axis of 1. As in Caffe."""

    field = "flatten_param"
    view = True
    backward_reads_bottoms = backward_reads_tops = False

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

    @property
    def divisible_axes(self) -> Which:
        return range(int(self.couples_samples), self.first + 1)

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

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, dims = bottoms[0], list(self.p.shape.dim)
        first = self.axis(self.p.axis + len(shape) + 1 if self.p.axis < 0 else self.p.axis, len(shape), end=True)
        stop = len(shape) if self.p.num_axes == -1 else first + self.p.num_axes
        if not first <= stop <= len(shape):
            what = "num_axes goes beyond the bottom's axes"
            raise self.error(what, "num_axes", expected=f"-1 to {len(shape) - first}")
        for i, dim in enumerate(dims):
            if dim == 0:
                if first + i >= len(shape):
                    what = "takes over an axis that the bottom lacks"
                    raise self.error(what, "shape", "dim", i, found=f"bottom {list(shape)}")
                dims[i] = shape[first + i]
            elif dim < -1 or (dim == -1 and -1 in dims[:i]):
                raise self.error("a bad dimension", "shape", "dim", i, expected="0 or more, or a single -1", found=dim)
        if -1 in dims:
            known = -math.prod(dims) * math.prod(shape[:first]) * math.prod(shape[stop:])
            dims[dims.index(-1)] = math.prod(shape) // known
        reshaped = (*shape[:first], *dims, *shape[stop:])
        if math.prod(reshaped) != math.prod(shape):
            what = f"shape {list(reshaped)} does not hold the bottom"
            expected = f"{math.prod(shape)} numbers, as {list(shape)} has"
            raise self.error(what, "shape", expected=expected, found=math.prod(reshaped))
        self.first, self.couples_samples = 0, reshaped[:1] != shape[:1]
        return [reshaped]


@register
class Squeeze(Flatten):
    """The bottom without ``axis``, one or several of length 1 (by default all of length 1): (N, C, 1, 1) → (N, C).
    Errors: an axis of another length. As in foss-for-synopsys-dwc-arc-processors/synopsys-caffe,
    src/caffe/layers/squeeze_layer.cpp."""

    upstream = False
    field = "squeeze_param"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        axes = {self.axis(axis, len(shape)): i for i, axis in enumerate(self.p.axis)}
        for axis, i in axes.items():
            if shape[axis] != 1:
                found = f"{shape[axis]} in {list(shape)}"
                raise self.error(f"axis {axis} does not go", "axis", i, expected="a length of 1", found=found)
        gone = axes or {axis for axis, size in enumerate(shape) if size == 1}
        self.first, self.couples_samples = min(gone, default=len(shape)) - 1, 0 in gone
        return [tuple(size for axis, size in enumerate(shape) if axis not in gone)]


@register
class Tile(Layer):
    """The bottom ``tiles`` times along ``axis`` (default 1): (N, C, ...) → (N, C·tiles, ...). As in Caffe."""

    field = "tile_param"
    backward_reads_bottoms = backward_reads_tops = False

    def setup(self) -> None:
        if self.p.tiles < 1:
            raise self.error("tiles must be at least 1", "tiles", found=self.p.tiles)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, axis = bottoms[0], self.axis(self.p.axis, len(bottoms[0]))
        self.tiled = math.prod(shape[:axis]), self.p.tiles, math.prod(shape[axis:])
        self.tiled_axis, self.couples_samples = axis, axis == 0
        self.view = self.p.tiles == 1
        return [(*shape[:axis], shape[axis] * self.p.tiles, *shape[axis + 1 :])]

    @property
    def divisible_axes(self) -> Which:
        return all_but(self.tiled_axis)

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
    divisible_axes = True

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

    upstream = False
    bottoms, tops = (1, None), (1, None)
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False
    divisible_axes = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.tops(self, len(bottoms))
        self.constant_tops = frozenset(i for i, shape in enumerate(bottoms) if len(shape) < 2)
        return bottoms

    def forward(self, x: list, y: list) -> None:
        for bottom, top in zip(x, y, strict=True):
            self.dev.copy(bottom, top)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for top, bottom in zip(dy, dx, strict=True):
            if bottom is not None:
                self.dev.fill(bottom, 0) if top is None else self.dev.copy(top, bottom)


@register
@Coordinates("same")
class Split(Layer):
    """Every top is the bottom; its gradient is the sum of theirs. Nets need none, since any number of layers may read a
    blob."""

    tops = (1, None)
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False
    divisible_axes = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return bottoms * len(self.spec.top)

    def forward(self, x: list, y: list) -> None:
        for top in y:
            self.dev.copy(x[0], top)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        first, *others = [top for top in dy if top is not None]
        self.dev.copy(first, dx[0])
        for top in others:
            self.dev.add(top, dx[0])


class Rearranged(Layer):
    """Seen with the ``axes`` that ``shapes`` sets, the numbers of the bottom; the top has these axes in ``order``."""

    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False
    axes: Shape
    order: tuple[int, ...]

    def _in_order(self, top):
        return top.reshape([self.axes[axis] for axis in self.order])

    def forward(self, x: list, y: list) -> None:
        if not self.view:
            self.dev.assign(x[0].reshape(self.axes).transpose(self.order), self._in_order(y[0]))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if not self.view:
            self.dev.assign(self._in_order(dy[0]), dx[0].reshape(self.axes).transpose(self.order))


@register
class Permute(Rearranged):
    """The axes of x in another order: axis i of y is axis order[i] of x; those not named follow in their own order.

    order 0 2 3 1: (N, C, H, W) → (N, H, W, C). Errors: an axis twice, an axis that x lacks. As in NVCaffe and Intel's
    Caffe.
    """

    upstream = False
    field = "permute_param"
    order_field = "order"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        rank, order = len(bottoms[0]), list(getattr(self.p, self.order_field))
        for i, axis in enumerate(order):
            if not 0 <= axis < rank:
                raise self.error(
                    f"axis {axis} is outside the bottom's {rank} axes",
                    self.order_field,
                    i,
                    expected=f"0 to {rank - 1}",
                    found=axis,
                )
            if axis in order[:i]:
                raise self.error(f"names axis {axis} twice", self.order_field, i)
        self.axes, self.order = bottoms[0], (*order, *(axis for axis in range(rank) if axis not in order))
        self.view = self.order == tuple(range(rank))
        self.couples_samples = self.order[:1] != (0,)
        return [tuple(bottoms[0][axis] for axis in self.order)]


@register
class BatchReindex(Layer):
    """y[m] = x[index[m]]: reorders, drops or repeats samples; a sample's gradient is the sum over its
    copies.

    x (N, ...), index (M), integers 0 to N - 1 → y (M, ...). Errors: an index out of range. As in Caffe.
    """

    bottoms = (2, 2)
    constant_bottoms = frozenset({1})
    backward_reads_bottoms = (1,)
    backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if not bottoms[0]:
            raise self.bottom_error(0, "has no samples", expected="1 axis or more", found="shape []")
        require.fits(self, bottoms, 1, len(bottoms[1]) == 1, "1 axis", "is no list of samples")
        self.n, self.m, self.width = bottoms[0][0], bottoms[1][0], math.prod(bottoms[0][1:])
        return [(self.m, *bottoms[0][1:])]

    def build(self, dev: Device) -> None:
        self.op = dev.build(ops.Take(self.n, self.width, self.m))

    def forward(self, x: list, y: list) -> None:
        self.op.forward(x[0], x[1], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.op.backward(x[1], dy[0], dx[0], False)

    def faults(self) -> str | None:
        index_plus_1 = int(self.dev.download(self.op.bad)[0])
        what = f'is no sample; "{self.spec.bottom[0]}" has samples 0 to {self.n - 1}'
        return f'place {index_plus_1 - 1} of bottom "{self.spec.bottom[1]}" {what}' if index_plus_1 else None


@register
class Filter(Varying, Layer):
    """Selects the samples with a nonzero selector, the last bottom: (N, ...), …, selector (N) → (M, ...), …, a top for
    each other bottom.

    M depends on the data and is N until the first pass. When it changes, the net reshapes the layers above within the
    memory planned for N, as Caffe does. On a GPU every pass waits for the selector. Errors: a
    batch without a selected sample.
    """

    bottoms, tops = (2, None), (1, None)
    requires_host = True
    backward_reads_bottoms = backward_reads_tops = False

    def setup(self) -> None:
        self.data = len(self.spec.bottom) - 1
        if len(self.spec.top) != self.data:
            what = f"has {len(self.spec.top)} tops for {self.data} bottoms and a selector"
            raise self.error(what, "top", min(self.data, len(self.spec.top)), expected=self.data, outer=True)
        self.constant_bottoms = frozenset({self.data})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        *data, selector = bottoms
        self.n = math.prod(selector)
        for i, shape in enumerate((*data, selector[:1])):
            if shape[:1] != (self.n,):
                expected = (
                    f'{self.n} samples, one for each value of the selector "{self.spec.bottom[-1]}" {list(selector)}'
                )
                raise self.bottom_error(i, "does not fit", expected=expected, found=f"shape {list(shape)}")
        self.widths = [math.prod(shape[1:]) for shape in data]
        self.count = self.n
        return data

    def build(self, dev: Device) -> None:
        self._index = dev.zeros(self.n)
        self._operations()

    def _operations(self) -> None:
        self._rows = self._index[: self.count]
        self.ops = [self.dev.build(ops.Take(self.n, width, self.count)) for width in self.widths]

    def forward(self, x: list, y: list) -> None:
        chosen = np.flatnonzero(self.dev.download(x[-1]))
        if len(chosen) != self.count:
            if not len(chosen):
                what = f'layer "{self.name}" (Filter): bottom "{self.spec.bottom[-1]}" selects no sample of the batch'
                raise CaffeliteError(what)
            self.count = len(chosen)
            self._operations()
            y = self.resize([(self.count, *bottom.shape[1:]) for bottom in x[:-1]])
        self.dev.upload(self._rows, chosen)
        for op, bottom, top in zip(self.ops, x, y, strict=False):
            op.forward(bottom, self._rows, top)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for op, top, bottom in zip(self.ops, dy, dx, strict=False):
            if bottom is None:
                continue
            if top is None:
                self.dev.fill(bottom, 0)
            else:
                op.backward(self._rows, top, bottom, False)


@register
class Reverse(Layer):
    """The values along ``axis`` (default 0) in reversed order. x, y of one shape. Errors: an axis that x lacks. Source:
    tianzhi0549/CTPN caffe/src/caffe/layers/reverse_layer.cpp."""

    upstream = False
    field = "reverse_param"
    backward_reads_bottoms = backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.p.axis, len(bottoms[0]))
        self.part = (*[slice(None)] * axis, slice(None, None, -1))
        self.couples_samples = axis == 0
        return [bottoms[0]]

    def forward(self, x: list, y: list) -> None:
        self.dev.assign(x[0][self.part], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.dev.assign(dy[0][self.part], dx[0])


@register
class Transpose(Permute):
    """Permute with all axes named: axis i of y is axis dim[i] of x. x (N, C, H, W), dim 3 2 0 1 → y (W, H, N, C).
    Errors: another number of axes, an axis twice. Source: tianzhi0549/CTPN
    caffe/src/caffe/layers/transpose_layer.cpp."""

    field = "transpose_param"
    order_field = "dim"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if len(self.p.dim) != len(bottoms[0]):
            path = ("dim", 0) if self.p.dim else ("dim",)
            expected = f"one for each of the {len(bottoms[0])} axes"
            raise self.error(f"has {len(self.p.dim)} values of dim", *path, expected=expected)
        return super().shapes(bottoms)
