"""Sliding windows over any number of spatial axes: their geometry, and their operations on devices.

Devices implement windows over (H, W). One axis becomes an image of one row; three or more become a batch of images with
the channels of all images that a window meets.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

from ...devices import Window, ops
from ...devices.protocol import Device
from ...devices.types import Array
from .layer import Layer, Shape

SHAPES = "kernel_shape", "stride_shape", "pad_shape"
# Fields of convolution_param that reading a file converts
CONVERTED = (
    *("kernel_depth", "temporal_stride", "temporal_pad", *SHAPES, "hole", "hole_h", "hole_w"),
    *("pad_l", "pad_r", "pad_t", "pad_b", "relu", "fuse_type"),
)
LARGEST = 2**31 - 1  # what places are counted with


def per_axis(layer: Layer, name: str, rank: int, default: int, stem: str | None = None) -> tuple[int, ...]:
    """A number for each of ``rank`` spatial axes, from ``name`` (none, one, or one each; the second and later ones may
    be in ``more_name``) or, for two, ``stem_h`` and ``stem_w``."""
    p, stem = layer.p, stem or name
    value = getattr(p, name)
    values = ([value] if p.HasField(name) else []) if isinstance(value, int) else list(value)
    values += getattr(p, f"more_{name}", ())
    high, wide = f"{stem}_h", f"{stem}_w"
    if high in p.DESCRIPTOR.fields_by_name and (p.HasField(high) or p.HasField(wide)):
        written = high if p.HasField(high) else wide
        if values:
            raise layer.error(f"gives {name} and {high}/{wide}", name, remedy="keep one of the two")
        if rank != 2:
            raise layer.error(f"{high} and {wide} are for two spatial axes", written, expected=f"{name} for {rank}")
        return getattr(p, high), getattr(p, wide)
    if len(values) not in (0, 1, rank):
        expected = f"one, or one for each of the {rank} spatial axes" if rank > 1 else "one"
        raise layer.error(f"has {len(values)} values of {name}", name, min(rank, len(values) - 1), expected=expected)
    return tuple(values) if len(values) == rank else tuple((values or [default]) * rank)


def window(layer: Layer, rank: int) -> Window:
    """Kernel, stride, pad and dilation of a layer over ``rank`` spatial axes, checked."""
    dilates = "dilation" in layer.p.DESCRIPTOR.fields_by_name
    kernel, stride, pad = (
        per_axis(layer, *args) for args in (("kernel_size", rank, 0, "kernel"), ("stride", rank, 1), ("pad", rank, 0))
    )
    geometry = Window(kernel, stride, pad, per_axis(layer, "dilation", rank, 1) if dilates else (1,) * rank)
    for name, values in (
        ("kernel_size", geometry.kernel),
        ("stride", geometry.stride),
        ("dilation", geometry.dilation),
    ):
        if min(values) < 1:
            raise layer.error(
                f"{name} must be at least 1",
                name,
                found=min(values) if any(values) or name != "kernel_size" else "none",
            )
    for name, values in (
        ("kernel_size", geometry.kernel),
        ("stride", geometry.stride),
        ("pad", geometry.pad),
        ("dilation", geometry.dilation),
    ):
        if max(values) > LARGEST:
            raise layer.error(f"{name} is too large", name, expected=f"at most {LARGEST}", found=max(values))
    return geometry


def check_padded(layer: Layer, spatial: Shape, pad: Sequence[int]) -> None:
    """Raises the error of a padded image with more positions than 32 bits can index."""
    padded = [size + 2 * p for size, p in zip(spatial, pad, strict=True)]
    if max(padded) > LARGEST:
        raise layer.error(
            "its pad is too large",
            "pad",
            expected=f"a padded image of at most {LARGEST} along each axis",
            found=max(padded),
        )


def point(layer: Layer) -> Window:
    """The window of a layer without spatial axes: one position. Fields for one axis have no effect, as in
    Caffe."""
    for name, stem in (("kernel_size", "kernel"), ("stride", None), ("pad", None), ("dilation", None)):
        per_axis(layer, name, 0, 0, stem)
    return Window((1,), (1,), (0,), (1,))


def reach(window: Window) -> list[int]:
    """How far a window reaches along each axis."""
    return [d * (k - 1) + 1 for k, d in zip(window.kernel, window.dilation, strict=True)]


def whole_windows(layer: Layer, spatial: Shape, window: Window) -> Shape:
    """How many windows fit into the padded image, along each axis; none is an error."""
    check_padded(layer, spatial, window.pad)
    sizes = zip(spatial, window.pad, reach(window), window.stride, strict=True)
    out = tuple((size + 2 * pad - far) // stride + 1 for size, pad, far, stride in sizes)
    if min(out) < 1:
        found = f"an image of {'×'.join(map(str, spatial))} with pad {list(window.pad)}"
        raise layer.error(f"its kernel {list(window.kernel)} does not fit", "kernel_size", found=found)
    return out


def image(shape: Shape) -> Shape:
    """(N, C, W) as (N, C, 1, W)."""
    return (*shape[:2], 1, shape[2]) if len(shape) == 3 else shape


def window_of(layer: Layer) -> Window | None:
    """The sliding window of a layer that has one."""
    return getattr(layer, "window", None)


def flat(window: Window) -> Window:
    """A window over the last two axes; over one axis it has one row."""
    (kernel, stride, pad, dilation), one = (v[-2:] for v in window), len(window.kernel) == 1
    return (
        Window((1, *kernel), (1, *stride), (0, *pad), (1, *dilation)) if one else Window(kernel, stride, pad, dilation)
    )


def convolution(dev: Device, x: Shape, y: Shape, window: Window, groups: int, name: str = ""):
    """The device's convolution from x (N, C, ...) to y (N, M, ...), over any number of spatial axes. name: the
    layer's."""
    if len(x) > 4:
        return VolumeConvolution(dev, x, y, window, groups, name)
    return dev.build(ops.Convolution(image(x), image(y), flat(window), groups, name=name))


