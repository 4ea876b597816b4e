"""Normalize of SSD and NormFace: values divided by their norm."""

import math

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..devices.protocol import Device
from .base import require
from .base.facets import Described
from .base.layer import Layer, Shape, gradient_of, register, register_variant


@register
@Described(not_finite="a length of 0")
class Normalize(Layer):
    """y = s · x / |x|, |x| = √(Σ x² + eps) over a sample, or over the channels of each of its places; s learnt.

    x, y (N, C, P...); s a number (channel_shared, the default) or (C), from 1. Defaults: across_spatial true (a
    sample), eps 1e-10. Errors: a bottom without channels. Source: Liu et al. 2015 (ParseNet), as in NVCaffe and Intel's
    Caffe.
    """

    upstream = False
    field = "norm_param"
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = require.channels(self, bottoms)
        one = pb.FillerParameter(type="constant", value=1)
        filler = self.p.scale_filler if self.p.HasField("scale_filler") else one
        self.add_param(() if self.p.channel_shared else (shape[1],), filler, "scale_filler")
        n, c, p = self.whole = (*shape[:2], math.prod(shape[2:]))
        self.split = (n, 1, c * p) if self.p.channel_shared else (n, c, p)
        self.rows, self.width = (n, c * p) if self.p.across_spatial else (n * p, c)  # of numbers that share a |x|
        self.saved_shapes |= {"unit": (shape, None), "scale": ((self.rows,), None)}
        return [shape]

    def build(self, dev: Device) -> None:
        rows = 1, self.rows, self.width
        self.a, self.b = dev.empty((self.rows, self.width)), dev.empty((self.rows, self.width))
        self.dot = dev.zeros(self.rows)
        self._square = dev.channel_sum(Formula("x * x", ("x",)), (), *rows)
        self._scale = dev.map(Formula("1 / sqrt(v + eps)", ("v",), constants=("eps",)), eps=self.p.eps)
        self._unit = dev.channel_map(Formula("x * r", ("x", "r")), ("r",), *rows)
        self._dot = dev.channel_sum(Formula("dy * u", ("dy", "u")), (), *rows)
        self._dx = dev.channel_map(Formula("(dy - u * d) * r", ("dy", "u", "d", "r")), ("d", "r"), *rows)
        self._times = dev.channel_map(Formula("x * s", ("x", "s")), ("s",), *self.split)
        self._ds = dev.channel_sum(Formula("dy * u", ("dy", "u")), (), *self.split)

    def _as_rows(self, blob):
        """A view of the blob in which values with a common norm |x| are adjacent: (N, P, C), or (N, C, P) with one norm
        per sample."""
        view = blob.reshape(self.whole)
        return view if self.p.across_spatial else view.transpose(0, 2, 1)

    def _rows(self, blob, rows) -> None:
        view = self._as_rows(blob)
        self.dev.assign(view, rows.reshape(view.shape))

    def _blob(self, rows, blob) -> None:
        view = self._as_rows(blob)
        self.dev.assign(rows.reshape(view.shape), view)

    def forward(self, x: list, y: list) -> None:
        scale, unit = self.saved["scale"], self.saved["unit"]
        self._rows(x[0], self.a)
        self._square(self.a, scale)
        self._scale(scale, scale)
        self._unit(self.a, scale, self.a)
        self._blob(self.a, unit)
        self._times(unit, self.params[0].data, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        scale, unit = self.saved["scale"], self.saved["unit"]
        ds, add = gradient_of(self, 0)
        if ds is not None:
            self._ds(dy[0], unit, ds, add=add)
        if dx[0] is None:
            return
        self._times(dy[0], self.params[0].data, dx[0])
        self._rows(dx[0], self.a)
        self._rows(unit, self.b)
        self._dot(self.a, self.b, self.dot)
        self._dx(self.a, self.b, self.dot, scale, self.a)
        self._blob(self.a, dx[0])


class ChannelRows:
    """Blobs (N, C, P...) as rows of C channels, one for each position of each sample."""

    def __init__(self, dev: Device, shape: Shape):
        self.n, self.c, self.p = shape[0], shape[1], math.prod(shape[2:])
        self.split = 1, self.n * self.p, self.c
        self._dev = dev

    def empty(self):
        """A buffer of rows; None where blobs are rows already."""
        return self._dev.empty((self.n * self.p, self.c)) if self.p > 1 else None

    def read(self, blob, buffer):
        """The rows of a blob, in ``buffer``."""
        if buffer is None:
            return blob
        self._dev.transpose(blob.reshape(self.n, self.c, self.p), buffer.reshape(self.n, self.p, self.c))
        return buffer

    def write(self, rows, blob) -> None:
        if rows is not blob:
            self._dev.transpose(rows.reshape(self.n, self.p, self.c), blob.reshape(self.n, self.c, self.p))


def _normface(spec: pb.LayerParameter) -> bool:
    return not spec.HasField("norm_param") and (spec.HasField("normalize_param") or len(spec.top) > 1)


@register_variant(_normface)
class UnitNorm(Layer):
    """`Normalize` with normalize_param: y = x / |x| over the channels at each position, |x| = √(Σ x² + 1e-6), or
    Σ |x| + 1e-6 where normalize_type is "L1".

    x, y (N, C, P...); the second top is |x| (N, 1, P...), whose gradient goes to x where bp_norm. fix_gradient: that of
    y is not divided by |x|. Errors: a bottom
    without channels, another normalize_type. Source: Wang et al. 2017 (NormFace), as in happynear/caffe-windows,
    normalize_layer.cpp.
    """

    type = "Normalize"
    field = "normalize_param"
    tops = (1, 2)
    couples_samples = False
    backward_reads_bottoms = False
    backward_reads_tops = (0,)

    def setup(self) -> None:
        if self.p.normalize_type not in ("L1", "L2"):
            what = "an unknown normalize_type"
            raise self.error(what, "normalize_type", expected='"L1" or "L2"', found=f'"{self.p.normalize_type}"')
        self.constant_tops = frozenset() if self.p.bp_norm else frozenset({1})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = require.channels(self, bottoms)
        self.shape = shape
        self.saved_shapes["norm"] = ((shape[0] * math.prod(shape[2:]),), None)
        return [shape, (shape[0], 1, *shape[2:])][: len(self.spec.top)]

    def build(self, dev: Device) -> None:
        self._rows = rows = ChannelRows(dev, self.shape)
        self._a, self._b, self._dot = rows.empty(), rows.empty(), dev.empty(rows.split[1])
        squared = self.p.normalize_type == "L2"
        term, root = ("x * x", "sqrt(q + 1e-6)") if squared else ("abs(x)", "q + 1e-6")
        self._sum = dev.channel_sum(Formula(term, ("x",)), (), *rows.split)
        self._root = dev.map(Formula(root, ("q",)))
        self._y = dev.channel_map(Formula("x / r", ("x", "r")), ("r",), *rows.split)
        self._product = dev.channel_sum(Formula("dy * y", ("dy", "y")), (), *rows.split)
        slope = "y" if squared else "sign(y)"
        names = ("d", "r"), *rows.split
        dx = f"dy - {slope} * d" if self.p.fix_gradient else f"(dy - {slope} * d) / r"
        self._dx = dev.channel_map(Formula(dx, ("dy", "y", "d", "r")), *names)
        self._add = dev.channel_map(Formula(f"dx + {slope} * d", ("dx", "y", "d")), ("d",), *rows.split)
        self._only = dev.channel_map(Formula(f"{slope} * d", ("y", "d")), ("d",), *rows.split)

    def forward(self, x: list, y: list) -> None:
        norm, rows = self.saved["norm"], self._rows.read(x[0], self._a)
        self._sum(rows, norm)
        self._root(norm, norm)
        out = y[0] if self._a is None else self._a
        self._y(rows, norm, out)
        self._rows.write(out, y[0])
        if len(y) > 1:
            self.dev.copy(norm.reshape(y[1].shape), y[1])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        norm, unit = self.saved["norm"], self._rows.read(y[0], self._a)
        out = dx[0] if self._b is None else self._b
        if dy[0] is not None:
            slopes = self._rows.read(dy[0], self._b)
            self._product(slopes, unit, self._dot)
            self._dx(slopes, unit, self._dot, norm, out)
        if len(dy) > 1 and dy[1] is not None and self.p.bp_norm:
            if dy[0] is None:
                self._only(unit, dy[1], out)
            else:
                self._add(out, unit, dy[1], out)
        self._rows.write(out, dx[0])
