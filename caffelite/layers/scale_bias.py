"""Scale and Bias: broadcast a second operand, a parameter or a second bottom, over some axes of the first."""

import math
from collections.abc import Sequence

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..devices.protocol import Device
from .base.compilation import Which
from .base.facets import Coordinates, Described
from .base.image_layout import ImageLayout
from .base.layer import Layer, Shape, gradient_of, register


class Broadcast(ImageLayout, Layer):
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
        part = bottoms[0][axis : axis + len(shape)]
        if part != shape:
            raise self.bottom_error(1, "does not fit", expected=list(part), found=list(shape))
        n, c = math.prod(bottoms[0][:axis]), math.prod(shape)
        self.split = n, c, math.prod(bottoms[0]) // max(1, n * c)
        self.follows_layout = len(bottoms) == 1 and len(bottoms[0]) == 4 and axis == 1 and len(shape) == 1
        learned = len(bottoms) == 1 or getattr(self.p, "bias_term", False)
        self.couples_samples = axis == 0 and bool(shape) and learned
        self._by_channel = len(bottoms) == 1 and axis == 1 and bool(shape)
        self._by_sample = len(bottoms) == 1 or (axis == 0 and bool(shape))
        return shape

    @property
    def divisible_axes(self) -> Which:
        return [0] * (self._by_sample and not self.couples_samples) + [1] * self._by_channel

    def second(self, x: list):
        return x[1] if len(x) == 2 else self.params[0].data

    def second_gradient(self, dx: list) -> tuple:
        """The operand's gradient (None where not wanted), and whether to add to it."""
        return (dx[1], False) if len(dx) == 2 else gradient_of(self, 0)


@register
@Described(purpose="lets each channel learn its own scale and shift after that", spared="scales")
@Coordinates("same")
class Scale(Broadcast):
    """y = x · s [+ b], s and b spanning axes of x (see Broadcast), learned or s a second bottom.

    x, y (N, C, ...), s, b (C) by default. Defaults: s starts at 1, b at 0; bias_term false. As in Caffe.
    """

    field = "scale_param"
    in_place = follows_precision = True
    backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = self.operand(bottoms)
        if len(bottoms) == 1:
            one = pb.FillerParameter(type="constant", value=1)
            self.add_param(shape, self.p.filler if self.p.HasField("filler") else one, "filler")
        if self.p.bias_term:
            self.add_param(shape, self.p.bias_filler, "bias_filler")
        return [bottoms[0]]

    def channel_affine(self, params: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """(scale, shift) of each channel, float64, by the parameters in host memory."""
        scale = params[0].astype(np.float64)
        return scale, params[1].astype(np.float64) if self.p.bias_term else np.zeros_like(scale)

    def build(self, dev: Device) -> None:
        split = self.stored_split(self.split)
        if self.p.bias_term:
            self._y = self.channel_map(dev, "x * s + b", ("x",), ("s", "b"), split)
            self._db = dev.channel_sum(self.as_stored(Formula("dy", ("dy",))), (), *split)
        else:
            self._y = self.channel_map(dev, "x * s", ("x",), ("s",), split)
        self._ds = dev.channel_sum(self.as_stored(Formula("dy * x", ("dy", "x"))), (), *split)
        self._dx = self.channel_map(dev, "dy * s", ("dy",), ("s",), split)

    def forward(self, x: list, y: list) -> None:
        bias = [self.params[-1].data] if self.p.bias_term else []
        self._y(x[0], self.second(x), *bias, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        ds, add = self.second_gradient(dx)
        if ds is not None:
            self._ds(dy[0], x[0], ds, add=add)
        if self.p.bias_term:
            db, add = gradient_of(self, len(self.params) - 1)
            if db is not None:
                self._db(dy[0], db, add=add)
        if dx[0] is not None:
            self._dx(dy[0], self.second(x), dx[0])


@register
@Described(spared="biases")
@Coordinates("same")
class Bias(Broadcast):
    """y = x + b, b spanning axes of x (see Broadcast), learned or a second bottom. x, y (N, C, ...), b (C) by default.
    As in Caffe."""

    field = "bias_param"
    in_place = follows_precision = True
    backward_reads_bottoms = backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = self.operand(bottoms)
        if len(bottoms) == 1:
            self.add_param(shape, self.p.filler, "filler")
        return [bottoms[0]]

    def build(self, dev: Device) -> None:
        split = self.stored_split(self.split)
        self._y = self.channel_map(dev, "x + b", ("x",), ("b",), split)
        self._db = dev.channel_sum(self.as_stored(Formula("dy", ("dy",))), (), *split)

    def forward(self, x: list, y: list) -> None:
        self._y(x[0], self.second(x), y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        db, add = self.second_gradient(dx)
        if db is not None:
            self._db(dy[0], db, add=add)
        if dx[0] is not None and dx[0] is not dy[0]:
            self.dev.copy(dy[0], dx[0])
