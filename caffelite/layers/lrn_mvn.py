"""Mean-variance normalization and local response normalization."""

import math

from .. import caffelite_pb2 as pb
from ..devices import Window, ops
from ..devices.formula import Formula
from ..devices.protocol import Device
from .base import require
from .base.compilation import Which
from .base.facets import Coordinates, Described
from .base.image_layout import ImageLayout
from .base.layer import Layer, Shape, register, split_axis


@register
@Coordinates("same")
class MVN(Layer):
    """y = (x - μ) / (σ + eps), moments of each image's channel, or of each image where across_channels.

    x, y (N, C, ...). normalize_variance (default true): without it y = x - μ. eps 1e-9. As in Caffe.
    """

    field = "mvn_param"
    in_place = True
    couples_samples = False
    backward_reads_bottoms = False
    scale = "1 / (sqrt(v) + eps)"

    def groups(self, shape: Shape) -> int:
        """How many groups of values have moments of their own."""
        return math.prod(shape[:1] if self.p.across_channels else shape[:2])

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        groups = self.groups(shape)
        self.split = 1, groups, math.prod(shape) // max(1, groups)
        self.saved_shapes["scale"] = ((groups,), None)
        return [shape]

    @property
    def divides(self) -> bool:
        """Whether it divides by the deviation, too."""
        return self.p.normalize_variance

    @property
    def divisible_axes(self) -> Which:
        return (0,) if self.p.across_channels else (0, 1)

    @property
    def backward_reads_tops(self) -> bool:
        return self.divides

    def build(self, dev: Device) -> None:
        n, c, p = self.split
        self.mean, self.dot = dev.zeros(c), dev.zeros(c)
        self._mean = dev.channel_sum(Formula("x", ("x",)), (), n, c, p, 1 / p)
        self._variance = dev.channel_sum(Formula("(x - u) * (x - u)", ("x", "u")), ("u",), n, c, p, 1 / p)
        self._scale = dev.map(Formula(self.scale, ("v",), constants=("eps",)), eps=self.p.eps)
        self._normalize = dev.channel_map(Formula("(x - u) * s", ("x", "u", "s")), ("u", "s"), n, c, p)
        self._center = dev.channel_map(Formula("x - u", ("x", "u")), ("u",), n, c, p)
        self._dot = dev.channel_sum(Formula("dy * y", ("dy", "y")), (), n, c, p, 1 / p)
        self._dx = dev.channel_map(
            Formula("(dy - u - d * y) * s", ("dy", "y", "u", "d", "s")), ("u", "d", "s"), n, c, p
        )

    def forward(self, x: list, y: list) -> None:
        self._mean(x[0], self.mean)
        if not self.divides:
            return self._center(x[0], self.mean, y[0])
        scale = self.saved["scale"]
        self._variance(x[0], self.mean, scale)
        self._scale(scale, scale)
        self._normalize(x[0], self.mean, scale, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._mean(dy[0], self.mean)
        if not self.divides:
            return self._center(dy[0], self.mean, dx[0])
        self._dot(dy[0], y[0], self.dot)
        self._dx(dy[0], y[0], self.mean, self.dot, self.saved["scale"], dx[0])


@register
@Described(purpose="divides each value by the strength of its neighbors, so that none dominates")
@Coordinates("same")
class LRN(ImageLayout, Layer):
    """y = x · s^-beta, s = k + alpha / local_size · Σ x² over local_size channels, or 1 + alpha · mean of x² over a
    square of that side.

    x, y (N, C, H, W); norm_region ACROSS_CHANNELS (default) or WITHIN_CHANNEL (which ignores k). Defaults: local_size
    5, alpha 1, beta 0.75, k 1. Errors: an even local_size. Source: Krizhevsky et al. 2012, as in Caffe.
    """

    field = "lrn_param"
    follows_layout = follows_precision = needs_images = True
    couples_samples = False

    def setup(self) -> None:
        if self.p.local_size % 2 == 0:
            raise self.error("local_size must be odd", "local_size", found=self.p.local_size)
        self.across = self.p.norm_region == pb.LRNParameter.ACROSS_CHANNELS

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = require.images(self, bottoms)
        self.shape = shape
        self.saved_shapes["scale"] = (shape, None)
        if not self.across:
            self.saved_shapes |= {"square": (shape, None), "spread": (shape, None)}
        return [shape]

    @property
    def divisible_axes(self) -> Which:
        return (0,) if self.across else (0, 1)

    @property
    def backward_reads_tops(self) -> bool:
        return self.across

    def build(self, dev: Device) -> None:
        p = self.p
        if self.across:
            split = self.stored_split(split_axis(self.shape, 1))
            self.op = dev.build(ops.LRN(*split, p.local_size, p.alpha, p.beta, p.k))
            return
        window = Window((p.local_size,) * 2, (1, 1), ((p.local_size - 1) // 2,) * 2)
        self.pool = dev.build(ops.Pooling("AVE", self.shape, self.shape, window, self.channels_last))
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
