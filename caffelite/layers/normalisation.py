"""Normalisation: batch norm, its scale and bias, mean-variance normalisation, local response normalisation."""

from __future__ import annotations

import functools
import math

from .. import caffelite_pb2 as pb
from ..devices import Window
from ..devices.formula import Formula
from .layer import Layer, Shape, register, split_axis

LEARNT = ("scale_bias", "scale_filler", "use_weight_bias", "filler", "bias_filler")  # the fields by which a BatchNorm learns


@register
class BatchNorm(Layer):
    """y = (x - μ_c) / √(σ²_c + eps) [· scale_c + bias_c], moments over the batch and positions of each channel.

    x, y (N, C, ...); a Scale layer may follow. Three blobs that no solver touches: running sums of means (C) and variances (C, with
    m/(m-1)), and the factor (1) that both are divided by; each training pass multiplies them by moving_average_fraction (default
    0.999) and adds its own.
    use_global_stats (default: in TEST) takes the running moments. eps 1e-5. Two more, learnt, where scale_bias, use_weight_bias or one of
    their fillers is written: scale (C), from 1, and bias (C), from 0, unless bias_term is false. Errors: a rate for the first three.
    Source: Ioffe and Szegedy 2015, blobs as in Caffe, NVCaffe and Intel's Caffe.
    """

    field = "batch_norm_param"
    in_place = follows_layout = True
    frozen_params = 3

    def setup(self) -> None:
        p = self.p
        self.stored = p.use_global_stats if p.HasField("use_global_stats") else self.phase == pb.TEST
        asked = [f for f in LEARNT if p.HasField(f)]
        self.learnt = bool(asked) and not any(p.HasField(f) and not getattr(p, f) for f in ("scale_bias", "use_weight_bias"))

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        self.split = (1, 1, shape[0]) if len(shape) == 1 else split_axis(shape, 1)
        c = self.split[1]
        for size in ((c,), (c,), (1,)):
            self.add_param(size, pb.FillerParameter())
        self.saved_shapes["scale"] = ((c,), None)
        if self.learnt:
            self.saved_shapes["mean"] = ((c,), None)
            filler = "filler" if self.p.HasField("filler") else "scale_filler"
            one = pb.FillerParameter(type="constant", value=1)
            self.add_param((c,), getattr(self.p, filler) if self.p.HasField(filler) else one, filler)
            if self.p.bias_term:
                self.add_param((c,), self.p.bias_filler, "bias_filler")
        return [shape]

    def backward_reads_bottom(self, index: int) -> bool:
        return self.learnt  # y may have lost what x says: the scale may be 0

    def backward_reads_top(self, index: int) -> bool:
        return not self.stored and not self.learnt

    def build(self, dev) -> None:
        n, c, p = self.spread(self.split)
        m = n * p
        self.mean, self.variance, self.dot = dev.zeros(c), dev.zeros(c), dev.zeros(c)
        self._mean = dev.channel_sum(Formula("x", ("x",)), (), n, c, p, 1 / m)
        self._variance = dev.channel_sum(Formula("(x - u) * (x - u)", ("x", "u")), ("u",), n, c, p, 1 / m)
        self._scale = dev.map(Formula("1 / sqrt(v + eps)", ("v",), constants=("eps",)), eps=self.p.eps)
        self._normalise = dev.channel_map(Formula("(x - u) * s", ("x", "u", "s")), ("u", "s"), n, c, p)
        self._stored = dev.map(Formula("where(f == 0, 0, v / f)", ("v",), ("f",)))
        keep = {"keep": self.p.moving_average_fraction}
        self._count = dev.map(Formula("f * keep + 1", ("f",), constants=("keep",)), **keep)
        self._remember = dev.map(Formula("a * keep + v", ("a", "v"), constants=("keep",)), **keep)
        unbiased = {**keep, "unbias": m / (m - 1) if m > 1 else 1.0}
        self._remember_variance = dev.map(Formula("a * keep + unbias * v", ("a", "v"), constants=("keep", "unbias")), **unbiased)
        self._dot = dev.channel_sum(Formula("dy * y", ("dy", "y")), (), n, c, p, 1 / m)
        self._sum = dev.channel_sum(Formula("dy", ("dy",)), (), n, c, p, 1 / m)
        self._rescale = dev.channel_map(Formula("dy * s", ("dy", "s")), ("s",), n, c, p)
        formula = Formula("(dy - u - d * y) * s", ("dy", "y", "u", "d", "s"))
        self._dx = dev.channel_map(formula, ("u", "d", "s"), n, c, p)
        if self.learnt:
            self._build_learnt(dev)

    def _build_learnt(self, dev) -> None:
        n, c, p = self.spread(self.split)
        self.mean, each = None, ("u", "s", "g", "b")[: 3 + self.p.bias_term]
        text = "(x - u) * s * g + b" if self.p.bias_term else "(x - u) * s * g"
        self._normalise = dev.channel_map(Formula(text, ("x", *each)), each, n, c, p)
        self.sum = dev.zeros(c)
        self._dot = dev.channel_sum(Formula("dy * (x - m) * s", ("dy", "x", "m", "s")), ("m", "s"), n, c, p)
        self._sum = dev.channel_sum(Formula("dy", ("dy",)), (), n, c, p)
        self._rescale = dev.channel_map(Formula("dy * s * g", ("dy", "s", "g")), ("s", "g"), n, c, p)
        text = Formula("(dy - u / m - d / m * (x - mean) * s) * s * g", ("dy", "x", "mean", "u", "d", "s", "g"), constants=("m",))
        self._dx = dev.channel_map(text, ("mean", "u", "d", "s", "g"), n, c, p, m=n * p)

    def forward(self, x: list, y: list) -> None:
        mean, variance, factor, *learnt = (param.data for param in self.params)
        if self.learnt:
            self.mean = self.saved["mean"]
        if self.stored:
            self._stored(mean, factor, self.mean)
            self._stored(variance, factor, self.variance)
        else:
            self._mean(x[0], self.mean)
            self._variance(x[0], self.mean, self.variance)
            self._count(factor, factor)
            self._remember(mean, self.mean, mean)
            self._remember_variance(variance, self.variance, variance)
        self._scale(self.variance, self.saved["scale"])
        self._normalise(x[0], self.mean, self.saved["scale"], *learnt, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if self.learnt:
            self._backward_learnt(x[0], dy[0], dx[0])
        elif self.stored:
            self._rescale(dy[0], self.saved["scale"], dx[0])
        else:
            self._sum(dy[0], self.mean)
            self._dot(dy[0], y[0], self.dot)
            self._dx(dy[0], y[0], self.mean, self.dot, self.saved["scale"], dx[0])

    def _backward_learnt(self, x, dy, dx) -> None:
        scale, mean, g = self.saved["scale"], self.saved["mean"], self.params[3].data
        self._sum(dy, self.sum)
        self._dot(dy, x, mean, scale, self.dot)
        for found, i in ((self.dot, 3), (self.sum, 4)):
            diff, add = self._param_args(i)
            if diff is not None:
                (self.dev.add if add else self.dev.copy)(found, diff)
        if dx is None:
            return
        if self.stored:
            self._rescale(dy, scale, g, dx)
        else:
            self._dx(dy, x, mean, self.sum, self.dot, scale, g, dx)


class Broadcast(Layer):
    """A layer with a second operand, learned or a second bottom, that spans the axes from ``axis`` (default 1) of the first.

    Learned: num_axes axes (default 1; 0: one number, -1: to the end); as a bottom: its own axes.
    """

    bottoms = (1, 2)

    def operand(self, bottoms: list[Shape]) -> Shape:
        """The operand's shape; sets ``split``, the (N, C, P) that it makes of the bottom."""
        axis = self.axis(self.p.axis, len(bottoms[0]), end=True)
        if len(bottoms) == 2:
            shape = bottoms[1]
            axis = 0 if not shape else axis
        else:
            end = len(bottoms[0]) if self.p.num_axes == -1 else axis + self.p.num_axes
            if self.p.num_axes < -1 or end > len(bottoms[0]):
                what = f"num_axes {self.p.num_axes} from axis {axis} leaves the bottom's {len(bottoms[0])} axes"
                raise self.error(what, "num_axes", expected=f"-1 to {len(bottoms[0]) - axis}", found=self.p.num_axes)
            shape = bottoms[0][axis:end]
        if bottoms[0][axis : axis + len(shape)] != shape:
            raise self.bottom_error(1, "does not fit", expected=list(bottoms[0][axis : axis + len(shape)]), found=list(shape))
        n, c = math.prod(bottoms[0][:axis]), math.prod(shape)
        self.split = n, c, math.prod(bottoms[0]) // max(1, n * c)
        self.follows_layout = len(bottoms) == 1 and len(bottoms[0]) == 4 and axis == 1 and len(shape) == 1
        return shape

    def second(self, x: list):
        return x[1] if len(x) == 2 else self.params[0].data

    def second_gradient(self, dx: list) -> tuple:
        """The operand's gradient (None where not wanted), and whether to add to it."""
        return (dx[1], False) if len(dx) == 2 else self._param_args(0)


@register
class Scale(Broadcast):
    """y = x · s [+ b], s and b spanning axes of x (see Broadcast), learned or s a second bottom.

    x, y (N, C, ...), s, b (C) by default. Defaults: s starts at 1, b at 0; bias_term false. As in Caffe.
    """

    field = "scale_param"
    in_place = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = self.operand(bottoms)
        if len(bottoms) == 1:
            one = pb.FillerParameter(type="constant", value=1)
            self.add_param(shape, self.p.filler if self.p.HasField("filler") else one, "filler")
        if self.p.bias_term:
            self.add_param(shape, self.p.bias_filler, "bias_filler")
        return [bottoms[0]]

    def backward_reads_top(self, index: int) -> bool:
        return False

    def build(self, dev) -> None:
        if self.p.bias_term:
            self._y = dev.channel_map(Formula("x * s + b", ("x", "s", "b")), ("s", "b"), *self.spread(self.split))
            self._db = dev.channel_sum(Formula("dy", ("dy",)), (), *self.spread(self.split))
        else:
            self._y = dev.channel_map(Formula("x * s", ("x", "s")), ("s",), *self.spread(self.split))
        self._ds = dev.channel_sum(Formula("dy * x", ("dy", "x")), (), *self.spread(self.split))
        self._dx = dev.channel_map(Formula("dy * s", ("dy", "s")), ("s",), *self.spread(self.split))

    def forward(self, x: list, y: list) -> None:
        bias = [self.params[-1].data] if self.p.bias_term else []
        self._y(x[0], self.second(x), *bias, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        ds, add = self.second_gradient(dx)
        if ds is not None:
            self._ds(dy[0], x[0], ds, add=add)
        if self.p.bias_term:
            db, add = self._param_args(len(self.params) - 1)
            if db is not None:
                self._db(dy[0], db, add=add)
        if dx[0] is not None:
            self._dx(dy[0], self.second(x), dx[0])


@register
class Bias(Broadcast):
    """y = x + b, b spanning axes of x (see Broadcast), learned or a second bottom. x, y (N, C, ...), b (C) by default. As in Caffe."""

    field = "bias_param"
    in_place = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = self.operand(bottoms)
        if len(bottoms) == 1:
            self.add_param(shape, self.p.filler, "filler")
        return [bottoms[0]]

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def build(self, dev) -> None:
        self._y = dev.channel_map(Formula("x + b", ("x", "b")), ("b",), *self.spread(self.split))
        self._db = dev.channel_sum(Formula("dy", ("dy",)), (), *self.spread(self.split))

    def forward(self, x: list, y: list) -> None:
        self._y(x[0], self.second(x), y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        db, add = self.second_gradient(dx)
        if db is not None:
            self._db(dy[0], db, add=add)
        if dx[0] is not None and dx[0] is not dy[0]:
            self.dev.copy(dy[0], dx[0])


@register
class MVN(Layer):
    """y = (x - μ) / (σ + eps), moments of each image's channel, or of each image where across_channels.

    x, y (N, C, ...). normalize_variance (default true): without it y = x - μ. eps 1e-9. As in Caffe.
    """

    field = "mvn_param"
    in_place = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        groups = math.prod(shape[:1] if self.p.across_channels else shape[:2])
        self.split = 1, groups, math.prod(shape) // max(1, groups)
        self.saved_shapes["scale"] = ((groups,), None)
        return [shape]

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    def backward_reads_top(self, index: int) -> bool:
        return self.p.normalize_variance

    def build(self, dev) -> None:
        n, c, p = self.split
        self.mean, self.dot = dev.zeros(c), dev.zeros(c)
        self._mean = dev.channel_sum(Formula("x", ("x",)), (), n, c, p, 1 / p)
        self._variance = dev.channel_sum(Formula("(x - u) * (x - u)", ("x", "u")), ("u",), n, c, p, 1 / p)
        self._scale = dev.map(Formula("1 / (sqrt(v) + eps)", ("v",), constants=("eps",)), eps=self.p.eps)
        self._normalise = dev.channel_map(Formula("(x - u) * s", ("x", "u", "s")), ("u", "s"), n, c, p)
        self._centre = dev.channel_map(Formula("x - u", ("x", "u")), ("u",), n, c, p)
        self._dot = dev.channel_sum(Formula("dy * y", ("dy", "y")), (), n, c, p, 1 / p)
        self._dx = dev.channel_map(Formula("(dy - u - d * y) * s", ("dy", "y", "u", "d", "s")), ("u", "d", "s"), n, c, p)

    def forward(self, x: list, y: list) -> None:
        self._mean(x[0], self.mean)
        if not self.p.normalize_variance:
            return self._centre(x[0], self.mean, y[0])
        scale = self.saved["scale"]
        self._variance(x[0], self.mean, scale)
        self._scale(scale, scale)
        self._normalise(x[0], self.mean, scale, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._mean(dy[0], self.mean)
        if not self.p.normalize_variance:
            return self._centre(dy[0], self.mean, dx[0])
        self._dot(dy[0], y[0], self.dot)
        self._dx(dy[0], y[0], self.mean, self.dot, self.saved["scale"], dx[0])


@register
class LRN(Layer):
    """y = x · s^-beta, s = k + alpha / local_size · Σ x² over local_size channels, or 1 + alpha · mean of x² over a square of that side.

    x, y (N, C, H, W); norm_region ACROSS_CHANNELS (default) or WITHIN_CHANNEL (which knows no k). Defaults: local_size 5, alpha 1,
    beta 0.75, k 1. Errors: an even local_size. Source: Krizhevsky et al. 2012, as in Caffe.
    """

    field = "lrn_param"
    follows_layout = True

    def setup(self) -> None:
        if self.p.local_size % 2 == 0:
            raise self.error("local_size must be odd", "local_size", found=self.p.local_size)
        self.across = self.p.norm_region == pb.LRNParameter.ACROSS_CHANNELS

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        if len(shape) != 4:
            raise self.bottom_error(0, "is no batch of images", expected="4 axes N×C×H×W", found=f"shape {list(shape)}")
        self.shape = shape
        self.saved_shapes["scale"] = (shape, None)
        if not self.across:
            self.saved_shapes |= {"square": (shape, None), "spread": (shape, None)}
        return [shape]

    def backward_reads_top(self, index: int) -> bool:
        return self.across

    def build(self, dev) -> None:
        p = self.p
        if self.across:
            self.op = dev.lrn(*self.spread(split_axis(self.shape, 1)), p.local_size, p.alpha, p.beta, p.k)
            return
        side = (p.local_size, p.local_size)
        pooling = functools.partial(dev.channels_last_pooling if self.last else dev.pooling, "AVE")
        self.pool = pooling(self.shape, self.shape, Window(side, (1, 1), ((p.local_size - 1) // 2,) * 2))
        constants = {"alpha": p.alpha, "beta": p.beta}
        self._square = dev.map(Formula("x * x", ("x",)))
        power = "pow(1 + alpha * m, beta)"
        if p.beta == 0.75:  # everyone's, and two roots are vector instructions
            power = "(sqrt(1 + alpha * m) * sqrt(sqrt(1 + alpha * m)))"
        self._y = dev.map(Formula(f"x / {power}", ("x", "m"), constants=("alpha", "beta")), **constants)
        text = f"dy * x / ({power} * (1 + alpha * m))"
        self._inner = dev.map(Formula(text, ("dy", "x", "m"), constants=("alpha", "beta")), **constants)
        text = f"dy / {power} - 2 * alpha * beta * x * spread"
        self._dx = dev.map(Formula(text, ("dy", "m", "x", "spread"), constants=("alpha", "beta")), **constants)

    def forward(self, x: list, y: list) -> None:
        scale = self.saved["scale"]
        if self.across:
            return self.op.forward(x[0], scale, y[0])
        self._square(x[0], self.saved["square"])
        self.pool.forward(self.saved["square"], scale, None)
        self._y(x[0], scale, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        scale = self.saved["scale"]
        if self.across:
            return self.op.backward(x[0], y[0], scale, dy[0], dx[0])
        inner, spread = self.saved["square"], self.saved["spread"]
        self._inner(dy[0], x[0], scale, inner)
        self.pool.backward(inner, None, spread)
        self._dx(dy[0], scale, x[0], spread, dx[0])
