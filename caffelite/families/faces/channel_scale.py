"""ChannelScale: channels times a number."""

import math

from ... import caffelite_pb2 as pb
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register
from ...layers.normalize import ChannelRows


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
    backward_reads_tops = False

    def setup(self) -> None:
        if not self.p.do_backward_scale or self.p.global_scale:
            self.constant_bottoms = frozenset({1})
        if len(self.spec.top) > 1 and not self.p.global_scale:
            raise self.error("has a second top without global_scale", "top", 1, expected="1 top", outer=True)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = require.channels(self, bottoms)
        count = shape[0] * math.prod(shape[2:])
        if math.prod(bottoms[1]) != count:
            expected = f'{count} values, one for each position of "{self.spec.bottom[0]}" {list(shape)}'
            raise self.bottom_error(1, "does not fit", expected=expected, found=list(bottoms[1]))
        self.shape = shape
        if self.p.global_scale:
            start = pb.FillerParameter(type="constant", value=self.p.init_global_scale)
            self.add_param((1,), start, statistic=True)
        return [shape, (1,)][: len(self.spec.top)]

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
