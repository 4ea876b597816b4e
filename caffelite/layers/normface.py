"""Layers of NormFace on unit vectors and distances: Normalize (variant), InnerDistance, ChannelScale, Flip."""

from __future__ import annotations

import math

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..devices.protocol import Device
from .by_label import LabelIndex
from .labels import label_fault
from .layer import Layer, Shape, register
from .unit_rows import UnitRows


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


def check_channels(layer: Layer, shape: Shape) -> None:
    if len(shape) < 2:
        raise layer.bottom_error(0, "has no channels", expected="N×C×...", found=f"shape {list(shape)}")


class UnitNorm(Layer):
    """`Normalize` with normalize_param: y = x / |x| over the channels at each position, |x| = √(Σ x² + 1e-6), or
    Σ |x| + 1e-6 where normalize_type is "L1".

    x, y (N, C, P...); the second top is |x| (N, 1, P...), whose gradient goes to x where bp_norm. Errors: a bottom
    without channels, another normalize_type. Source: Wang et al. 2017 (NormFace), as in happynear/caffe-windows,
    normalize_layer.cpp.
    """

    field = "normalize_param"
    tops = (1, 2)
    couples_samples = False

    def setup(self) -> None:
        if self.p.normalize_type not in ("L1", "L2"):
            what = "an unknown normalize_type"
            raise self.error(what, "normalize_type", expected='"L1" or "L2"', found=f'"{self.p.normalize_type}"')
        self.constant_tops = frozenset() if self.p.bp_norm else frozenset({1})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        check_channels(self, shape)
        self.shape = shape
        self.saved_shapes["norm"] = ((shape[0] * math.prod(shape[2:]),), None)
        return [shape, (shape[0], 1, *shape[2:])][: len(self.spec.top)]

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    def backward_reads_top(self, index: int) -> bool:
        return index == 0

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
        self._dx = dev.channel_map(Formula(f"(dy - {slope} * d) / r", ("dy", "y", "d", "r")), *names)
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