def im2col(dev: Device, x: Shape, out: Shape, window: Window):
    """The inputs of each window over x (N, C, ...), as columns (N, C·Π kernel, *out)."""
    return VolumeColumns(dev, x, out, window) if len(x) > 4 else dev.build(ops.Im2col(image(x), flat(window)))


class Volumes:
    """The images of x (N, C, D..., H, W) as convolutions over (H, W) read them: for each output along D... one image
    whose channels are those of all images that its window meets.

    ``images`` (N, O..., groups, positions, C / groups, H, W), positions: of the kernel along D... . Where they take
    more than ``LIMIT`` bytes, they are made in ``chunks`` of the outputs along the first of these axes.
    """

    LIMIT = 1 << 26

    def __init__(self, dev: Device, x: Shape, out: Shape, window: Window, groups: int = 1):
        self.dev, lead = dev, len(x) - 4
        self.flat, self.positions = flat(window), math.prod(window.kernel[:lead])
        inner = groups, self.positions, x[1] // groups, *x[-2:]
        size = 4 * x[0] * math.prod(out[1:lead]) * math.prod(inner)
        step = max(n for n in range(1, out[0] + 1) if out[0] % n == 0 and (n == 1 or n * size <= self.LIMIT))
        self.out = step, *out[1:lead]
        self.images = dev.empty((x[0], *self.out, *inner))
        self.batch, self.channels = x[0] * math.prod(self.out), x[1] * self.positions
        self.x = x[0], groups, x[1] // groups, *x[2:]
        # (N, O..., groups, C, H, W) → (N, groups, C, O..., H, W)
        self.swap = 0, lead + 1, lead + 2, *range(1, lead + 1), lead + 3, lead + 4
        self.chunks = [
            (slice(first, first + step), self._offsets(x, first, window)) for first in range(0, out[0], step)
        ]

    def _offsets(self, x: Shape, first: int, window: Window) -> list[tuple[int, tuple, tuple]]:
        """(position in the kernel, images of x that it meets, their outputs) of a chunk of outputs from ``first``."""
        lead, starts = len(self.out), (first, *[0] * (len(self.out) - 1))
        per_axis = zip(x[2:-2], starts, self.out, *(v[:lead] for v in window), strict=True)
        axes = [
            [self._met(size, count, start * s + k * d - p, s) for k in range(kernel)]
            for size, start, count, kernel, s, p, d in per_axis
        ]
        offsets = [tuple(zip(*sides, strict=True)) for sides in itertools.product(*axes)]
        every = (slice(None),) * 3
        return [(i, every + met, every + outs) for i, (met, outs) in enumerate(offsets) if None not in met]

    @staticmethod
    def _met(size: int, count: int, shift: int, stride: int) -> tuple[slice | None, slice | None]:
        """Which of ``size`` inputs output o = 0, 1, ... meets at o·stride + shift, and which outputs those are."""
        first, last = max(0, -(shift // stride)), min(count, (size - 1 - shift) // stride + 1)
        if first >= last:
            return None, None
        return slice(first * stride + shift, (last - 1) * stride + shift + 1, stride), slice(first, last)

    def _views(self, x: Array, offsets: list) -> Iterator[tuple[Array, Array]]:
        """(images of x, where they are in ``images``) of each position in the kernel."""
        x, before = x.reshape(self.x), (slice(None),) * (len(self.out) + 2)
        for i, met, outs in offsets:
            yield x[met], self.images[(*before, i)].transpose(self.swap)[outs]

    def collect(self, x: Array, offsets: list) -> None:
        self.dev.fill(self.images, 0)
        for image, copy in self._views(x, offsets):
            self.dev.assign(image, copy)

    def scatter(self, dx: Array, offsets: list) -> None:
        """Adds the gradient of the images to that of x."""
        for image, copy in self._views(dx, offsets):
            self.dev.add(copy, image)


class VolumeConvolution(Volumes):
    """Convolution as the devices have it, over three spatial axes or more."""

    def __init__(self, dev: Device, x: Shape, y: Shape, window: Window, groups: int, name: str = ""):
        super().__init__(dev, x, y[2:], window, groups)
        lead, self.y = len(self.out), y
        self.w = y[1], x[1] // groups, self.positions, *self.flat.kernel
        self.rows = dev.empty((x[0], *self.out, y[1], *y[-2:]))
        self.back = 0, lead + 1, *range(1, lead + 1), lead + 2, lead + 3  # (N, O..., M, H, W) → (N, M, O..., H, W)
        self.kernel = dev.empty((y[1], self.positions, x[1] // groups, *self.flat.kernel))
        self.dkernel = dev.empty(self.kernel.shape)
        images, rows = (self.batch, self.channels, *x[-2:]), (self.batch, y[1], *y[-2:])
        self.op = dev.build(ops.Convolution(images, rows, self.flat, groups, name=name))

    def forward(self, x, w, b, y, slope: None = None) -> None:
        self.dev.assign(w.reshape(self.w).swapaxes(1, 2), self.kernel)
        for outs, offsets in self.chunks:
            self.collect(x, offsets)
            self.op.forward(self.images, self.kernel, b, self.rows, None)
            self.dev.assign(self.rows.transpose(self.back), y.reshape(self.y)[:, :, outs])

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        self.dev.assign(w.reshape(self.w).swapaxes(1, 2), self.kernel)
        if dx is not None:
            self.dev.fill(dx, 0)
        for i, (outs, offsets) in enumerate(self.chunks):
            self.dev.assign(dy.reshape(self.y)[:, :, outs], self.rows.transpose(self.back))
            if dw is not None or db is not None:
                self.collect(x, offsets)
                dkernel = None if dw is None else self.dkernel
                self.op.backward(self.images, self.kernel, self.rows, None, dkernel, db, i > 0, add_b or i > 0)
            if dx is not None:
                self.op.backward(self.images, self.kernel, self.rows, self.images, None, None)
                self.scatter(dx, offsets)
        if dw is not None:
            store = self.dev.add if add_w else self.dev.assign
            store(self.dkernel.swapaxes(1, 2), dw.reshape(self.w))


class VolumeColumns(Volumes):
    """im2col as the devices have it, over three spatial axes or more."""

    def __init__(self, dev: Device, x: Shape, out: Shape, window: Window):
        super().__init__(dev, x, out, window)
        self.op, lead = dev.build(ops.Im2col((self.batch, self.channels, *x[-2:]), self.flat)), len(self.out)
        area = math.prod(self.flat.kernel)
        self.columns = dev.empty((x[0], *self.out, self.positions, x[1], area, *out[-2:]))
        # (N, O..., positions, C, k, OH, OW) → (N, C, positions, k, O..., OH, OW)
        self.deal = 0, lead + 2, lead + 1, lead + 3, *range(1, lead + 1), lead + 4, lead + 5
        self.whole = x[0], x[1], self.positions, area, *out

    def forward(self, x, columns) -> None:
        for outs, offsets in self.chunks:
            self.collect(x, offsets)
            self.op.forward(self.images, self.columns)
            self.dev.assign(self.columns.transpose(self.deal), columns.reshape(self.whole)[:, :, :, :, outs])

    def backward(self, dcolumns, dx) -> None:
        self.dev.fill(dx, 0)
        for outs, offsets in self.chunks:
            self.dev.assign(dcolumns.reshape(self.whole)[:, :, :, :, outs], self.columns.transpose(self.deal))
            self.op.backward(self.columns, self.images)
            self.scatter(dx, offsets)
