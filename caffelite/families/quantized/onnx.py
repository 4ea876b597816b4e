"""ONNX operators of quantized layers."""

import numpy as np

from ...layers.base.exporting import Node, Writer, operator
from ...layers.onnx import inner_product, kernels
from .binary import binary_weights


@operator("BinaryConvolution")
def binary_convolution(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    p = node.layer.spec.binary_convolution_param
    return kernels(w, node, x, [binary_weights(params[0], p.use_alpha), *params[1:]] if p.use_binarization else params)


@operator("BinaryInnerProduct")
def binary_inner_product(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    p = node.layer.spec.binary_inner_product_param
    binary = [binary_weights(params[0], p.use_alpha), *params[1:]] if p.use_binarization else params
    return inner_product(w, node, x, binary)


@operator("Sparsify")
def sparsify(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return [w.add("Shrink", x, lambd=node.layer.p.thre, bias=node.layer.p.thre)] if node.layer.p.thre else x