@register
class ChannelScale(Layer):
    """y = s · x, s one number for each position of each sample; where global_scale, one number for all.

    x, y (N, C, P...), s (N, P...) or (N, 1, P...); with global_scale the second top is the number (1), limited to
    min_global_scale and max_global_scale; it is the layer's parameter, which no solver changes, and starts at
    init_global_scale. do_forward false: y = x; do_backward_feature false: dx = dy; do_backward_scale false: s has no
    gradient. As in happynear/caffe-windows, channel_scale_layer.cpp.
    """

    field = "channel_scale_param"
    bottoms, tops = (2, 2), (1, 2)
    constant_tops = frozenset({1})
    couples_samples = False

    def setup(self) -> None:
        self.statistics = frozenset({0}) if self.p.global_scale else frozenset()
        if not self.p.do_backward_scale or self.p.global_scale:
            self.constant_bottoms = frozenset({1})
        if len(self.spec.top) > 1 and not self.p.global_scale:
            raise self.outer_error("has a second top without global_scale", "top", 1, expected="1 top")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        check_channels(self, shape)
        count = shape[0] * math.prod(shape[2:])
        if math.prod(bottoms[1]) != count:
            expected = f'{count} values, one for each position of "{self.spec.bottom[0]}" {list(shape)}'
            raise self.bottom_error(1, "does not fit", expected=expected, found=list(bottoms[1]))
        self.shape = shape
        if self.p.global_scale:
            start = pb.FillerParameter(type="constant", value=self.p.init_global_scale)
            self.add_param((1,), start)
        return [shape, (1,)][: len(self.spec.top)]

    def backward_reads_top(self, index: int) -> bool:
        return False

    def build(self, dev: Device) -> None:
        self._rows = rows = ChannelRows(dev, self.shape)
        self._a, self._b = rows.empty(), rows.empty()
        self._times = dev.channel_map(Formula("x * s", ("x", "s")), ("s",), *rows.split)
        self._ds = dev.channel_sum(Formula("x * dy", ("x", "dy")), (), *rows.split)
        limits = {"low": self.p.min_global_scale, "high": self.p.max_global_scale}
        self._limit = dev.map(Formula("max(min(s, high), low)", ("s",), constants=("low", "high")), **limits)
        self._all = dev.map(Formula("x * s", ("x",), ("s",)))

    def _multiply(self, x, s, y) -> None:
        if self.p.global_scale:
            return self._all(x, self.params[0].data, y)
        out = y if self._b is None else self._b
        self._times(self._rows.read(x, self._a), s, out)
        self._rows.write(out, y)

    def forward(self, x: list, y: list) -> None:
        if self.p.global_scale:
            self._limit(self.params[0].data, self.params[0].data)
            if len(y) > 1:
                self.dev.copy(self.params[0].data, y[1])
        if self.p.do_forward:
            self._multiply(x[0], x[1], y[0])
        else:
            self.dev.copy(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if dx[1] is not None:
            self._ds(self._rows.read(x[0], self._a), self._rows.read(dy[0], self._b), dx[1])
        if dx[0] is not None:
            if self.p.do_backward_feature:
                self._multiply(dy[0], x[1], dx[0])
            else:
                self.dev.copy(dy[0], dx[0])


@register
class Flip(Layer):
    """y = x mirrored: left and right change places (flip_width, the default), or top and bottom (flip_height).

    x, y (N, C, H, W). Errors: a bottom that is no batch of images. As in happynear/caffe-windows, flip_layer.cpp.
    """

    field = "flip_param"
    needs_images = True
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        if len(shape) != 4:
            raise self.bottom_error(0, "is no batch of images", expected="4 axes N×C×H×W", found=f"shape {list(shape)}")
        return [shape]

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def _flip(self, source, target) -> None:
        rows, columns = (slice(None, None, -1 if flipped else 1) for flipped in (self.p.flip_height, self.p.flip_width))
        self.dev.assign(source[:, :, rows, columns], target)

    def forward(self, x: list, y: list) -> None:
        self._flip(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._flip(dy[0], dx[0])


@register
class InnerDistance(Layer):
    """y = Σ (x - w)² for each row w of the weights, or Σ |x - w| where distance_type is "L1".

    x (M..., K...); w (N, K), learned, N = num_output, or a second bottom; y (M..., N). normalize: TRAIN stores learned
    weights scaled to length 1, w / √(|w|² + 1e-6). update_center_only: the last bottom has labels (M), integers 0 to
    N - 1, and a row of w gets a gradient only from the samples of its class. Errors: transpose, another distance_type,
    labels out of range. Source: Wang et al. 2017 (NormFace), as in happynear/caffe-windows, inner_distance_layer.cpp.
    """

    field = "inner_distance_param"
    bottoms = (1, 3)
    couples_samples = False

    def setup(self) -> None:
        p = self.p
        self.labelled = p.update_center_only
        self.learned = len(self.spec.bottom) == 1 + self.labelled
        most = 2 + self.labelled
        if not 1 + self.labelled <= len(self.spec.bottom) <= most:
            what = f"has {len(self.spec.bottom)} bottoms"
            raise self.outer_error(what, "bottom", 0, expected=f"{1 + self.labelled} or {most}")
        if p.distance_type not in ("L1", "L2"):
            what = "an unknown distance_type"
            raise self.error(what, "distance_type", expected='"L1" or "L2"', found=f'"{p.distance_type}"')
        if p.transpose:
            raise self.error("transpose is not supported", "transpose", expected="false")
        if self.learned and not p.num_output:
            raise self.error("num_output must be positive", "num_output", remedy="set num_output, the number of rows")
        self.constant_bottoms = frozenset({len(self.spec.bottom) - 1} if self.labelled else ())

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.p.axis, len(bottoms[0]))
        self.m, self.k = math.prod(bottoms[0][:axis]), math.prod(bottoms[0][axis:])
        if self.learned:
            self.n = self.p.num_output
            self.add_param((self.n, self.k), self.p.weight_filler, "weight_filler")
        else:
            self.n = bottoms[1][0] if bottoms[1] else 1
            if math.prod(bottoms[1]) != self.n * self.k:
                expected = f'rows of {self.k} values, as "{self.spec.bottom[0]}" {list(bottoms[0])} has'
                raise self.bottom_error(1, "does not fit", expected=expected, found=f"shape {list(bottoms[1])}")
        if self.labelled and math.prod(bottoms[-1]) != self.m:
            last, expected = len(bottoms) - 1, f"{self.m} labels, one for each sample"
            raise self.bottom_error(last, "does not fit", expected=expected, found=f"shape {list(bottoms[-1])}")
        return [(*bottoms[0][:axis], self.n)]

    def divisible(self, axis: int) -> bool:
        return False

    def backward_reads_top(self, index: int) -> bool:
        return False

    def build(self, dev: Device) -> None:
        self.op = dev.distances(self.m, self.n, self.k, self.p.distance_type == "L2")
        self._normalise = UnitRows(dev, self.n, self.k, 1e-6) if self.learned and self.p.normalize else None
        self._scaled = dev.empty((self.n, self.k)) if self._normalise and self.phase != pb.TRAIN else None
        if self.labelled:
            self._index, self._own = LabelIndex(dev, self.m, self.n), dev.empty((self.m, self.n))
            self._only = self._index.map("where(t == k, dy, 0)", ("dy",))

    def _weights(self, x: list):
        if not self.learned:
            return x[1]
        return self.params[0].data if self._scaled is None else self._scaled

    def forward(self, x: list, y: list) -> None:
        if self.labelled:
            self._index.check(x[-1])
        if self._normalise:
            self._normalise(self.params[0].data, self._weights(x))
        self.op.forward(x[0], self._weights(x), y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        weights, slopes = self._weights(x), dy[0]
        dw, add = self._param_args(0) if self.learned else (dx[1], False)
        if dx[0] is not None:
            self.op.backward_x(x[0], weights, slopes, dx[0])
        if dw is None:
            return
        if self.labelled:
            self._only(slopes, self._index.classes, x[-1], self._own)
            slopes = self._own
        self.op.backward_w(x[0], weights, slopes, dw, add)

    def faults(self) -> str | None:
        if not self.labelled:
            return None
        op, split = self._index.op, (self.m, self.n, 1)
        return label_fault(self, op, split, len(self.spec.bottom) - 1)
