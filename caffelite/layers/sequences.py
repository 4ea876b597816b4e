"""Lstm, Reverse and Transpose: layers of forks for sequences."""

from __future__ import annotations

import math

import numpy as np

from ..devices.formula import Formula
from ..devices.protocol import Device
from .forks import Permute
from .layer import Layer, Shape, register


@register
class Lstm(Layer):
    """The LSTM of a fork: c_t = σ(f)·k·c_{t-1} + σ(i)·tanh(g), h_t = σ(o)·tanh(c_t), (i, f, o, g) = W_x x_t + W_h
    (k·h_{t-1}) + b.

    x (T·N, ...) → h (T·N, D), N = batch_size (default 1), D = num_output; where x has three axes and batch_size is not
    set, x (T, N, I) → h (T, N, D). A second bottom of T·N numbers gives k: 1 where a sequence continues, 0 where one
    starts; the state is then kept from one pass to the next. Without it a sequence starts with each pass. Parameters:
    W_x (4D, I), W_h (4D, D), b (4D). A clipping_threshold above 0 limits the gradients of the sums (i, f, o, g) of each
    step. Errors: T·N that N does not divide, a second bottom that does not fit. Source: junhyukoh/caffe-lstm
    src/caffe/layers/lstm_layer.cpp, tianzhi0549/CTPN caffe/src/caffe/layers/lstm_layer.cpp, whose gradient of W_h
    counts states of sequences that ended.
    """

    field = "lstm_param"
    bottoms = (1, 2)
    constant_bottoms = frozenset({1})
    sums_spatially = True

    def setup(self) -> None:
        if not self.p.num_output:
            raise self.error("num_output must be positive", "num_output", remedy="set num_output, the number of units")
        if not self.p.batch_size:
            raise self.error("batch_size must be positive", "batch_size")
        if not self.p.clipping_threshold >= 0:
            found = f"{self.p.clipping_threshold:g}"
            raise self.error("a bad clipping_threshold", "clipping_threshold", expected="0 or more", found=found)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, d = bottoms[0], self.p.num_output
        timed = len(shape) == 3 and not self.p.HasField("batch_size")
        if len(shape) < 2:
            raise self.bottom_error(0, "is no batch of sequences", expected="T·N×...", found=f"shape {list(shape)}")
        n = shape[1] if timed else self.p.batch_size
        rows = shape[0] * n if timed else shape[0]
        if rows % n:
            raise self.bottom_error(0, "does not fit batch_size", expected=f"a multiple of {n} rows", found=list(shape))
        self.t, self.n, self.d, self.inputs = rows // n, n, d, math.prod(shape[2 if timed else 1 :])
        if len(bottoms) > 1 and math.prod(bottoms[1]) != rows:
            raise self.bottom_error(1, "does not fit", expected=f"{rows} numbers", found=list(bottoms[1]))
        self.add_param((4 * d, self.inputs), self.p.weight_filler, "weight_filler")
        self.add_param((4 * d, d), self.p.weight_filler, "weight_filler")
        self.add_param((4 * d,), self.p.bias_filler, "bias_filler")
        wide, states = (self.t, n, 4 * d), (self.t, n, d)
        self.saved_shapes |= {"gates": (wide, None), "wide": (wide, None), "hidden": (states, None)}
        self.saved_shapes |= {"c": ((self.t + 1, n, d), None), "k": ((self.t, n), None)}
        return [(*shape[:2], d) if timed else (rows, d)]

    def backward_reads_top(self, index: int) -> bool:
        return False

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        return self.t * self.n * 4 * self.d * (self.inputs + self.d)

    def build(self, dev: Device) -> None:
        t, n, d, limit = self.t, self.n, self.d, self.p.clipping_threshold
        self.from_x, self.from_all_h = (dev.inner_product(t * n, size, 4 * d) for size in (self.inputs, d))
        self.op, self.zero = dev.lstm(t, n, d), dev.zeros((n, d))
        self._dh, self._dc = dev.empty((n, d)), dev.empty((n, d))
        self.carried = [dev.zeros((n, d)) for _ in range(2)] if len(self.spec.bottom) > 1 else []
        self._continues = dev.map(Formula("where(k == 0, 0, 1)", ("k",)))
        self._starts = dev.empty((t, n))
        dev.upload(self._starts, np.repeat([0.0] + [1.0] * (t - 1), n).reshape(t, n))
        if limit:
            self.step, self.from_h = dev.lstm_unit(n, d), dev.inner_product(n, d, 4 * d)
            text = "where(x > limit, limit, where(x < -limit, -limit, x))"
            self._limit = dev.map(Formula(text, ("x",), constants=("limit",)), limit=limit)
            self._follows = dev.channel_map(Formula("k * h", ("h", "k")), ("k",), 1, n, d)

    def forward(self, x: list, y: list) -> None:
        saved, states, h = self.saved, (self.t, self.n, self.d), self.zero
        k = saved["k"]
        if self.carried:
            self._continues(x[1].reshape(self.t, self.n), k)
            h = self.carried[0]
        else:
            self.dev.copy(self._starts, k)
        weights, recurrent, bias = (param.data for param in self.params)
        self.from_x.forward(x[0], weights, bias, saved["gates"])
        self.dev.copy(self.carried[1] if self.carried else self.zero, saved["c"][0])
        self.op.forward(saved["gates"], k, recurrent, h, saved["hidden"], saved["c"], y[0])
        for last, kept in zip((y[0].reshape(states)[-1], saved["c"][self.t]), self.carried, strict=False):
            self.dev.copy(last, kept)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        saved, wide = self.saved, self.saved["wide"]
        self.dev.fill(self._dh, 0)
        self.dev.fill(self._dc, 0)
        if self.p.clipping_threshold:
            self._clipped(dy[0].reshape(self.t, self.n, self.d))
        else:
            weights = self.params[1].data
            self.op.backward(saved["gates"], saved["k"], weights, saved["c"], dy[0], self._dh, self._dc, wide)
        (dw, add_w), (dh, add_h), (db, add_b) = (self._param_args(i) for i in range(3))
        self.from_x.backward(x[0], self.params[0].data, wide, dx[0], dw, db, add_w, add_b)
        if dh is not None:
            self.from_all_h.backward(saved["hidden"], self.params[1].data, wide, None, dh, None, add_h)

    def _clipped(self, above) -> None:
        """The gradients of the sums, step by step. above (T, N, D): h's gradient."""
        saved, dh, dc = self.saved, self._dh, self._dc
        for t in reversed(range(self.t)):
            wide, k = saved["wide"][t], saved["k"][t]
            self.dev.add(above[t], dh)
            self.step.backward(saved["gates"][t], k, saved["c"][t], saved["c"][t + 1], dh, dc, wide)
            self._limit(wide, wide)
            self.from_h.backward(saved["hidden"][t], self.params[1].data, wide, dh, None, None)
            self._follows(dh, k, dh)


