"""Activations: element-wise formulas of one bottom of any shape, and layers that drop or weigh its values."""

import math

from .. import caffelite_pb2 as pb
from ..devices import ops
from ..devices.formula import Formula
from ..devices.protocol import Device
from .base import require
from .base.compilation import Which
from .base.division import Positioned
from .base.elementwise import elementwise
from .base.facets import Coordinates, Described
from .base.image_layout import ImageLayout
from .base.layer import Layer, Shape, gradient_of, random_key, register, split_axis

# ReLU reads its top, which a fused convolution leaves in memory anyway; a negative slope below 0 makes the top's sign
# useless.
ReLU = Described(purpose="keeps what is above 0; without it, layers in a row would be no more than one")(
    elementwise(
        "ReLU",
        y="where(x > 0, x, slope * x)",
        dx=lambda p: f"where({'y' if p.negative_slope >= 0 else 'x'} > 0, dy, slope * dy)",
        field="relu_param",
        slope="negative_slope",
    )
)
elementwise("Sigmoid", y="1 / (1 + exp(-x))", dx="dy * y * (1 - y)", field="sigmoid_param")
elementwise("TanH", y="tanh(x)", dx="dy * (1 - y * y)", field="tanh_param")
elementwise(
    "ELU",
    y="where(x > 0, x, alpha * (exp(x) - 1))",
    dx=lambda p: f"where({'y' if p.alpha >= 0 else 'x'} > 0, dy, dy * (y + alpha))",
    field="elu_param",
    alpha="alpha",
)
elementwise(
    "Swish",
    y="x / (1 + exp(-beta * x))",
    dx="dy * (beta * y + (1 - beta * y) / (1 + exp(-beta * x)))",
    field="swish_param",
    beta="beta",
)
_SOFTPLUS = "tanh(max(x, 0) + log1p(exp(-abs(x))))"
elementwise(
    "Mish",
    y=f"x * {_SOFTPLUS}",
    dx=f"dy * ({_SOFTPLUS} + x / (1 + exp(-x)) * (1 - {_SOFTPLUS} * {_SOFTPLUS}))",
    about="y = x tanh(ln(1 + e^x)). Source: Misra 2019, as in the forks with a src/caffe/layers/mish_layer.cpp",
    upstream=False,
)
elementwise("AbsVal", y="abs(x)", dx="dy * sign(x)")
# log(1 + e^x) without overflow on either side; its slope is the sigmoid.
elementwise("BNLL", y="max(x, 0) + log1p(exp(-abs(x)))", dx="dy / (1 + exp(-x))")
elementwise(
    "Threshold",
    y="where(x > threshold, 1, where(x == x, 0, x))",
    dx=None,
    field="threshold_param",
    threshold="threshold",
)


def _limits(layer: Layer) -> None:
    if layer.p.max < layer.p.min:
        raise layer.error("max is below min", "max", expected=f"{layer.p.min:g} or more", found=f"{layer.p.max:g}")


elementwise(
    "Clip",
    y="where(x < low, low, where(x > high, high, x))",
    dx="where(low <= x <= high, dy, 0)",
    field="clip_param",
    check=_limits,
    low="min",
    high="max",
)


