"""Inner products whose own class has a margin of angles."""

import math
import re

from ... import caffelite_pb2 as pb
from ...devices import ops
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.feeding import ScheduledNumber
from ...layers.base.labels import LabelIndex, label_fault
from ...layers.base.layer import Shape, gradient_of, register
from ...layers.inner_product import UnitRows
from .label_specific import grown

MARGIN = pb.MarginInnerProductParameter

# Type of margin: signs that the formulas use, ψ, the factor of w in the gradient of r·ψ, and -r times the factor of x;
# c is the cosine.
_PSI = {
    MARGIN.DOUBLE: ("2 * sign(c) * c * c - 1", "4 * sign(c) * c", "2 * sign(c) * c * c + 1"),
    MARGIN.TRIPLE: (
        "s * (4 * c * c * c - 3 * c) + sign(c) * (1 + s) - 2",
        "s * (12 * c * c - 3)",
        "8 * s * c * c * c - (sign(c) * (1 + s) - 2)",
    ),
    MARGIN.QUADRUPLE: (
        "s * (8 * c * c * c * c - 8 * c * c + 1) + 2 * sign(c) + s - 3",
        "s * (32 * c * c * c - 16 * c)",
        "s * (24 * c * c * c * c - 8 * c * c - 1) - (2 * sign(c) + s - 3)",
    ),
}
_SIGN = {MARGIN.TRIPLE: "sign(abs(c) - 0.5)", MARGIN.QUADRUPLE: "sign(c) * sign(2 * c * c - 1)"}


