"""Batch normalization, optionally fused with a following Scale, sum and ReLU."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..devices.protocol import Device
from .base.compilation import Which
from .base.facets import Coordinates, Described
from .base.fusing import Fusing
from .base.image_layout import ImageLayout
from .base.layer import Shape, register, register_variant, split_axis

LEARNT = (
    "scale_bias",
    "scale_filler",
    "use_weight_bias",
    "filler",
    "bias_filler",
)  # the fields by which a BatchNorm learns


@register
@Described(
    purpose="brings each channel to mean 0 and variance 1, so that a high learning rate is stable",
    own_top=True,
    spared="batch norm",
)
@Coordinates("same")
class BatchNorm(Fusing, ImageLayout):
    """y = (x - μ_c) / √(σ²_c + eps) [· scale_c + bias_c], moments over the batch and positions of each channel.

    x, y (N, C, ...); a Scale layer may follow. Three blobs that no solver touches: running sums of means (C) and
    variances (C, with m/(m-1)), and the factor (1) that both are divided by; each training pass multiplies them by
    moving_average_fraction (default 0.999) and adds its own. use_global_stats (default: in TEST) takes the running
    moments. eps 1e-5. Two more, learnt, where scale_bias, use_weight_bias or one of their fillers is written: scale
    (C), from 1, and bias (C), from 0, unless bias_term is false. Errors: a rate for the first three. Source: Ioffe and
    Szegedy 2015, blobs as in Caffe, NVCaffe and Intel's Caffe.
    """

    field = "batch_norm_param"
    converted = ("relu",)
    in_place = follows_layout = follows_precision = True
    with_scale = with_sum = False  # whether a Scale, and a sum of two blobs, run as part of it
    can_fuse_sum = True

    def setup(self) -> None:
        p = self.p
        self.stored = p.use_global_stats if p.HasField("use_global_stats") else self.phase == pb.TEST
        self.couples_samples = not self.stored
        asked = [f for f in LEARNT if p.HasField(f)]
        self.learnt = bool(asked) and not any(
            p.HasField(f) and not getattr(p, f) for f in ("scale_bias", "use_weight_bias")
        )

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        if not shape:
            raise self.bottom_error(0, "is a single number", expected="N×C×..., or N numbers", found="no axes")
        self.split = (1, 1, shape[0]) if len(shape) == 1 else split_axis(shape, 1)
        c = self.split[1]
        for size in ((c,), (c,), (1,)):
            self.add_param(size, pb.FillerParameter(), statistic=True)
        self.saved_shapes |= {"mean": ((c,), None), "scale": ((c,), None)}
        if self.learnt:
            filler = "filler" if self.p.HasField("filler") else "scale_filler"
            one = pb.FillerParameter(type="constant", value=1)
            self.add_param((c,), getattr(self.p, filler) if self.p.HasField(filler) else one, filler)
            if self.p.bias_term:
                self.add_param((c,), self.p.bias_filler, "bias_filler")
        return [shape]

    @property
    def divisible_axes(self) -> Which:
        return (1,) if self.couples_samples else (0, 1)

    @property
    def scales(self) -> bool:
        """Whether it multiplies by a learnt scale: its own or that of a Scale."""
        return self.learnt or self.with_scale

    def can_fuse_relu(self) -> bool:
        return self.scales

    def fuses_backward(self) -> bool:
        return True

    def most_gradient_parts(self) -> int:
        """In how many arrays, at most, backward takes the top's gradient: ``dy`` then are these parts."""
        return 64 if self.with_sum else 1

    @property
    def backward_reads_bottoms(self) -> bool:
        return self.scales  # y may have lost what x says: the scale may be 0

    @property
    def backward_reads_tops(self) -> bool:
        return self.with_sum or not (self.stored or self.scales)

    def channel_affine(self, params: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """(scale, shift) of each channel, float64, by the parameters in host memory, if moments are stored."""
        mean, variance, factor = (param.astype(np.float64) for param in params[:3])
        share = 1 / factor[0] if factor[0] else 0.0
        scale = 1 / np.sqrt(variance * share + self.p.eps)
        if self.learnt:
            scale *= params[3]
        shift = -mean * share * scale
        return scale, shift + params[4] if len(params) > 4 else shift

    def build(self, dev: Device) -> None:
        n, c, p = self.stored_split(self.split)
        m, split = n * p, (n, c, p)
        self.affine = [*self.params[3:], *self.fused_params]  # the scale and perhaps bias, its own or a fused Scale's
        self.dot, self.sum = dev.zeros(c), dev.zeros(c)
        if self.stored:
            self._mean = dev.map(Formula("where(f == 0, 0, v / f)", ("v",), ("f",)))
            self._scale = dev.map(
                Formula("1 / sqrt(where(f == 0, 0, v / f) + eps)", ("v",), ("f",), ("eps",)), eps=self.p.eps
            )
        else:
            self._moments = dev.batch_moments(*split, self.p.eps, self.p.moving_average_fraction)
        if self.affine:
            return self._build_affine(dev, split, m)
        total, dot = (self.as_stored(f) for f in (Formula("dy", ("dy",)), Formula("dy * y", ("dy", "y"))))
        self._normalize = self.channel_map(dev, "(x - u) * s", ("x",), ("u", "s"), split)
        self._sums = dev.channel_sums((total, dot), (), *split, 1 / m)
        self._rescale = self.channel_map(dev, "dy * s", ("dy",), ("s",), split)
        self._dx = self.channel_map(dev, "(dy - u - d * y) * s", ("dy", "y"), ("u", "d", "s"), split)

    def _build_affine(self, dev: Device, split: tuple[int, int, int], m: int) -> None:
        """With a learnt scale, and perhaps a bias, a sum and a ReLU behind them."""
        each, value = ("u", "s", "g", "b")[: 2 + len(self.affine)], "(x - u) * s * g"
        slope: dict[str, Any] = {}
        if len(self.affine) == 2:
            value = f"{value} + b"
        dy = "dy"
        if self.with_sum:
            self._build_with_sum(dev, split, each, value)
        elif self.slope is not None:  # whether y > 0 follows from x, which costs less than to read y
            dy, slope = f"where({value} > 0, dy, slope * dy)", {"slope": self.slope}
            value = f"where({value} > 0, {value}, slope * ({value}))"
        if not self.with_sum:
            self._normalize = self.channel_map(dev, value, ("x",), each, split, **slope)
        sums = (Formula(text, ("dy", "x", *each), constants=tuple(slope)) for text in (dy, f"{dy} * (x - u) * s"))
        self._sums = dev.channel_sums(tuple(self.as_stored(f, *each) for f in sums), each, *split, **slope)
        self._rescale = self.channel_map(dev, f"{dy} * s * g", ("dy", "x"), each, split, **slope)
        text = f"({dy} - t / m - d / m * (x - u) * s) * s * g"
        self._dx = self.channel_map(dev, text, ("dy", "x"), (*each, "t", "d"), split, m=m, **slope)

    def _build_with_sum(self, dev: Device, split: tuple[int, int, int], each: tuple[str, ...], value: str) -> None:
        """With a sum of that and a. Backward first makes the sum's gradient, from that of y in its parts, then the sums
        over it."""
        value, dy, slope = f"{value} + a", "({0})", {}
        if self.slope is not None:  # y is read: its sign replaces that of a sum of x and a
            value = f"where({value} > 0, {value}, slope * ({value}))"
            dy = "where(y > 0, {0}, slope * ({0}))"
            slope = {"slope": self.slope}
        self._normalize = self.channel_map(dev, value, ("x", "a"), each, split, **slope)

        def sums(parts: int):
            names = tuple(f"dy{i}" for i in range(parts))
            whole, read = dy.format(" + ".join(names)), (*names, "y") if slope else names
            texts = ((whole, read), (f"{whole} * (x - u) * s", (*read, "x", "u", "s")))
            formulas = tuple(
                self.as_stored(Formula(text, arrays, constants=tuple(slope)), "u", "s") for text, arrays in texts
            )
            return dev.channel_sums(formulas, ("u", "s"), *split, with_values=True, **slope)

        self._sum_gradients = functools.cache(sums)

    def forward(self, x: list, y: list) -> None:
        mean, variance, factor = (param.data for param in self.params[:3])
        u, scale = self.saved["mean"], self.saved["scale"]
        if self.stored:
            self._mean(mean, factor, u)
            self._scale(variance, factor, scale)
        else:
            self._moments(x[0], u, scale, mean, variance, factor)
        self._normalize(*x, u, scale, *[param.data for param in self.affine], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        u, scale = self.saved["mean"], self.saved["scale"]
        if self.affine:
            self._backward_affine(x[0], y[0], dy, dx)
        elif self.stored:
            self._rescale(dy[0], scale, dx[0])
        else:
            self._sums(dy[0], y[0], (u, self.dot))
            self._dx(dy[0], y[0], u, self.dot, scale, dx[0])

    def _backward_affine(self, x, y, parts: list, gradients: list) -> None:
        """parts: of y's gradient; gradients: of x, or None, and where a sum is fused of its other summand, which is the
        sum's too."""
        dx, dy = gradients[0], gradients[-1] if self.with_sum else parts[0]
        each = self.saved["mean"], self.saved["scale"], *[param.data for param in self.affine]
        sums, affine = [self.dot, self.sum], self.affine
        for i, param in enumerate(affine):
            if param.wanted and not param.add:
                sums[i] = param.diff
        dot, total = sums
        if dy is parts[0] and len(parts) == 1 and not (self.with_sum and self.slope is not None):
            self._sums(dy, x, *each, (total, dot))
        else:
            read = (y,) if self.slope is not None else ()
            self._sum_gradients(len(parts))(*parts, *read, x, *each[:2], (total, dot), dy)
        for result, param in zip(sums, affine, strict=False):
            if param.wanted and param.add:
                self.dev.add(result, param.diff)
        if dx is None:
            return
        if self.stored:
            self._rescale(dy, x, *each, dx)
        else:
            self._dx(dy, x, *each, total, dot, dx)


@register_variant(lambda spec: spec.batch_norm_param.stats_batch_size > 0)
class BatchNormOfParts(BatchNorm):
    """As BatchNorm; in TRAIN each stats_batch_size samples have moments of their own. It fuses nothing. Errors: also a
    batch that stats_batch_size does not divide. Source: BatchNorm of Intel's Caffe and of NVCaffe."""

    type = "BatchNorm"
    can_fuse_sum = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        tops = super().shapes(bottoms)
        if self.stored:
            self.parts = 1
            return tops
        shape, each = bottoms[0], self.p.stats_batch_size
        if shape[0] % each:
            expected = f"a divisor of {shape[0]} samples"
            raise self.error("a bad stats_batch_size", "stats_batch_size", expected=expected, found=each)
        self.parts = shape[0] // each
        self.split = (1, 1, each) if len(shape) == 1 else split_axis((each, *shape[1:]), 1)
        moments = (self.parts, self.split[1]), None
        self.saved_shapes |= {"mean": moments, "scale": moments}
        return tops

    def can_fuse_relu(self) -> bool:
        return False

    def forward(self, x: list, y: list) -> None:
        if self.stored:
            return super().forward(x, y)
        running, affine = [param.data for param in self.params[:3]], [param.data for param in self.affine]
        for u, scale, (below,), (above,) in self._parts(x, y):
            self._moments(below, u, scale, *running)
            self._normalize(below, u, scale, *affine, above)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if self.stored:
            return super().backward(x, y, dy, dx)
        affine = [param.data for param in self.affine]
        for i, (u, scale, (below,), (above,), (gradient,), (wanted,)) in enumerate(self._parts(x, y, dy, dx)):
            if not affine:
                self._sums(gradient, above, (self.sum, self.dot))
                self._dx(gradient, above, self.sum, self.dot, scale, wanted)
                continue
            self._sums(gradient, below, u, scale, *affine, (self.sum, self.dot))
            for result, param in zip((self.dot, self.sum), self.affine, strict=False):
                if param.wanted:
                    (self.dev.add if param.add or i else self.dev.copy)(result, param.diff)
            if wanted is not None:
                self._dx(gradient, below, u, scale, *affine, self.sum, self.dot, wanted)

    def _parts(self, *blobs: list) -> Iterator[tuple]:
        """The moments of each part of the batch, and the parts of lists of blobs."""
        for i in range(self.parts):
            moments = self.saved["mean"][i], self.saved["scale"][i]
            yield *moments, *([self._part(blob, i) for blob in each] for each in blobs)

    def _part(self, blob: Any, i: int) -> Any:
        if blob is None:
            return None
        size = len(blob) // self.parts
        return blob[i * size : (i + 1) * size]
