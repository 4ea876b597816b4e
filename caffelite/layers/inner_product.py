"""InnerProduct: a fully connected layer, of learned weights or of another blob."""

import math
from typing import Any, Protocol

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices import ops
from ..devices.formula import Formula
from ..devices.protocol import Device
from ..devices.types import Array
from .base import require
from .base.config import SavedBlobs
from .base.division import OutputDivision
from .base.facets import Coordinates, Described
from .base.fusing import FusingProduct
from .base.layer import Layer, Shape, gradient_of, register, register_variant
from .base.state import SavesByConfig


class RoundedProducts(Layer):
    """A layer that may multiply 16-bit copies of its bottoms."""

    def rounds_bottoms(self) -> bool:
        """Whether forward saves copies of its bottoms of 16-bit numbers, which its products multiply."""
        return False

    def rounded_blobs(self, shapes: list[Shape]) -> SavedBlobs:
        """The saved blobs for 16-bit copies of bottoms of these shapes."""
        dtype = self.config.traits.product_dtype
        return {f"half {i}": (shape, dtype) for i, shape in enumerate(shapes)}


class UnitRows:
    """Scales each row w of weights (N, K) to length 1: w / √(|w|² + eps)."""

    def __init__(self, dev: Device, n: int, k: int, eps: float):
        self._squares = dev.empty(n)
        self._square = dev.channel_sum(Formula("w * w", ("w",)), (), 1, n, k)
        scaled = Formula("where(q + eps > 0, w / sqrt(q + eps), 0)", ("w", "q"), constants=("eps",))
        self._scale = dev.channel_map(scaled, ("q",), 1, n, k, eps=eps)

    def __call__(self, weights, out) -> None:
        """out may be the weights."""
        self._square(weights, self._squares)
        self._scale(weights, self._squares, out)


HALF_ROWS = 32  # with fewer, reading the weights is the work, and rounding them first more of it


class DeferredRows(Protocol):
    """Keeps the rows that the gradient of an InnerProduct's weights is a product of."""

    def keep(self, x: Array, dy: Array, add: bool) -> None:
        """x (M, K), dy (M, N): of one pass. add: after the rows of earlier passes, which are dropped otherwise."""


@register
@Described(purpose="every output sums all inputs, each with a weight of its own")
@Coordinates("none")
class InnerProduct(SavesByConfig, FusingProduct, OutputDivision, RoundedProducts):
    """y = x w^T + b over the axes from ``axis`` on (default 1).

    x (M..., K...); w (N, K), stored (K, N) where transpose; b (N); y (M..., N), N = num_output. Defaults: bias_term
    true. As in Caffe.
    """

    field = "inner_product_param"
    converted = ("relu",)
    # where the gradient of the weights is computed later, for several passes at once: receives the rows of each pass
    deferred: DeferredRows | None = None

    def setup(self) -> None:
        require.positive(self, "num_output", meaning="the number of units")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.p.axis, len(bottoms[0]), end=True)
        self.couples_samples = axis == 0
        self.m, self.k, self.n = math.prod(bottoms[0][:axis]), math.prod(bottoms[0][axis:]), self.p.num_output
        self.add_param(
            (self.k, self.n) if self.p.transpose else (self.n, self.k), self.p.weight_filler, "weight_filler"
        )
        if self.p.bias_term:
            self.add_param((self.n,), self.p.bias_filler, "bias_filler")
        return [(*bottoms[0][:axis], self.n)]

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        return math.prod(tops[0]) * self.k

    def rounds_bottoms(self) -> bool:
        return self.config.traits.half and self.m >= HALF_ROWS

    def saved_blobs(self) -> SavedBlobs:
        return self.rounded_blobs([(self.m, self.k)]) if self.rounds_bottoms() else {}

    @property
    def backward_reads_bottoms(self) -> bool:
        return not self.rounds_bottoms()

    def build(self, dev: Device) -> None:
        self._bias = self.params[1].data if self.p.bias_term else None
        self._rounded = [self.saved["half 0"]] if self.rounds_bottoms() else []
        self.op = self.gradient_product(self.m)
        self._relu_backward = self.build_relu_backward(dev, self.m, self.n, 1)

    def forward(self, x: list, y: list) -> None:
        self.op.forward(x[0], self.weights(), self._bias, y[0], self.slope, *self._rounded)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        (dw, add_w), (db, add_b) = gradient_of(self, 0), gradient_of(self, 1)
        if self.deferred:
            dw = None
        x = self._rounded or x
        if self._relu_backward:
            self._relu_backward(y[0], dy[0], db, add_b)
            db = None
        if self.deferred:
            self.deferred.keep(x[0], dy[0], add_w)
        self.op.backward(x[0], self.weights(), dy[0], dx[0], dw, db, add_w, add_b)

    def gradient_rows(self) -> tuple[int, int, int]:
        """(M, K, N): the gradient is a sum over M rows, of K numbers of the bottom and N of the top's gradient."""
        return self.m, self.k, self.n

    def fuses_update(self) -> bool:
        """Whether a device that ``fuses_updates`` can update the weights as it computes their gradient: they are
        (N, K), and factors of float32."""
        return not (self.p.transpose or self.rounds_bottoms())

    def gradient_product(self, rows: int) -> Any:
        """The device's inner product, which computes the gradient of the weights over ``rows`` rows."""
        return self.dev.build(ops.InnerProduct(rows, self.k, self.n, self.p.transpose, self.rounds_bottoms()))

    def weights(self):
        return self.params[0].data


