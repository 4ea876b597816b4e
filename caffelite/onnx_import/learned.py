"""Operators of matrices and of normalization."""

from typing import Any

import numpy as np

from .arithmetic import tiled
from .builder import Builder, Unsupported, translates
from .decomposition import Decomposition
from .images import weights
from .reader import Operator
from .shapes import permuted


@translates("Gemm")
def gemm(b: Builder, op: Operator) -> list[str]:
    if op.get("transA", 0):
        raise Unsupported(op, "transA: it multiplies columns of samples", "transpose its input")
    weight = b.constant(op, 1)
    if weight is None:
        return [_of_blobs(b, op)]
    weight, bias = weights(b, op)
    weight = (weight if op.get("transB", 0) else weight.T) * np.float32(op.get("alpha", 1.0))
    if bias is not None:
        if bias.ndim == 2 and bias.shape[0] > 1:
            raise Unsupported(op, "a bias for each sample", "a bias of one row")
        bias = np.broadcast_to(bias.reshape(-1), (len(weight),)) * np.float32(op.get("beta", 1.0))
    return [_linear(b, b.x(op), weight, bias, 1)]


def _linear(b: Builder, x: str, weight: np.ndarray, bias: np.ndarray | None, axis: int) -> str:
    """weight: a row for each output."""
    fields: dict[str, Any] = {"num_output": weight.shape[0]}
    fields |= ({"axis": axis} if axis != 1 else {}) | ({"bias_term": False} if bias is None else {})
    return b.add("InnerProduct", [x], [weight, *([] if bias is None else [bias])], inner_product_param=fields)


def _of_blobs(b: Builder, op: Operator) -> str:
    if op.get("alpha", 1.0) != 1 or len(op.inputs) > 2:
        raise Unsupported(op, "factors or a bias of a product of two blobs", "use MatMul")
    fields = {"num_output": b.shape(op.outputs[0])[1], "bias_term": False}
    if not op.get("transB", 0):
        fields["transpose"] = True
    return b.add("InnerProduct", [b.x(op), b.x(op, 1)], inner_product_param=fields)


@translates("MatMul", "Linear")
def matmul(b: Builder, op: Operator) -> list[str]:
    left, right = b.constant(op, 0), b.constant(op, 1)
    if left is None and right is None:
        return [_product(b, op)]
    place = 1 if left is None else 0
    weight, rank = (right if left is None else left), len(b.shape(op.inputs[1 - place]))
    if weight is None or weight.ndim < 2 or weight.ndim > max(rank, 2) or weight.size != np.prod(weight.shape[-2:]):
        raise Unsupported(op, "a product with a constant of several matrices", "a product with one matrix")
    weight = weight.reshape(weight.shape[-2:])
    if left is None:
        bias = b.constant(op, 2)
        return [_linear(b, b.x(op), weight.T, None if bias is None else bias.reshape(-1), rank - 1)]
    if rank < 3 or b.traced.batch_axis.get(op.inputs[1]) == rank - 2:
        raise Unsupported(op, "a product that sums over samples", "multiply from the right")
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    y = _linear(b, permuted(b, b.x(op, 1), swapped, "columns"), weight, None, rank - 1)
    return [permuted(b, y, swapped, "rows")]


def _product(b: Builder, op: Operator) -> str:
    """Of two blobs, one of which may have one matrix for several of the other one."""
    blobs, made = [b.x(op), b.x(op, 1)], b.shape(op.outputs[0])
    for i, shape in enumerate(map(b.shape, op.inputs)):
        if len(shape) != len(made):
            raise Unsupported(op, f"a product of {len(shape)} and {len(made)} axes", "give both as many axes")
        blobs[i] = tiled(b, blobs[i], shape, made, len(made) - 2)
    return b.add("MatMul", blobs)


@translates("BatchNormalization")
def batch_norm(b: Builder, op: Operator) -> list[str]:
    arrays = [array for i in range(1, 5) if (array := b.constant(op, i)) is not None]
    if len(arrays) < 4:
        raise Unsupported(op, "its parameters are computed in the net")
    scale, bias, mean, variance = arrays
    momentum = float(op.get("momentum", 0.9))
    momentum = momentum if 0 < momentum < 1 else 0.9
    # With this factor Caffe's sums go on as PyTorch's averages do.
    factor = np.float32(1 / (1 - momentum))
    fields = {"eps": op.get("epsilon", 1e-5), "moving_average_fraction": momentum}
    y = b.add("BatchNorm", [b.x(op)], [mean * factor, variance * factor, np.array([factor])], batch_norm_param=fields)
    return [b.add("Scale", [y], [scale, bias], suffix="scale", scale_param={"bias_term": True})]


@translates("InstanceNormalization", "GroupNormalization")
def group_norm(b: Builder, op: Operator) -> list[str]:
    scale, bias = b.constant(op, 1), b.constant(op, 2)
    channels = b.shape(op.inputs[0])[1]
    groups = op.get("num_groups", channels)
    if scale is None or bias is None:
        raise Unsupported(op, "its scales are computed in the net")
    y = b.add("GroupNorm", [b.x(op)], group_norm_param={"group_num": groups, "eps": op.get("epsilon", 1e-5)})
    if len(scale) != channels:  # one for each group, in opset 18
        scale, bias = (np.repeat(array, channels // len(array)) for array in (scale, bias))
    if (scale == 1).all() and (bias == 0).all():
        return [y]
    return [b.add("Scale", [y], [scale, bias], suffix="scale", scale_param={"bias_term": True})]


@translates("RMSNormalization")
def rms_norm(b: Builder, op: Operator) -> list[str]:
    """x / sqrt(mean(x²) + epsilon) scale"""
    d, shape = Decomposition(b, op), b.shape(op.inputs[0])
    axes = list(range(op.get("axis", -1) % len(shape), len(shape)))
    means = [1 if axis in axes else side for axis, side in enumerate(shape)]
    squares = d.make("Pow", op.inputs[0], d.constant(2.0), called="squares")
    mean = d.make("ReduceMean", squares, called="mean", shape=means, axes=axes)
    above = d.make("Add", mean, d.constant(op.get("epsilon", 1e-5)), called="above")
    inverse = d.make("Pow", above, d.constant(-0.5), called="inverse")
    normal = d.make("Mul", op.inputs[0], inverse, called="normal")
    return d.blob(d.make("Mul", normal, op.inputs[1]))


@translates("LayerNormalization")
def layer_norm(b: Builder, op: Operator) -> list[str]:
    shape, x = b.shape(op.inputs[0]), b.x(op)
    axis, batch = op.get("axis", -1) % len(shape), b.traced.batch_axis.get(op.inputs[0])
    rows = int(np.prod(shape[axis:]))
    flat = axis == 1 and len(shape) == 2
    if not flat:
        x = b.add("Reshape", [x], suffix="rows", reshape_param={"shape": {"dim": [-1, rows]}})
    x = b.add("GroupNorm", [x], group_norm_param={"group_num": 1, "eps": op.get("epsilon", 1e-5)})
    scale, bias = b.constant(op, 1), b.constant(op, 2)
    if scale is None and bias is not None:
        scale = np.ones(rows)
    if scale is not None:
        params = [scale.reshape(-1), *([] if bias is None else [bias.reshape(-1)])]
        x = b.add("Scale", [x], params, suffix="scale", scale_param={"bias_term": bias is not None})
    if not flat:
        dims = [-1 if i == (batch or 0) else side for i, side in enumerate(shape)]
        x = b.add("Reshape", [x], suffix="shape", reshape_param={"shape": {"dim": dims}})
    return [x]
