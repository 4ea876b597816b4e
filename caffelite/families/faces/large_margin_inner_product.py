"""LargeMarginInnerProduct: scores with a margin of the angle, of weights of any length."""

from __future__ import annotations

import re

from ...devices import ops
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.layer import gradient_of, register
from .label_index import LabelIndex
from .margin_inner_product import _PSI, _SIGN, MARGIN, MarginInnerProduct


@register
class LargeMarginInnerProduct(MarginInnerProduct):
    """y = x w; for the label's class y = (|x| |w| ψ(cos θ) + λ x w) / (1 + λ), θ the angle of x and w.

    x (M..., K...), label (M), integers 0 to N - 1; w (N, K); y (M..., N), N = num_output; the second top is λ (1).
    Types, ψ and λ as of MarginInnerProduct. A sample or a row of zeros has a score of 0, and no gradient of ψ. Errors:
    no num_output, labels out of range. Source: Liu et al. 2016 (L-Softmax), wy1iu/LargeMargin_Softmax_Loss
    src/caffe/layers/largemargin_inner_product_layer.cpp.
    """

    field = "largemargin_inner_product_param"

    def build(self, dev: Device) -> None:
        m, n, k = self.m, self.n, self.k
        self.op = dev.build(ops.InnerProduct(m, k, n))
        self._number = self._number or self.context.input_buffer.field((1,))
        self._index = index = LabelIndex(dev, m, n)
        if self.p.type == MARGIN.SINGLE:
            return
        sign = _SIGN.get(self.p.type, "1")
        psi, of_w, of_x = (re.sub(r"\bs\b", sign, text) for text in _PSI[self.p.type])
        self._own, self._target, self._products = dev.empty(m), dev.empty(m), dev.empty(m)
        self._x_norms, self._w_norms, self._norms = dev.empty(m), dev.empty(n), dev.empty(m)
        self._factors, self._sums, self._slopes = dev.empty(m), dev.empty(n), dev.empty((m, n))
        squares = Formula("x * x", ("x",))
        self._x_square, self._w_square = (dev.channel_sum(squares, (), 1, rows, k) for rows in (m, n))
        self._root = dev.map(Formula("sqrt(q)", ("q",)))
        self._take = dev.build(ops.Take(n, 1, m))
        self._pick = index.sum("where(t == k, y, 0)", ("y",))
        self._product = dev.map(Formula("a * b", ("a", "b")))
        self._cosine = dev.map(Formula("where(r > 0, z / r, z)", ("z", "r")))
        self._mix = dev.map(Formula(f"(r * ({psi}) + l * z) / (1 + l)", ("c", "r", "z"), ("l",)))
        self._put = index.map("where(t == k, f, y)", ("y",), ("f",))
        self._of_product = dev.map(Formula(f"(where(r > 0, {of_w}, 0) + l) / (1 + l)", ("c", "r"), ("l",)))
        self._of_norm = dev.map(Formula(f"where(a > 0, -({of_x}) * g * b / (a * (1 + l)), 0)", tuple("cgab"), ("l",)))
        self._weigh = index.map("where(t == k, dy * f, dy)", ("dy",), ("f",))
        add = Formula("d + a * x", ("d", "x", "a"))
        self._add_x, self._add_w = (dev.channel_map(add, ("a",), 1, rows, k) for rows in (m, n))

    def _unit_weights(self):
        return self.params[0].data

    def forward(self, x: list, y: list) -> None:
        saved, weights, classes = self.saved, self.params[0].data, self._index.classes
        self._number.copy_to(saved["lambda"])
        if len(y) > 1:
            self.dev.copy(saved["lambda"], y[1])
        self._index.check(x[1])
        self.op.forward(x[0], weights, None, y[0])
        if self.p.type == MARGIN.SINGLE:
            return
        self._lengths(x)
        self._product(self._x_norms, self._norms, saved["length"])
        self._pick(y[0], classes, x[1], self._own)
        self._cosine(self._own, saved["length"], saved["cosine"])
        self._mix(saved["cosine"], saved["length"], self._own, saved["lambda"], self._target)
        self._put(y[0], classes, x[1], self._target, y[0])

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