@register
@Described(
    purpose="sets random values to 0 in training, so that the net does not rely on any one of them", own_top=True
)
@Coordinates("same")
class Dropout(Positioned, ImageLayout, Layer):
    """In TRAIN y = x · mask / (1 - dropout_ratio), mask 1 with probability 1 - dropout_ratio (default 0.5); in TEST y =
    x, unless sample_weights_test. With scale_train: false y = x · mask, and in TEST y = x (1 - dropout_ratio).

    x, y: (N, ...). Errors: a ratio outside [0, 1), in TEST [0, 1]. Source: Srivastava et al. 2014, scaled in training
    as in Caffe; scale_train as in rbgirshick/caffe-fast-rcnn, dropout_layer.cpp of its branch fast-rcnn.
    """

    field = "dropout_param"
    in_place = follows_layout = True
    couples_samples = False
    piece: ops.MaskPiece | None = None
    backward_reads_bottoms = backward_reads_tops = False
    divisible_axes = (0, 1)

    def setup(self) -> None:
        self.training = self.phase == pb.TRAIN or self.p.sample_weights_test
        ratio = self.p.dropout_ratio
        if not 0 <= ratio <= 1 or ratio == 1 and self.training:
            expected = "0 or more and less than 1" if self.training else "from 0 to 1"
            raise self.error("a bad dropout_ratio", "dropout_ratio", expected=expected, found=f"{ratio:g}")
        self.factor = 1 if self.training or self.p.scale_train else 1 - ratio
        self.follows_precision = not self.training
        self.view = not self.training and self.factor == 1

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if self.training:
            self.saved_shapes["mask"] = (bottoms[0], "uint8")
        self.rows = bottoms[0][0] if bottoms[0] else 1
        self.width = math.prod(bottoms[0]) // max(1, self.rows)
        self.channels = bottoms[0][1] if len(bottoms[0]) > 1 else 1
        return [bottoms[0]]

    def set_part(self, axis: int, index: int, count: int) -> None:
        rows, width = (index * self.rows, 0) if axis == 0 else (0, index * self.width)
        self.piece = ops.MaskPiece(rows, self.rows * (count if axis == 0 else 1), width)

    def build(self, dev: Device) -> None:
        if self.training:
            channels, scale = self.channels if self.channels_last else 0, None if self.p.scale_train else 1.0
            drawn = self.rows, self.width, self.p.dropout_ratio, random_key(self), self.context
            self.op = dev.build(ops.Dropout(*drawn, self.piece, channels, scale))
        elif not self.view:
            self._scaled = dev.map(
                self.as_stored(Formula("factor * x", ("x",), constants=("factor",))), factor=self.factor
            )

    def forward(self, x: list, y: list) -> None:
        if self.training:
            self.op.forward(x[0], self.saved["mask"], y[0])
        elif not self.view:
            self._scaled(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if self.training:
            self.op.backward(self.saved["mask"], dy[0], dx[0])
        elif not self.view:
            self._scaled(dy[0], dx[0])


@register
class Insanity(Layer):
    """y = x where x > 0, else x / a; in TRAIN a is drawn from lb to ub for each number, in TEST it is
    (ub - lb) / (log |ub| - log |lb|).

    x, y (N, C, ...). Defaults: lb 5, ub 10. Errors: ub not above lb, a bound of 0. Source: Xu et al. 2015 (randomized
    leaky ReLU), as in happynear/caffe-windows, insanity_layer.cpp; the gradient in TEST is that of its formula.
    """

    upstream = False
    field = "insanity_param"
    in_place = True
    couples_samples = False

    def setup(self) -> None:
        low, high = self.p.lb, self.p.ub
        if not (low < high and low and high and math.isfinite(high - low)):
            expected, found = "ub above lb, both finite and not 0", f"lb {low:g}, ub {high:g}"
            raise self.error("a bad range", "ub" if self.p.HasField("ub") else "lb", expected=expected, found=found)
        self.training = self.phase == pb.TRAIN

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if self.training:
            self.saved_shapes["slope"] = (bottoms[0], None)
        self.rows = bottoms[0][0] if bottoms[0] else 1
        self.width = math.prod(bottoms[0]) // max(1, self.rows)
        return [bottoms[0]]

    @property
    def divisible_axes(self) -> Which:
        return not self.training

    @property
    def backward_reads_bottoms(self) -> bool:
        return self.p.lb < 0

    @property
    def backward_reads_tops(self) -> bool:
        return self.p.lb > 0

    def build(self, dev: Device) -> None:
        low, high = self.p.lb, self.p.ub
        y, dx = "where(x > 0, x, x / a)", "where(x > 0, dy, dy / a)"
        if self.training:
            self._draw = dev.build(ops.Uniform(self.rows, self.width, low, high, random_key(self), self.context))
            self._y, self._dx = dev.map(Formula(y, ("x", "a"))), dev.map(Formula(dx, ("x", "dy", "a")))
            return
        mean = {"a": (high - low) / (math.log(abs(high)) - math.log(abs(low))) if low != -high else math.inf}
        self._y = dev.map(Formula(y, ("x",), constants=("a",)), **mean)
        self._dx = dev.map(Formula(dx, ("x", "dy"), constants=("a",)), **mean)

    def forward(self, x: list, y: list) -> None:
        if self.training:
            self._draw.forward(self.saved["slope"])
        self._y(x[0], *([self.saved["slope"]] if self.training else []), y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        read = x[0] if self.p.lb < 0 else y[0]
        self._dx(read, dy[0], *([self.saved["slope"]] if self.training else []), dx[0])


@register
@Described(spared="slopes")
@Coordinates("same")
class PReLU(ImageLayout, Layer):
    """y = x where x > 0, else a · x; a learned for each channel, or one for all with channel_shared; a starts at 0.25.

    x, y (N, C, ...); a (C), or () where shared. Errors: a bottom of fewer than 2 axes. Source: He et al. 2015.
    """

    field = "prelu_param"
    in_place = follows_layout = True
    couples_samples = False
    backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.channels(self, bottoms)
        self.split = split_axis(bottoms[0], 1)
        quarter = pb.FillerParameter(type="constant", value=0.25)
        shape = () if self.p.channel_shared else (bottoms[0][1],)
        self.add_param(shape, self.p.filler if self.p.HasField("filler") else quarter, "filler")
        return [bottoms[0]]

    @property
    def divisible_axes(self) -> Which:
        return (0,) if self.p.channel_shared else (0, 1)

    def build(self, dev: Device) -> None:
        y = "where(x > 0, x, a * x)"
        dx = "where(x > 0, dy, a * dy)"
        da = Formula("where(x > 0, 0, x * dy)", ("x", "dy"))
        if self.p.channel_shared:
            self._y, self._dx = dev.map(Formula(y, ("x",), ("a",))), dev.map(Formula(dx, ("x", "dy"), ("a",)))
            self._da = dev.sum(da)
        else:
            self._y = dev.channel_map(Formula(y, ("x", "a")), ("a",), *self.stored_split(self.split))
            self._dx = dev.channel_map(Formula(dx, ("x", "dy", "a")), ("a",), *self.stored_split(self.split))
            self._da = dev.channel_sum(da, (), *self.stored_split(self.split))

    def forward(self, x: list, y: list) -> None:
        self._y(x[0], self.params[0].data, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        da, add = gradient_of(self, 0)
        if da is not None:
            self._da(x[0], dy[0], da, add=add)
        if dx[0] is not None:
            self._dx(x[0], dy[0], self.params[0].data, dx[0])


def _base(layer: Layer) -> None:
    """The base must be positive; -1 means e."""
    require.value(layer, "base", layer.p.base == -1 or layer.p.base > 0, "more than 0, or -1 for e")


def _grows(layer: Layer) -> None:
    _base(layer)
    if _log_base(layer.p) * layer.p.shift > 88:
        raise layer.error("base^shift is no float32", "shift", expected="at most 3e38", found=f"{layer.p.shift:g}")


def _divides(layer: Layer) -> None:
    _base(layer)
    if layer.p.base == 1:
        raise layer.error("no logarithm has base 1", "base", expected="a base other than 1", found="1")


def _log_base(p) -> float:
    return 1.0 if p.base == -1 else math.log(p.base)


# y = base^(scale x + shift) = outer · e^(inner x)
Described(not_finite="e to a large number")(
    elementwise(
        "Exp",
        y="outer * exp(inner * x)",
        dx="dy * inner * y",
        field="exp_param",
        about="y = base ^ (shift + scale * x); a base of -1 is e",
        check=_grows,
        inner=lambda p: _log_base(p) * p.scale,
        outer=lambda p: math.exp(_log_base(p) * p.shift),
    )
)
Described(not_finite="the logarithm of 0 or below")(
    elementwise(
        "Log",
        y="log(scale * x + shift) * factor",
        dx="dy * (factor * scale) / (scale * x + shift)",
        field="log_param",
        about="y = log(shift + scale * x) / log(base); a base of -1 is e",
        check=_divides,
        scale="scale",
        shift="shift",
        factor=lambda p: 1 / _log_base(p),
    )
)


def _slope(p) -> str:
    """Powers 0, 1 and 2 without ``pow``; unlike in Caffe, the slope at scale x + shift = 0 is a number wherever it
    exists."""
    if p.power == 0 or p.scale == 0:
        return "0 * dy"
    return {1: "dy * slope", 2: "dy * slope * (scale * x + shift)"}.get(
        p.power, "dy * slope * pow(scale * x + shift, less)"
    )


Described(not_finite="a root of or a quotient by 0 or below")(
    elementwise(
        "Power",
        y=lambda p: {1: "scale * x + shift", 2: "(scale * x + shift) * (scale * x + shift)"}.get(
            p.power, "pow(scale * x + shift, power)"
        ),
        dx=_slope,
        field="power_param",
        about="y = (shift + scale * x) ^ power",
        scale="scale",
        shift="shift",
        power="power",
        less=lambda p: p.power - 1,
        slope=lambda p: p.power * p.scale,
    )
)


# The top shows the sign of x where both factors are positive.
elementwise(
    "SeLu",
    y="where(x > 0, scale * x, scale * alpha * (exp(x) - 1))",
    dx=lambda p: (
        "where(y > 0, scale * dy, dy * (y + scale * alpha))"
        if getattr(p, "lambda") > 0 and p.alpha > 0
        else "where(x > 0, scale * dy, scale * alpha * dy * exp(x))"
    ),
    field="selu_param",
    about="y = lambda * x where x > 0, else lambda * alpha * (exp(x) - 1)",
    upstream=False,
    scale=lambda p: getattr(p, "lambda"),
    alpha="alpha",
)


@register
class SeLuDropout(ImageLayout, Layer):
    """In TRAIN y = a · (x or, with probability dropout_ratio, alpha) + b, which keeps mean 0 and variance 1; in TEST
    y = x.

    x, y of one shape. a = 1 / √(q + alpha² q (1 - q)), b = -a (1 - q) alpha, q = 1 - dropout_ratio. Defaults:
    dropout_ratio 0.1, alpha -1.7581. Errors: a ratio outside [0, 1). Source: Klambauer et al. 2017 (alpha dropout),
    HolmesShuan/SNNs-Self-Normalizing-Neural-Networks-Caffe-Reimplementation README.md.
    """

    upstream = False
    field = "selu_dropout_param"
    in_place = True
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False

    def setup(self) -> None:
        ratio = self.p.dropout_ratio
        if not 0 <= ratio < 1:
            expected = "0 or more and less than 1"
            raise self.error("a bad dropout_ratio", "dropout_ratio", expected=expected, found=f"{ratio:g}")
        self.training = self.phase == pb.TRAIN
        self.view = self.follows_layout = not self.training

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if self.training:
            self.saved_shapes["mask"] = (bottoms[0], "uint8")
        self.rows = bottoms[0][0] if bottoms[0] else 1
        self.width = math.prod(bottoms[0]) // max(1, self.rows)
        self.count = (self.rows, self.width)
        return [bottoms[0]]

    @property
    def divisible_axes(self) -> Which:
        return not self.training

    def build(self, dev: Device) -> None:
        if not self.training:
            return
        ratio, alpha = self.p.dropout_ratio, self.p.alpha
        q = 1 - ratio
        a = 1 / math.sqrt(q + alpha * alpha * q * ratio)
        self.op = dev.build(ops.Dropout(self.rows, self.width, ratio, random_key(self), self.context))
        self._ones, self._kept = dev.empty(self.count), dev.empty(self.count)
        dev.fill(self._ones, 1)
        text = "where(k > 0, a * x + b, c)"
        constants = {"a": a, "b": -a * ratio * alpha, "c": a * alpha * q}
        self._y = dev.map(Formula(text, ("x", "k"), constants=tuple(constants)), **constants)
        self._dx = dev.map(Formula("a * dx", ("dx",), constants=("a",)), a=a * q)

    def forward(self, x: list, y: list) -> None:
        if self.training:
            self.op.forward(self._ones, self.saved["mask"], self._kept)
            self._y(x[0], self._kept, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if self.training:
            self.op.backward(self.saved["mask"], dy[0], dx[0])
            self._dx(dx[0], dx[0])
