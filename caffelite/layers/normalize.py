"""Normalize of SSD and NormFace: values divided by their norm."""

from __future__ import annotations

import math

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..devices.protocol import Device
from .layer import Layer, Shape, register
from .normface import UnitNorm


@register
class Normalize(Layer):
    """y = s · x / |x|, |x| = √(Σ x² + eps) over a sample, or over the channels of each of its places; s learnt.

    x, y (N, C, P...); s a number (channel_shared, the default) or (C), from 1. Defaults: across_spatial true (a
    sample), eps 1e-10. Errors: a bottom without channels. Source: Liu et al. 2015 (ParseNet), as in NVCaffe and Intel's
    Caffe.
    """

    field = "norm_param"
    couples_samples = False

    @classmethod
    def variant(cls, spec: pb.LayerParameter) -> type[Layer]:
        normface = spec.HasField("normalize_param") or len(spec.top) > 1
        return UnitNorm if normface and not spec.HasField("norm_param") else cls

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        if len(shape) < 2:
            raise self.bottom_error(0, "has no channels", expected="N×C×...", found=f"shape {list(shape)}")
        one = pb.FillerParameter(type="constant", value=1)
        filler = self.p.scale_filler if self.p.HasField("scale_filler") else one
        self.add_param(() if self.p.channel_shared else (shape[1],), filler, "scale_filler")
        n, c, p = self.whole = (*shape[:2], math.prod(shape[2:]))
        self.split = (n, 1, c * p) if self.p.channel_shared else (n, c, p)
        self.rows, self.width = (n, c * p) if self.p.across_spatial else (n * p, c)  # of numbers that share a |x|
        self.saved_shapes |= {"unit": (shape, None), "scale": ((self.rows,), None)}
        return [shape]

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

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
        ds, add = self._param_args(0)
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
