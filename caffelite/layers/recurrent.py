"""Recurrent layers over sequences, time first: (T, N, ...)."""

import math
from collections.abc import Sequence

import numpy as np

from ..devices import ops
from ..devices.formula import Formula
from ..devices.protocol import Device
from ..devices.types import Array
from .base import require
from .base.compilation import Which
from .base.config import SavedBlobs
from .base.facets import Coordinates
from .base.layer import Layer, Shape, gradient_of, register
from .base.state import Carrying, SavesByConfig
from .inner_product import HALF_ROWS, RoundedProducts


class Recurrent(Carrying, RoundedProducts):
    """Steps over x (T, N, ...) with a state; cont (T, N) is 0 where a sequence starts and 1 where it continues.

    A third bottom x_static (N, ...) is an input of every step. The state is kept from one pass to the next. With
    expose_hidden the last bottoms (1, N, D) are the initial state and the last tops the final one. D = num_output.
    """

    field = "recurrent_param"
    bottoms, tops = (2, None), (1, None)
    constant_bottoms = frozenset({1})
    states: tuple[str, ...] = ("h",)
    gates = 1
    sums = "wide"  # where forward leaves them; backward leaves their gradient in "wide"
    backward_reads_tops: Which = False

    def setup(self) -> None:
        require.positive(self, "num_output", meaning="the number of units")
        self.exposed = self.states if self.p.expose_hidden else ()
        least, bottoms, tops = 2 + len(self.exposed), len(self.spec.bottom), 1 + len(self.exposed)
        ends = [f"{s}_0" for s in self.exposed], [f"{s}_T" for s in self.exposed]
        if bottoms not in (least, least + 1):
            what, expected = f"has {bottoms} bottoms", ", ".join(["x, cont[, x_static]", *ends[0]])
            raise self.error(what, "bottom", max(0, min(bottoms, least + 2) - 1), expected=expected, outer=True)
        if len(self.spec.top) != tops:
            index, expected = min(len(self.spec.top), tops + 1) - 1, ", ".join([self.states[0], *ends[1]])
            raise self.error(f"has {len(self.spec.top)} tops", "top", max(0, index), expected=expected, outer=True)
        self.static = bottoms > least

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        x = bottoms[0]
        require.fits(self, bottoms, 0, len(x) >= 2, "T×N×...", "is no batch of sequences")
        d = self.p.num_output
        self.t, self.n, self.d = x[0], x[1], d
        state = (1, self.n, d)
        for i, shape in enumerate(bottoms[1:], 1):
            expected = x[:2] if i == 1 else (self.n, *shape[1:]) if i == 2 and self.static else state
            if shape != expected:
                raise self.bottom_error(i, "does not fit", expected=list(expected), found=list(shape))
        self.inputs, wide = math.prod(x[2:]), self.gates * d
        self.add_param((wide, self.inputs), self.p.weight_filler, "weight_filler")
        self.add_param((wide,), self.p.bias_filler, "bias_filler")
        if self.static:
            self.statics = math.prod(bottoms[2][1:])
            self.add_param((wide, self.statics), self.p.weight_filler, "weight_filler")
        self.add_param((wide, d), self.p.weight_filler, "weight_filler")
        self.saved_shapes |= {"wide": ((self.t, self.n, wide), None), "hidden": ((self.t, self.n, d), None)}
        return [(self.t, self.n, d)] + [state] * len(self.exposed)

    def build(self, dev: Device) -> None:
        t, n, d, wide = self.t, self.n, self.d, self.gates * self.d
        self.half = self.rounds_bottoms()
        self.from_x = dev.build(ops.InnerProduct(t * n, self.inputs, wide, half=self.half))
        self.from_all_h = dev.build(ops.InnerProduct(t * n, d, wide, half=self.half))
        if self.static:
            self.from_static = dev.build(ops.InnerProduct(n, self.statics, wide))
            self._sum, self.step = dev.channel_sum(Formula("d", ("d",)), (), t, n * wide, 1), dev.empty((n, wide))
        self.gradients = [dev.empty((n, d)) for _ in self.states]
        self.carried = [dev.zeros((n, d)) for _ in self.states]

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        matrices = [math.prod(p.shape) for p in self.param_blobs if len(p.shape) == 2]
        return sum(matrices) * self.t * self.n

    def begin(self, x: list) -> Sequence[Array]:
        """What every step takes from x and x_static into ``sums`` (T, N, G·D); the states to start with."""
        sums = self.saved[self.sums]
        half = {"rounded_x": self.saved["half 0"]} if self.half else {}
        self.from_x.forward(x[0], self.params[0].data, self.params[1].data, sums, **half)
        if self.static:
            self.from_static.forward(x[2], self.params[2].data, None, self.step)
            self.dev.add(self.step, sums)
        return [s.reshape(self.n, self.d) for s in x[-len(self.states) :]] if self.exposed else self.carried

    def end(self, y: list, last: list) -> None:
        for state, target in zip(last, y[1:] if self.exposed else self.carried, strict=True):
            self.dev.copy(state, target.reshape(self.n, self.d))

    def begin_backward(self, dy: list) -> None:
        """The states' gradients from above."""
        for i, gradient in enumerate(self.gradients):
            if self.exposed and dy[1 + i] is not None:
                self.dev.copy(dy[1 + i].reshape(self.n, self.d), gradient)
            else:
                self.dev.fill(gradient, 0)

    def end_backward(self, x: list, dx: list) -> None:
        """Everything that the sums' gradient "wide" gives at once for all steps."""
        wide, (dw, add_w), (db, add_b) = self.saved["wide"], gradient_of(self, 0), gradient_of(self, 1)
        below = self.saved["half 0"] if self.half else x[0]
        self.from_x.backward(below, self.params[0].data, wide, dx[0], dw, db, add_w, add_b)
        if self.static:
            dw, add = gradient_of(self, 2)
            self._sum(wide, self.step)
            self.from_static.backward(x[2], self.params[2].data, self.step, dx[2], dw, None, add)
        dw, add = gradient_of(self, 2 + self.static)
        if dw is not None:
            self.from_all_h.backward(self.saved["hidden"], self.params[2 + self.static].data, wide, None, dw, None, add)
        for gradient, target in zip(
            self.gradients, dx[-len(self.states) :] if self.exposed else (), strict=bool(self.exposed)
        ):
            if target is not None:
                self.dev.copy(gradient, target.reshape(self.n, self.d))