@register
class MarginInnerProduct(ScheduledNumber):
    """y = x w of weights with |w| = 1; for the label's class y = (|x| ψ(cos θ) + λ x w) / (1 + λ), θ the angle of x
    and w.

    x (M..., K...), label (M), integers 0 to N - 1; w (N, K); y (M..., N), N = num_output; the second top is λ (1). type
    SINGLE (y = x w), DOUBLE, TRIPLE or QUADRUPLE: ψ is cos 2θ, cos 3θ or cos 4θ, continued so that it decreases from
    θ = 0 to π. λ = max(lambda_min, base · (1 + gamma · i)^-power), i = iteration + 1, 2, … the iteration, in TEST the
    batch of the test. TRAIN stores the weights scaled to length 1. As in sphereface, the gradients of the weights are
    those of x w, and the factors of w and of x in the gradient of the label's |x| ψ are scaled to a joint length of 1.
    A sample or a row of zeros has a score of 0. Errors: no num_output, labels out of range. Source: Liu et al. 2017
    (SphereFace), as in wy1iu/sphereface, tools/caffe-sphereface/src/caffe/layers/margin_inner_product_layer.cpp.
    """

    field = "margin_inner_product_param"
    bottoms, tops = (2, 2), (1, 2)
    constant_bottoms = frozenset({1})
    constant_tops = frozenset({1})
    couples_samples = False
    backward_reads_tops = False
    divisible_axes = False

    def setup(self) -> None:
        require.positive(self, "num_output", meaning="the number of classes")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.p.axis, len(bottoms[0]))
        self.m, self.k, self.n = math.prod(bottoms[0][:axis]), math.prod(bottoms[0][axis:]), self.p.num_output
        require.labels(self, bottoms, self.m)
        self.add_param((self.n, self.k), self.p.weight_filler, "weight_filler")
        self.saved_shapes |= {name: ((self.m,), None) for name in ("cosine", "length")} | {"lambda": ((1,), None)}
        return [(*bottoms[0][:axis], self.n), (1,)][: len(self.spec.top)]

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        return math.prod(tops[0]) * self.k

    def build(self, dev: Device) -> None:
        m, n = self.m, self.n
        self.op = dev.build(ops.InnerProduct(m, self.k, n))
        self.need_number()
        self._index = index = LabelIndex(dev, m, n)
        self._build_rows(dev)
        if self.p.type == MARGIN.SINGLE:
            return
        sign = _SIGN.get(self.p.type, "1")
        psi, of_w, of_x = (re.sub(r"\bs\b", sign, text) for text in _PSI[self.p.type])
        self._own, self._target, self._slopes = dev.empty(m), dev.empty(m), dev.empty((m, n))
        self._root = dev.map(Formula("sqrt(q)", ("q",)))
        self._pick = index.sum("where(t == k, y, 0)", ("y",))
        self._cosine = dev.map(Formula("where(r > 0, z / r, z)", ("z", "r")))
        self._mix = dev.map(Formula(f"(r * ({psi}) + l * z) / (1 + l)", ("c", "r", "z"), ("l",)))
        self._put = index.map("where(t == k, f, y)", ("y",), ("f",))
        self._weigh = index.map("where(t == k, dy * f, dy)", ("dy",), ("f",))
        self._build_margin(dev, of_w, of_x)

    def _build_rows(self, dev: Device) -> None:
        """What the weights need before the inner product."""
        self._normalize = UnitRows(dev, self.n, self.k, 0.0)
        self._weights = None if self.phase == pb.TRAIN else dev.empty((self.n, self.k))

    def _build_margin(self, dev: Device, of_w: str, of_x: str) -> None:
        """The lengths, and the gradient of the label's score by the factors of w and of x."""
        self._length = dev.channel_sum(Formula("x * x", ("x",)), (), 1, self.m, self.k)
        length = f"sqrt(({of_w}) * ({of_w}) + ({of_x}) * ({of_x}) / (r * r))"
        of_w, of_x = f"where(r > 0, ({of_w}) / {length}, 0)", f"where(r > 0, -({of_x}) / (r * {length}), 0)"
        self._of_w = dev.map(Formula(f"({of_w} + l) / (1 + l)", ("c", "r"), ("l",)))
        self._of_x = dev.map(Formula(f"g * ({of_x}) / (1 + l)", ("c", "r", "g"), ("l",)))
        self._add = dev.channel_map(Formula("dx + a * x", ("dx", "x", "a")), ("a",), 1, self.m, self.k)

    def scheduled_number(self, iteration: int) -> float:
        p = self.p
        return max(p.lambda_min, p.base * grown(self, "gamma", p.iteration + iteration + 1, -p.power))

    def _unit_weights(self):
        weights = self.params[0].data
        return weights if self._weights is None else self._weights

    def forward(self, x: list, y: list) -> None:
        saved, classes = self.saved, self._index.classes
        self.number.copy_to(saved["lambda"])
        if len(y) > 1:
            self.dev.copy(saved["lambda"], y[1])
        self._index.check(x[1])
        self.op.forward(x[0], self._measured_weights(), None, y[0])
        if self.p.type == MARGIN.SINGLE:
            return
        self._measure(x, saved["length"])
        self._pick(y[0], classes, x[1], self._own)
        self._cosine(self._own, saved["length"], saved["cosine"])
        self._mix(saved["cosine"], saved["length"], self._own, saved["lambda"], self._target)
        self._put(y[0], classes, x[1], self._target, y[0])

    def _measured_weights(self):
        """The weights of a forward pass."""
        weights = self._unit_weights()
        self._normalize(self.params[0].data, weights)
        return weights

    def _measure(self, x: list, lengths) -> None:
        """Of each sample the product of its length and of that of its label's row."""
        self._length(x[0], lengths)
        self._root(lengths, lengths)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        (dw, add), saved, weights = gradient_of(self, 0), self.saved, self._unit_weights()
        if self.p.type == MARGIN.SINGLE:
            return self.op.backward(x[0], weights, dy[0], dx[0], dw, None, add)
        self.op.backward(x[0], weights, dy[0], None, dw, None, add)
        if dx[0] is None:
            return
        classes = self._index.classes
        self._of_w(saved["cosine"], saved["length"], saved["lambda"], self._target)
        self._weigh(dy[0], classes, x[1], self._target, self._slopes)
        self.op.backward(x[0], weights, self._slopes, dx[0], None, None)
        self._pick(dy[0], classes, x[1], self._own)
        self._of_x(saved["cosine"], saved["length"], self._own, saved["lambda"], self._target)
        self._add(dx[0], x[0], self._target, dx[0])

    def faults(self) -> str | None:
        return label_fault(self, self._index.op, (self.m, self.n, 1))


