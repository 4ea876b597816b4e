"""InnerDistance: the distances of samples to rows of weights."""

import math

from ... import caffelite_pb2 as pb
from ...devices import ops
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.labels import LabelIndex, label_fault
from ...layers.base.layer import Layer, Shape, gradient_of, register
from ...layers.inner_product import UnitRows


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
    backward_reads_tops = False
    divisible_axes = False

    def setup(self) -> None:
        p = self.p
        self.labeled = p.update_center_only
        self.learned = len(self.spec.bottom) == 1 + self.labeled
        most = 2 + self.labeled
        if not 1 + self.labeled <= len(self.spec.bottom) <= most:
            what = f"has {len(self.spec.bottom)} bottoms"
            raise self.error(what, "bottom", 0, expected=f"{1 + self.labeled} or {most}", outer=True)
        if p.distance_type not in ("L1", "L2"):
            what = "an unknown distance_type"
            raise self.error(what, "distance_type", expected='"L1" or "L2"', found=f'"{p.distance_type}"')
        if p.transpose:
            raise self.error("transpose is not supported", "transpose", expected="false")
        if self.learned:
            require.positive(self, "num_output", meaning="the number of rows")
        self.constant_bottoms = frozenset({len(self.spec.bottom) - 1} if self.labeled else ())

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
        if self.labeled:
            require.labels(self, bottoms, self.m, len(bottoms) - 1)
        return [(*bottoms[0][:axis], self.n)]

    def build(self, dev: Device) -> None:
        self.op = dev.build(ops.Distances(self.m, self.n, self.k, self.p.distance_type == "L2"))
        self._normalize = UnitRows(dev, self.n, self.k, 1e-6) if self.learned and self.p.normalize else None
        self._scaled = dev.empty((self.n, self.k)) if self._normalize and self.phase != pb.TRAIN else None
        if self.labeled:
            self._index, self._own = LabelIndex(dev, self.m, self.n), dev.empty((self.m, self.n))
            self._only = self._index.map("where(t == k, dy, 0)", ("dy",))

    def _weights(self, x: list):
        if not self.learned:
            return x[1]
        return self.params[0].data if self._scaled is None else self._scaled

    def forward(self, x: list, y: list) -> None:
        if self.labeled:
            self._index.check(x[-1])
        if self._normalize:
            self._normalize(self.params[0].data, self._weights(x))
        self.op.forward(x[0], self._weights(x), y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        weights, slopes = self._weights(x), dy[0]
        dw, add = gradient_of(self, 0) if self.learned else (dx[1], False)
        if dx[0] is not None:
            self.op.backward_x(x[0], weights, slopes, dx[0])
        if dw is None:
            return
        if self.labeled:
            self._only(slopes, self._index.classes, x[-1], self._own)
            slopes = self._own
        self.op.backward_w(x[0], weights, slopes, dw, add)

    def faults(self) -> str | None:
        if not self.labeled:
            return None
        op, split = self._index.op, (self.m, self.n, 1)
        return label_fault(self, op, split, len(self.spec.bottom) - 1)