@register
@Coordinates("none")
class RNN(Recurrent):
    """h_t = tanh(W_xh x_t + W_xs x_static + W_hh (cont_t · h_{t-1}) + b_h); y_t = tanh(W_ho h_t + b_o).

    x (T, N, ...), cont (T, N)[, x_static (N, ...)][, h_0 (1, N, D)] → y (T, N, D)[, h_T (1, N, D)]; D = num_output.
    Parameters: W_xh, b_h, [W_xs,] W_hh, W_ho, b_o. Default: expose_hidden false, the state is kept between passes.
    Errors: bottoms that do not fit. As in Caffe.
    """

    backward_reads_tops = (0,)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        tops = super().shapes(bottoms)
        self.add_param((self.d, self.d), self.p.weight_filler, "weight_filler")
        self.add_param((self.d,), self.p.bias_filler, "bias_filler")
        self.saved_shapes |= {"h": (tops[0], None), "dy": (tops[0], None), "dh": (tops[0], None)}
        return tops

    def build(self, dev: Device) -> None:
        super().build(dev)
        self.from_h = dev.build(ops.InnerProduct(self.n, self.d, self.d))
        self.out = dev.build(ops.InnerProduct(self.t * self.n, self.d, self.d))
        self.step = dev.empty((self.n, self.d))
        self._continued = dev.channel_map(Formula("where(k == 0, 0, k * h)", ("h", "k")), ("k",), 1, self.n, self.d)
        self._h = dev.map(Formula("tanh(x + r)", ("x", "r")))
        self._tanh = dev.map(Formula("tanh(x)", ("x",)))
        self._slope = dev.map(Formula("dy * (1 - y * y)", ("dy", "y")))

    def forward(self, x: list, y: list) -> None:
        (before,), h = self.begin(x), self.saved["h"]
        for t in range(self.t):
            hidden = self.saved["hidden"][t]
            self._continued(before, x[1][t], hidden)
            self.from_h.forward(hidden, self.params[2 + self.static].data, None, self.step)
            self._h(self.saved["wide"][t], self.step, h[t])
            before = h[t]
        self.out.forward(h, self.params[-2].data, self.params[-1].data, y[0])
        self._tanh(y[0], y[0])
        self.end(y, [before])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        h, above, from_above = (self.saved[name] for name in ("h", "dy", "dh"))
        if dy[0] is None:
            self.dev.fill(above, 0)
        else:
            self._slope(dy[0], y[0], above)
        (dw, add_w), (db, add_b) = (gradient_of(self, len(self.params) - i) for i in (2, 1))
        self.out.backward(h, self.params[-2].data, above, from_above, dw, db, add_w, add_b)
        self.begin_backward(dy)
        for t in reversed(range(self.t)):
            self.dev.add(from_above[t], self.gradients[0])
            wide, dh = self.saved["wide"][t], self.gradients[0]
            self._slope(dh, h[t], wide)
            self.from_h.backward(self.saved["hidden"][t], self.params[2 + self.static].data, wide, dh, None, None)
            self._continued(dh, x[1][t], dh)
        self.end_backward(x, dx)