@register
class LargeMarginInnerProduct(MarginInnerProduct):
    """y = x w; for the label's class y = (|x| |w| ψ(cos θ) + λ x w) / (1 + λ), θ the angle of x and w.

    x (M..., K...), label (M), integers 0 to N - 1; w (N, K); y (M..., N), N = num_output; the second top is λ (1).
    Types, ψ and λ as of MarginInnerProduct. A sample or a row of zeros has a score of 0, and no gradient of ψ. Errors:
    no num_output, labels out of range. Source: Liu et al. 2016 (L-Softmax), wy1iu/LargeMargin_Softmax_Loss
    src/caffe/layers/largemargin_inner_product_layer.cpp.
    """

    field = "largemargin_inner_product_param"

    def _build_rows(self, dev: Device) -> None:
        pass

    def _build_margin(self, dev: Device, of_w: str, of_x: str) -> None:
        m, n, k = self.m, self.n, self.k
        self._x_norms, self._w_norms, self._norms = dev.empty(m), dev.empty(n), dev.empty(m)
        self._factors, self._sums = dev.empty(m), dev.empty(n)
        squares = Formula("x * x", ("x",))
        self._x_square, self._w_square = (dev.channel_sum(squares, (), 1, rows, k) for rows in (m, n))
        self._take = dev.build(ops.Take(n, 1, m))
        self._product = dev.map(Formula("a * b", ("a", "b")))
        self._of_product = dev.map(Formula(f"(where(r > 0, {of_w}, 0) + l) / (1 + l)", ("c", "r"), ("l",)))
        self._of_norm = dev.map(Formula(f"where(a > 0, -({of_x}) * g * b / (a * (1 + l)), 0)", tuple("cgab"), ("l",)))
        add = Formula("d + a * x", ("d", "x", "a"))
        self._add_x, self._add_w = (dev.channel_map(add, ("a",), 1, rows, k) for rows in (m, n))

    def _measured_weights(self):
        return self.params[0].data

    def _measure(self, x: list, lengths) -> None:
        self._lengths(x)
        self._product(self._x_norms, self._norms, lengths)

    def _lengths(self, x: list) -> None:
        """The lengths of the samples, of the rows of the weights, and of the rows of the labels."""
        self._x_square(x[0], self._x_norms)
        self._w_square(self.params[0].data, self._w_norms)
        for norms in (self._x_norms, self._w_norms):
            self._root(norms, norms)
        self._take.forward(self._w_norms, x[1], self._norms)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        (dw, add), saved, weights = gradient_of(self, 0), self.saved, self.params[0].data
        if self.p.type == MARGIN.SINGLE:
            return self.op.backward(x[0], weights, dy[0], dx[0], dw, None, add)
        number, classes = saved["lambda"], self._index.classes
        self._lengths(x)
        self._of_product(saved["cosine"], saved["length"], number, self._target)
        self._weigh(dy[0], classes, x[1], self._target, self._slopes)
        self.op.backward(x[0], weights, self._slopes, dx[0], dw, None, add)
        self._pick(dy[0], classes, x[1], self._own)
        if dx[0] is not None:
            self._of_norm(saved["cosine"], self._own, self._x_norms, self._norms, number, self._factors)
            self._add_x(dx[0], x[0], self._factors, dx[0])
        if dw is not None:
            self._of_norm(saved["cosine"], self._own, self._norms, self._x_norms, number, self._factors)
            self._take.backward(x[1], self._factors, self._sums, False)
            self._add_w(dw, weights, self._sums, dw)
