"""Normalisation: batch norm, its scale and bias, mean-variance normalisation, local response normalisation."""

from __future__ import annotations

import functools
import math

from .. import caffelite_pb2 as pb
from ..devices import Window
from ..devices.formula import Formula
from .layer import Layer, Shape, register, split_axis

LEARNT = (
    "scale_bias",
    "scale_filler",
    "use_weight_bias",
    "filler",
    "bias_filler",
)  # the fields by which a BatchNorm learns


@register
class BatchNorm(Layer):
    """y = (x - μ_c) / √(σ²_c + eps) [· scale_c + bias_c], moments over the batch and positions of each channel.

    x, y (N, C, ...); a Scale layer may follow. Three blobs that no solver touches: running sums of means (C) and
    variances (C, with m/(m-1)), and the factor (1) that both are divided by; each training pass multiplies them by
    moving_average_fraction (default 0.999) and adds its own. use_global_stats (default: in TEST) takes the running
    moments. eps 1e-5. Two more, learnt, where scale_bias, use_weight_bias or one of their fillers is written: scale
    (C), from 1, and bias (C), from 0, unless bias_term is false. Errors: a rate for the first three. Source: Ioffe and
    Szegedy 2015, blobs as in Caffe, NVCaffe and Intel's Caffe.
    """

    field = "batch_norm_param"
    in_place = follows_layout = follows_precision = can_fuse_relu_backward = True
    frozen_params = 3
    takes_sums = False

    def setup(self) -> None:
        p = self.p
        self.stored = p.use_global_stats if p.HasField("use_global_stats") else self.phase == pb.TEST
        asked = [f for f in LEARNT if p.HasField(f)]
        self.learnt = bool(asked) and not any(
            p.HasField(f) and not getattr(p, f) for f in ("scale_bias", "use_weight_bias")
        )

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        self.split = (1, 1, shape[0]) if len(shape) == 1 else split_axis(shape, 1)
        c = self.split[1]
        for size in ((c,), (c,), (1,)):
            self.add_param(size, pb.FillerParameter())
        self.saved_shapes |= {"mean": ((c,), None), "scale": ((c,), None)}
        if self.learnt:
            filler = "filler" if self.p.HasField("filler") else "scale_filler"
            one = pb.FillerParameter(type="constant", value=1)
            self.add_param((c,), getattr(self.p, filler) if self.p.HasField(filler) else one, filler)
            if self.p.bias_term:
                self.add_param((c,), self.p.bias_filler, "bias_filler")
        return [shape]

    def can_fuse(self, follower: Layer) -> bool:
        return (
            follower.spec.type == "Scale"
            and follower.split == self.split
            and len(follower.spec.bottom) == 1
            and not self.learnt
        )

    def configure_for(self, dev) -> None:
        self.takes_sums = dev.sums_gradients

    @property
    def most_parts(self) -> int:
        return 64 if self.joined else 1

    def can_fuse_sum(self, follower: Layer) -> bool:
        alike = (follower.last, follower.narrow) == (self.last, self.narrow)
        plain = (
            follower.spec.type == "Eltwise"
            and len(follower.spec.bottom) == 2
            and all(map(follower.passes_gradient, (0, 1)))
        )
        return self.takes_sums and self.can_fuse_relu and alike and plain

    @property
    def can_fuse_relu(self) -> bool:
        return self.learnt or self.fused_layer is not None

    @property
    def affine(self) -> list:
        """The learnt scale and perhaps bias, its own or those of the Scale layer that is fused into it; none where
        nothing is learnt."""
        return list(self.fused_layer.params if self.fused_layer else self.params[3:])

    def backward_reads_bottom(self, index: int) -> bool:
        return self.can_fuse_relu  # y may have lost what x says: the scale may be 0

    def backward_reads_top(self, index: int) -> bool:
        return not self.stored and not self.backward_reads_bottom(index)

    def build(self, dev) -> None:
        n, c, p = self.spread(self.split)
        m, split = n * p, (n, c, p)
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
        self._normalise = self._map(dev, "(x - u) * s", ("x",), ("u", "s"), split)
        self._sums = dev.channel_sums((total, dot), (), *split, 1 / m)
        self._rescale = self._map(dev, "dy * s", ("dy",), ("s",), split)
        self._dx = self._map(dev, "(dy - u - d * y) * s", ("dy", "y"), ("u", "d", "s"), split)

    def _map(
        self,
        dev,
        text: str,
        images: tuple[str, ...],
        each: tuple[str, ...],
        split: tuple[int, int, int],
        **constants: float,
    ):
        """A formula over images, with the numbers that each channel has."""
        formula = self.as_stored(Formula(text, (*images, *each), constants=tuple(constants)), *each)
        return dev.channel_map(formula, each, *split, **constants)

    def _build_affine(self, dev, split: tuple[int, int, int], m: int) -> None:
        """With a learnt scale, and perhaps a bias, a sum and a ReLU behind them."""
        each, value, slope = ("u", "s", "g", "b")[: 2 + len(self.affine)], "(x - u) * s * g", {}
        if len(self.affine) == 2:
            value = f"{value} + b"
        dy = "dy"
        if self.joined:
            self._build_joined(dev, split, each, value)
        elif self.slope is not None:  # whether y > 0 is told by x again, which costs less than to read y
            dy, slope = f"where({value} > 0, dy, slope * dy)", {"slope": self.slope}
            value = f"where({value} > 0, {value}, slope * ({value}))"
        if not self.joined:
            self._normalise = self._map(dev, value, ("x",), each, split, **slope)
        sums = (Formula(text, ("dy", "x", *each), constants=tuple(slope)) for text in (dy, f"{dy} * (x - u) * s"))
        self._sums = dev.channel_sums(tuple(self.as_stored(f, *each) for f in sums), each, *split, **slope)
        self._rescale = self._map(dev, f"{dy} * s * g", ("dy", "x"), each, split, **slope)
        text = f"({dy} - t / m - d / m * (x - u) * s) * s * g"
        self._dx = self._map(dev, text, ("dy", "x"), (*each, "t", "d"), split, m=m, **slope)

    def _build_joined(self, dev, split: tuple[int, int, int], each: tuple[str, ...], value: str) -> None:
        """With a sum of that and a. Backward first makes the sum's gradient, from that of y in its parts, then the sums
        over it."""
        value, dy, slope = f"{value} + a", "({0})", {}
        if self.slope is not None:  # y is at hand, and tells what else x and a would
            value, dy, slope = (
                f"where({value} > 0, {value}, slope * ({value}))",
                "where(y > 0, {0}, slope * ({0}))",
                {"slope": self.slope},
            )
        self._normalise = self._map(dev, value, ("x", "a"), each, split, **slope)

        def sums(parts: int):
            names = tuple(f"dy{i}" for i in range(parts))
            whole, read = dy.format(" + ".join(names)), (*names, "y") if slope else names
            texts = ((whole, read), (f"{whole} * (x - u) * s", (*read, "x", "u", "s")))
            formulas = tuple(
                self.as_stored(Formula(text, arrays, constants=tuple(slope)), "u", "s") for text, arrays in texts
            )
            return dev.channel_sums(formulas, ("u", "s"), *split, kept=True, **slope)

        self._joined_sums = functools.cache(sums)

    def forward(self, x: list, y: list) -> None:
        mean, variance, factor = (param.data for param in self.params[:3])
        u, scale = self.saved["mean"], self.saved["scale"]
        if self.stored:
            self._mean(mean, factor, u)
            self._scale(variance, factor, scale)
        else:
            self._moments(x[0], u, scale, mean, variance, factor)
        self._normalise(*x, u, scale, *[param.data for param in self.affine], y[0])

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
        dx, dy = gradients[0], gradients[-1] if self.joined else parts[0]
        each = self.saved["mean"], self.saved["scale"], *[param.data for param in self.affine]
        sums, affine = [self.dot, self.sum], self.affine
        for i, param in enumerate(affine):
            if param.wanted and not param.add:
                sums[i] = param.diff
        dot, total = sums
        if dy is parts[0] and len(parts) == 1 and not (self.joined and self.slope is not None):
            self._sums(dy, x, *each, (total, dot))
        else:
            read = (y,) if self.slope is not None else ()
            self._joined_sums(len(parts))(*parts, *read, x, *each[:2], (total, dot), dy)
        for found, param in zip(sums, affine, strict=False):
            if param.wanted and param.add:
                self.dev.add(found, param.diff)
        if dx is None:
            return
        if self.stored:
            self._rescale(dy, x, *each, dx)
        else:
            self._dx(dy, x, *each, total, dot, dx)