@register
class Reverse(Layer):
    """The values along ``axis`` (default 0) in reversed order. x, y of one shape. Errors: an axis that x lacks. Source:
    tianzhi0549/CTPN caffe/src/caffe/layers/reverse_layer.cpp."""

    field = "reverse_param"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.p.axis, len(bottoms[0]))
        self.part = (*[slice(None)] * axis, slice(None, None, -1))
        self.couples_samples = axis == 0
        return [bottoms[0]]

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def forward(self, x: list, y: list) -> None:
        self.dev.assign(x[0][self.part], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.dev.assign(dy[0][self.part], dx[0])


@register
class Transpose(Permute):
    """Permute with all axes named: axis i of y is axis dim[i] of x. x (N, C, H, W), dim 3 2 0 1 → y (W, H, N, C).
    Errors: another number of axes, an axis twice. Source: tianzhi0549/CTPN
    caffe/src/caffe/layers/transpose_layer.cpp."""

    field = "transpose_param"
    order_field = "dim"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if len(self.p.dim) != len(bottoms[0]):
            place = ("dim", 0) if self.p.dim else ("dim",)
            expected = f"one for each of the {len(bottoms[0])} axes"
            raise self.error(f"has {len(self.p.dim)} values of dim", *place, expected=expected)
        return super().shapes(bottoms)
