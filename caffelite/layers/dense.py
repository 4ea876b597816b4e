"""Dense layers: every output sees every input."""

from __future__ import annotations

import math

from .layer import Layer, Shape, register


@register
class InnerProduct(Layer):
    """y = x w^T + b over the axes from ``axis`` on (default 1).

    x (M..., K...); w (N, K), stored (K, N) where transpose; b (N); y (M..., N), N = num_output. Defaults: bias_term true. As in Caffe.
    """

    field = "inner_product_param"
    absorbs_relu = True

    def setup(self) -> None:
        if not self.p.num_output:
            raise self.error("num_output must be positive", "num_output", remedy="set num_output, the number of units")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.p.axis, len(bottoms[0]), end=True)
        self.m, self.k, self.n = math.prod(bottoms[0][:axis]), math.prod(bottoms[0][axis:]), self.p.num_output
        self.add_param((self.k, self.n) if self.p.transpose else (self.n, self.k), self.p.weight_filler, "weight_filler")
        if self.p.bias_term:
            self.add_param((self.n,), self.p.bias_filler, "bias_filler")
        return [(*bottoms[0][:axis], self.n)]

    def backward_reads_top(self, index: int) -> bool:
        return False

    def build(self, dev) -> None:
        self.op = dev.inner_product(self.m, self.k, self.n, self.p.transpose)

    def forward(self, x: list, y: list) -> None:
        self.op.forward(x[0], self.params[0].data, self.params[1].data if self.p.bias_term else None, y[0], self.slope)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        (dw, add_w), (db, add_b) = self._param_args(0), self._param_args(1)
        self.op.backward(x[0], self.params[0].data, dy[0], dx[0], dw, db, add_w, add_b)