@register_variant(lambda spec: len(spec.bottom) == 1 and spec.inner_product_param.normalize)
class NormalizedInnerProduct(InnerProduct):
    """`InnerProduct` with normalize: TRAIN stores the weights with each row w scaled to w / √(|w|² + 1e-6), TEST
    computes with such rows. The gradient of the weights is that of x w^T. Errors: transpose. Source: Wang et al. 2017
    (NormFace), as in happynear/caffe-windows, inner_product_layer.cpp."""

    type = "InnerProduct"
    divide_outputs = False

    def setup(self) -> None:
        super().setup()
        if self.p.transpose:
            raise self.error("normalize does not support transpose", "transpose", expected="false")

    def build(self, dev: Device) -> None:
        super().build(dev)
        self._normalize = UnitRows(dev, self.n, self.k, 1e-6)
        self._scaled = None if self.phase == pb.TRAIN else dev.empty((self.n, self.k))

    def weights(self):
        return self.params[0].data if self._scaled is None else self._scaled

    @staticmethod
    def unit_rows(weights: np.ndarray) -> np.ndarray:
        """The weights that TEST computes with."""
        lengths = np.sqrt((weights.astype(float) ** 2).sum(1, keepdims=True) + 1e-6)
        return (weights / lengths).astype(weights.dtype)

    def forward(self, x: list, y: list) -> None:
        self._normalize(self.params[0].data, self.weights())
        super().forward(x, y)


@register_variant(lambda spec: len(spec.bottom) > 1)
class InnerProductOfBlobs(Layer):
    """`InnerProduct` with weights from a second bottom: y = x w^T + b.

    x (M..., K...), w (N, K), stored (K, N) where transpose; y (M..., N). b: a third bottom (N), or learned where
    bias_term (default true). num_output has no effect. As in happynear/caffe-windows, inner_product_layer.cpp.
    """

    type, field = "InnerProduct", "inner_product_param"
    bottoms = (2, 3)
    couples_samples = False
    backward_reads_bottoms = (0, 1)
    backward_reads_tops = False
    divisible_axes = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        axis = self.axis(self.p.axis, len(bottoms[0]), end=True)
        self.m, self.k = math.prod(bottoms[0][:axis]), math.prod(bottoms[0][axis:])
        count = math.prod(bottoms[1])
        self.n = count // max(1, self.k)
        if len(bottoms[1]) < 2 or (self.k, self.n)[not self.p.transpose] != bottoms[1][0] or self.n * self.k != count:
            expected = f"K×N with K {self.k}" if self.p.transpose else f"N×K with K {self.k}"
            what = f'{expected}, the values of a sample of "{self.spec.bottom[0]}" {list(bottoms[0])}'
            raise self.bottom_error(1, "does not fit", expected=what, found=f"shape {list(bottoms[1])}")
        require.fits(self, bottoms, 2, len(bottoms) <= 2 or math.prod(bottoms[2]) == self.n, f"{self.n} values")
        self.learned = self.p.bias_term and len(bottoms) == 2
        if self.learned:
            self.add_param((self.n,), self.p.bias_filler, "bias_filler")
        return [(*bottoms[0][:axis], self.n)]

    def build(self, dev: Device) -> None:
        self.op = dev.build(ops.InnerProduct(self.m, self.k, self.n, self.p.transpose))

    def forward(self, x: list, y: list) -> None:
        bias = self.params[0].data if self.learned else x[2] if len(x) > 2 and self.p.bias_term else None
        self.op.forward(x[0], x[1], bias, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        db, add = gradient_of(self, 0) if self.learned else (dx[2] if len(dx) > 2 else None, False)
        self.op.backward(x[0], x[1], dy[0], dx[0], dx[1], db, False, add)