@register
@Coordinates("none")
class LSTM(SavesByConfig, Recurrent):
    """c_t = σ(f)·cont_t·c_{t-1} + σ(i)·tanh(g), h_t = σ(o)·tanh(c_t), (i, f, o, g) = W_xc x_t + W_xs x_static + W_hc
    (cont_t·h_{t-1}) + b.

    x (T, N, ...), cont (T, N)[, x_static (N, ...)][, h_0, c_0 (1, N, D)] → h (T, N, D)[, h_T, c_T (1, N, D)]; D =
    num_output. Parameters: W_xc (4D, ...), b (4D), [W_xs,] W_hc (4D, D). Default: expose_hidden false, the state goes
    on from pass to pass. Errors: bottoms that do not fit. Source: Hochreiter and Schmidhuber 1997, as in Caffe.
    """

    states = ("h", "c")
    gates = 4
    sums = "gates"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        tops = super().shapes(bottoms)
        self.saved_shapes |= {"gates": self.saved_shapes["wide"], "c": ((self.t + 1, self.n, self.d), None)}
        return tops

    def rounds_bottoms(self) -> bool:
        return self.config.traits.half and self.t * self.n >= HALF_ROWS and self.d % 2 == 0

    def saved_blobs(self) -> SavedBlobs:
        if not self.rounds_bottoms():
            return self.saved_shapes
        hidden = {"hidden": ((self.t, self.n, self.d), self.config.traits.product_dtype)}
        return {**self.saved_shapes, **hidden, **self.rounded_blobs([(self.t * self.n, self.inputs)])}

    @property
    def backward_reads_bottoms(self) -> Which:
        return range(1, len(self.spec.bottom)) if self.rounds_bottoms() else True

    def build(self, dev: Device) -> None:
        super().build(dev)
        self.op = dev.build(ops.LSTM(self.t, self.n, self.d, self.half))

    def forward(self, x: list, y: list) -> None:
        (h, before), gates, c = self.begin(x), self.saved["gates"], self.saved["c"]
        self.dev.copy(before, c[0])
        self.op.forward(gates, x[1], self.params[2 + self.static].data, h, self.saved["hidden"], c, y[0])
        self.end(y, [y[0][self.t - 1], c[self.t]])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.begin_backward(dy)
        (dh, dc), saved = self.gradients, self.saved
        w = self.params[2 + self.static].data
        self.op.backward(saved["gates"], x[1], w, saved["c"], dy[0], dh, dc, saved["wide"])
        self.end_backward(x, dx)


@register
class LSTMUnit(Layer):
    """One step of an LSTM (see there) over states (N, D).

    c_0 (1, N, D), the gates' sums i, f, o, g (1, N, 4D), cont (1, N) → c, h (1, N, D). Errors: bottoms that do not fit.
    As in Caffe.
    """

    bottoms, tops = (3, 3), (2, 2)
    constant_bottoms = frozenset({2})
    backward_reads_bottoms, backward_reads_tops = (0, 2), (0,)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        c = bottoms[0]
        require.fits(self, bottoms, 0, len(c) == 3 and c[0] == 1, "1×N×D", "is no state")
        for i, expected in ((1, (1, c[1], 4 * c[2])), (2, (1, c[1]))):
            require.shape(self, bottoms, i, expected)
        self.n, self.d = c[1:]
        self.saved_shapes["gates"] = (bottoms[1], None)
        return [c, c]

    def build(self, dev: Device) -> None:
        self.op = dev.build(ops.LSTMUnit(self.n, self.d))
        self.dc = dev.empty((self.n, self.d))
        self.none = dev.zeros((self.n, self.d))
        self.dgates = dev.empty((self.n, 4 * self.d))

    def forward(self, x: list, y: list) -> None:
        self.dev.copy(x[1], self.saved["gates"])
        self.op.forward(self.saved["gates"], x[2], x[0], *y)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        dc, dgates = self.dc if dx[0] is None else dx[0], self.dgates if dx[1] is None else dx[1]
        self.dev.copy((self.none if dy[0] is None else dy[0]).reshape(dc.shape), dc)
        self.op.backward(self.saved["gates"], x[2], x[0], y[0], self.none if dy[1] is None else dy[1], dc, dgates)


