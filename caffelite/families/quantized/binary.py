"""BinaryConvolution and BinaryInnerProduct: the signs of weights."""

import math

import numpy as np

from ... import caffelite_pb2 as pb
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.base.facets import Coordinates
from ...layers.base.layer import Layer, Shape, register
from ...layers.convolution import Convolution
from ...layers.inner_product import InnerProduct


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


class Binarized(Layer):
    """What layers with binary weights share. ``binarization``: their message of BinaryWeightsParameter."""

    @property
    def binarization(self) -> pb.BinaryWeightsParameter:
        raise NotImplementedError

    def build(self, dev: Device) -> None:
        super().build(dev)
        p, self.binary = self.binarization, None
        if p.use_binarization:
            self.binary = BinaryWeights(dev, self.param_blobs[0].shape, p.use_alpha)

    def weights(self):
        return self.params[0].data if self.binary is None else self.binary.out

    def forward(self, x: list, y: list) -> None:
        if self.binary:
            self.binary(self.params[0].data)
        super().forward(x, y)


@register
class BinaryConvolution(Binarized, Convolution):
    """A Convolution with binary weights: a · sign(w), a the mean of abs w of each output with use_alpha, else 1.

    x (N, C, H, W); w (M, C/group, kh, kw), b (M); y (N, M, OH, OW). The gradient of the binary weights is taken for
    that of w. use_binarization false (default true): a Convolution. Source: Rastegari et al. 2016 (XNOR-Net),
    zhaoweicai/hwgq binary_conv_layer.cpp.
    """

    def setup(self) -> None:
        super().setup()
        self.makes_weights = self.binarization.use_binarization

    @property
    def binarization(self) -> pb.BinaryWeightsParameter:
        return self.spec.binary_convolution_param


@register
@Coordinates("none")
class BinaryInnerProduct(Binarized, InnerProduct):
    """An InnerProduct with binary weights: a · sign(w), a the mean of abs w of each output with use_alpha, else 1.

    x (M..., K...); w (N, K), b (N); y (M..., N). The gradient of the binary weights is taken for that of w.
    use_binarization false (default true): an InnerProduct. Errors: transpose. Source: zhaoweicai/hwgq
    binary_inner_product_layer.cpp.
    """

    @property
    def binarization(self) -> pb.BinaryWeightsParameter:
        return self.spec.binary_inner_product_param

    def setup(self) -> None:
        super().setup()
        if self.p.transpose:
            raise self.error("binary weights do not support transpose", "transpose", expected="false")
