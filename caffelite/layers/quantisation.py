"""Layers of nets with quantised activations and weights: Quant, BinaryConvolution, BinaryInnerProduct, Sparsify."""

from __future__ import annotations

import math

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..devices.protocol import Device
from .convolution import Convolution
from .inner_product import InnerProduct
from .layer import Layer, Shape, elementwise, register

MOST_CENTERS = 64  # nested conditions of a formula


@register
class Quant(Layer):
    """Quantised activations; backward is the gradient of ``backward_func``, a function that is close to it.

    x, y of one shape. forward_func: "hwgq" (default) gives -negative_slope where x <= 0, else the center whose interval
    has x, with limits halfway between centers; "sign" gives 1 where x >= 0, else -1; "hard_tanh" limits x to [-1, 1];
    "relu" is a leaky ReLU. backward_func: "relu" (default), or "hard_tanh", which gives dy where abs x <= clip_thr. A
    clip_thr above 0 makes the gradient of "relu" 0 for larger x. Errors: an unknown function, centers that are not
    positive. Source: Cai et al. 2017 (half-wave Gaussian quantization), zhaoweicai/hwgq quant_layer.cpp.
    """

    field = "quant_param"
    couples_samples = False
    follows_layout = follows_precision = True

    def setup(self) -> None:
        centers = list(self.p.centers)
        if self.p.forward_func == "hwgq":
            for i, center in enumerate(centers):
                if not 0 < center < math.inf:
                    raise self.error("a bad center", "centers", i, expected="a number above 0", found=f"{center:g}")
            if not 1 <= len(centers) <= MOST_CENTERS:
                found = len(centers) or "none"
                raise self.error("a bad number of centers", "centers", expected=f"1 to {MOST_CENTERS}", found=found)
        clip = self.p.clip_thr if self.p.clip_thr > 0 else math.inf
        values = {"slope": self.p.negative_slope, "clip": clip, **{f"c{i}": c for i, c in enumerate(centers)}}
        values |= {f"t{i}": 0.5 * (c + d) for i, (c, d) in enumerate(zip(centers, centers[1:], strict=False))}
        forwards = {
            "sign": "where(x >= 0, 1, where(x == x, -1, x))",
            "hard_tanh": "where(x == x, min(max(x, -1), 1), x)",
        }
        forwards |= {"relu": "where(x > 0, x, slope * x)", "hwgq": self._nearest(len(centers))}
        backwards = {
            "relu": "where(x > clip, 0, where(x > 0, dy, slope * dy))",
            "hard_tanh": "where(abs(x) <= clip, dy, 0)",
        }
        self.y = self._formula("forward_func", forwards, ("x",), values)
        self.dx = self._formula("backward_func", backwards, ("x", "dy"), values)
        self.constants = values

    @staticmethod
    def _nearest(count: int) -> str:
        """The center of x, by comparisons with the limits in their order."""
        limits = range(count - 1)
        inner = "".join(f"where(x <= t{i}, c{i}, " for i in limits) + f"where(x == x, c{count - 1}, x)"
        return f"where(x <= 0, -slope, {inner}{')' * count}"

    def _formula(self, field: str, texts: dict[str, str], arrays: tuple[str, ...], values: dict[str, float]) -> Formula:
        name = getattr(self.p, field)
        if name not in texts:
            raise self.error(f"unknown {field}", field, expected=" or ".join(texts), found=f'"{name}"')
        every = Formula(texts[name], arrays, constants=tuple(values))
        return Formula(texts[name], arrays, constants=tuple(filter(every.uses, values)))

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return [bottoms[0]]

    def divisible(self, axis: int) -> bool:
        return True

    def backward_reads_top(self, index: int) -> bool:
        return False

    def build(self, dev: Device) -> None:
        self._y, self._dx = (
            dev.map(self.as_stored(f), **{name: self.constants[name] for name in f.constants})
            for f in (self.y, self.dx)
        )

    def forward(self, x: list, y: list) -> None:
        self._y(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._dx(x[0], dy[0], dx[0])


def binary_weights(weights: np.ndarray, use_alpha: bool) -> np.ndarray:
    """The binary weights (N, K...), as `BinaryWeights` computes them."""
    rows = weights.reshape(len(weights), -1)
    alpha = np.abs(rows).mean(1, keepdims=True) if use_alpha else np.ones((len(rows), 1))
    return np.where(rows < 0, -alpha, alpha).reshape(weights.shape).astype(weights.dtype)


class BinaryWeights:
    """The sign of weights (N, K...), 1 where w >= 0 and else -1, times the mean of abs w of its row with use_alpha."""

    def __init__(self, dev: Device, shape: Shape, use_alpha: bool):
        rows = 1, shape[0], math.prod(shape[1:])
        self.out, self._alpha = dev.empty(shape), dev.zeros(shape[0]) if use_alpha else None
        if use_alpha:
            self._mean = dev.channel_sum(Formula("abs(w)", ("w",)), (), *rows, 1 / rows[2])
            self._sign = dev.channel_map(Formula("where(w >= 0, a, -a)", ("w", "a")), ("a",), *rows)
        else:
            self._sign = dev.map(Formula("where(w >= 0, 1, -1)", ("w",)))

    def __call__(self, weights) -> None:
        if self._alpha is None:
            self._sign(weights, self.out)
        else:
            self._mean(weights, self._alpha)
            self._sign(weights, self._alpha, self.out)


class Binarised(Layer):
    """What layers with binary weights share. ``binarisation``: their message of BinaryWeightsParameter."""

    @property
    def binarisation(self) -> pb.BinaryWeightsParameter:
        raise NotImplementedError

    def build(self, dev: Device) -> None:
        super().build(dev)
        p, self.binary = self.binarisation, None
        if p.use_binarization:
            self.binary = BinaryWeights(dev, self.param_blobs[0].shape, p.use_alpha)

    def weights(self):
        return self.params[0].data if self.binary is None else self.binary.out

    def forward(self, x: list, y: list) -> None:
        if self.binary:
            self.binary(self.params[0].data)
        super().forward(x, y)


@register
class BinaryConvolution(Binarised, Convolution):
    """A Convolution with binary weights: a · sign(w), a the mean of abs w of each output with use_alpha, else 1.

    x (N, C, H, W); w (M, C/group, kh, kw), b (M); y (N, M, OH, OW). The gradient of the binary weights is taken for
    that of w. use_binarization false (default true): a Convolution. Source: Rastegari et al. 2016 (XNOR-Net),
    zhaoweicai/hwgq binary_conv_layer.cpp.
    """

    @property
    def binarisation(self) -> pb.BinaryWeightsParameter:
        return self.spec.binary_convolution_param

    def can_prepare(self) -> bool:
        return not self.binarisation.use_binarization and super().can_prepare()


@register
class BinaryInnerProduct(Binarised, InnerProduct):
    """An InnerProduct with binary weights: a · sign(w), a the mean of abs w of each output with use_alpha, else 1.

    x (M..., K...); w (N, K), b (N); y (M..., N). The gradient of the binary weights is taken for that of w.
    use_binarization false (default true): an InnerProduct. Errors: transpose. Source: zhaoweicai/hwgq
    binary_inner_product_layer.cpp.
    """

    @classmethod
    def variant(cls, spec: pb.LayerParameter) -> type[Layer]:
        return cls

    @property
    def binarisation(self) -> pb.BinaryWeightsParameter:
        return self.spec.binary_inner_product_param

    def setup(self) -> None:
        super().setup()
        if self.p.transpose:
            raise self.error("binary weights do not support transpose", "transpose", expected="false")


def _not_negative(layer: Layer) -> None:
    for name in ("thre", "coef"):
        if not getattr(layer.p, name) >= 0:
            raise layer.error(f"{name} is negative", name, expected="0 or more", found=f"{getattr(layer.p, name):g}")


DECAYED = "dy + coef * loss_scale * sign(y)"

# wenwei202/caffe sparsify_layer.cpp: the gradient also decreases the absolute values of the top (L1 regularization).
elementwise(
    "Sparsify",
    y=lambda p: "where(abs(x) <= thre, 0, x - thre * sign(x))" if p.thre else "x",
    dx=lambda p: f"where(y == 0, 0, {DECAYED})" if p.thre else DECAYED,
    field="sparsify_param",
    about="y = sign(x) * max(abs(x) - thre, 0); the gradient includes coef * sign(y), an L1 regularization of y",
    check=_not_negative,
    thre="thre",
    coef="coef",
)