@register
@Coordinates("none")
class Lstm(Carrying, Layer):
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

    upstream = False
    field = "lstm_param"
    bottoms = (1, 2)
    constant_bottoms = frozenset({1})
    backward_reads_tops = False

    def setup(self) -> None:
        require.positive(self, "num_output", meaning="the number of units")
        require.positive(self, "batch_size")
        require.value(self, "clipping_threshold", self.p.clipping_threshold >= 0, "0 or more")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, d = bottoms[0], self.p.num_output
        timed = len(shape) == 3 and not self.p.HasField("batch_size")
        require.fits(self, bottoms, 0, len(shape) >= 2, "T·N×...", "is no batch of sequences")
        n = shape[1] if timed else self.p.batch_size
        rows = shape[0] * n if timed else shape[0]
        require.fits(self, bottoms, 0, rows % n == 0, f"a multiple of {n} rows", "does not fit batch_size")
        self.t, self.n, self.d, self.inputs = rows // n, n, d, math.prod(shape[2 if timed else 1 :])
        require.fits(self, bottoms, 1, len(bottoms) <= 1 or math.prod(bottoms[1]) == rows, f"{rows} numbers")
        self.add_param((4 * d, self.inputs), self.p.weight_filler, "weight_filler")
        self.add_param((4 * d, d), self.p.weight_filler, "weight_filler")
        self.add_param((4 * d,), self.p.bias_filler, "bias_filler")
        wide, states = (self.t, n, 4 * d), (self.t, n, d)
        self.saved_shapes |= {"gates": (wide, None), "wide": (wide, None), "hidden": (states, None)}
        self.saved_shapes |= {"c": ((self.t + 1, n, d), None), "k": ((self.t, n), None)}
        return [(*shape[:2], d) if timed else (rows, d)]

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        return self.t * self.n * 4 * self.d * (self.inputs + self.d)

    def build(self, dev: Device) -> None:
        t, n, d, limit = self.t, self.n, self.d, self.p.clipping_threshold
        self.from_x, self.from_all_h = (dev.build(ops.InnerProduct(t * n, size, 4 * d)) for size in (self.inputs, d))
        self.op, self.zero = dev.build(ops.LSTM(t, n, d)), dev.zeros((n, d))
        self._dh, self._dc = dev.empty((n, d)), dev.empty((n, d))
        self.carried = [dev.zeros((n, d)) for _ in range(2)] if len(self.spec.bottom) > 1 else []
        self._continues = dev.map(Formula("where(k == 0, 0, 1)", ("k",)))
        self._starts = dev.empty((t, n))
        dev.upload(self._starts, np.repeat([0.0] + [1.0] * (t - 1), n).reshape(t, n))
        if limit:
            self.step, self.from_h = dev.build(ops.LSTMUnit(n, d)), dev.build(ops.InnerProduct(n, d, 4 * d))
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
        for last, state in zip((y[0].reshape(states)[-1], saved["c"][self.t]), self.carried, strict=False):
            self.dev.copy(last, state)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        saved, wide = self.saved, self.saved["wide"]
        self.dev.fill(self._dh, 0)
        self.dev.fill(self._dc, 0)
        if self.p.clipping_threshold:
            self._clipped(dy[0].reshape(self.t, self.n, self.d))
        else:
            weights = self.params[1].data
            self.op.backward(saved["gates"], saved["k"], weights, saved["c"], dy[0], self._dh, self._dc, wide)
        (dw, add_w), (dh, add_h), (db, add_b) = (gradient_of(self, i) for i in range(3))
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