class Broadcast(Layer):
    """A layer with a second operand, learned or a second bottom, that spans the axes from ``axis`` (default 1) of the
    first.

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
            raise self.bottom_error(
                1, "does not fit", expected=list(bottoms[0][axis : axis + len(shape)]), found=list(shape)
            )
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
    in_place = follows_precision = True

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
        split = self.spread(self.split)
        if self.p.bias_term:
            self._y = dev.channel_map(
                self.as_stored(Formula("x * s + b", ("x", "s", "b")), "s", "b"), ("s", "b"), *split
            )
            self._db = dev.channel_sum(self.as_stored(Formula("dy", ("dy",))), (), *split)
        else:
            self._y = dev.channel_map(self.as_stored(Formula("x * s", ("x", "s")), "s"), ("s",), *split)
        self._ds = dev.channel_sum(self.as_stored(Formula("dy * x", ("dy", "x"))), (), *split)
        self._dx = dev.channel_map(self.as_stored(Formula("dy * s", ("dy", "s")), "s"), ("s",), *split)

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
    """y = x + b, b spanning axes of x (see Broadcast), learned or a second bottom. x, y (N, C, ...), b (C) by default.
    As in Caffe."""

    field = "bias_param"
    in_place = follows_precision = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = self.operand(bottoms)
        if len(bottoms) == 1:
            self.add_param(shape, self.p.filler, "filler")
        return [bottoms[0]]

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def build(self, dev) -> None:
        self._y = dev.channel_map(self.as_stored(Formula("x + b", ("x", "b")), "b"), ("b",), *self.spread(self.split))
        self._db = dev.channel_sum(self.as_stored(Formula("dy", ("dy",))), (), *self.spread(self.split))

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
        self._dx = dev.channel_map(
            Formula("(dy - u - d * y) * s", ("dy", "y", "u", "d", "s")), ("u", "d", "s"), n, c, p
        )

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
    """y = x · s^-beta, s = k + alpha / local_size · Σ x² over local_size channels, or 1 + alpha · mean of x² over a
    square of that side.

    x, y (N, C, H, W); norm_region ACROSS_CHANNELS (default) or WITHIN_CHANNEL (which knows no k). Defaults: local_size
    5, alpha 1, beta 0.75, k 1. Errors: an even local_size. Source: Krizhevsky et al. 2012, as in Caffe.
    """

    field = "lrn_param"
    follows_layout = follows_precision = True

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
        self._square = dev.map(self.as_stored(Formula("x * x", ("x",)), "out"))
        power = "pow(1 + alpha * m, beta)"
        if p.beta == 0.75:  # everyone's, and two roots are vector instructions
            power = "(sqrt(1 + alpha * m) * sqrt(sqrt(1 + alpha * m)))"
        self._y = dev.map(
            self.as_stored(Formula(f"x / {power}", ("x", "m"), constants=("alpha", "beta")), "m"), **constants
        )
        text = f"dy * x / ({power} * (1 + alpha * m))"
        self._inner = dev.map(
            self.as_stored(Formula(text, ("dy", "x", "m"), constants=("alpha", "beta")), "m", "out"), **constants
        )
        text = f"dy / {power} - 2 * alpha * beta * x * spread"
        formula = Formula(text, ("dy", "m", "x", "spread"), constants=("alpha", "beta"))
        self._dx = dev.map(self.as_stored(formula, "m", "spread"), **constants)

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
