"""Operators that compute element by element: activations, sums and products, with broadcasting."""

import math
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from .builder import LARGEST, Builder, Translation, Unsupported, translates
from .reader import Operator

FIXED = {"lr_mult": 0, "decay_mult": 0}


def _plain(kind: str, field: str = "", **attributes: tuple[str, float]) -> Translation:
    """An operator that is one layer; fields by (attribute, default)."""

    def make(b: Builder, op: Operator) -> list[str]:
        values = {name: op.get(attribute, default) for name, (attribute, default) in attributes.items()}
        return [b.add(kind, [b.x(op)], None, "", **({field: values} if field else {}))]

    return make


for _operator, _translation in {
    "Relu": _plain("ReLU"),
    "LeakyRelu": _plain("ReLU", "relu_param", negative_slope=("alpha", 0.01)),
    "Sigmoid": _plain("Sigmoid"),
    "Tanh": _plain("TanH"),
    "Abs": _plain("AbsVal"),
    "Softplus": _plain("BNLL"),
    "Elu": _plain("ELU", "elu_param", alpha=("alpha", 1.0)),
    "Swish": _plain("Swish", "swish_param", beta=("alpha", 1.0)),
    "Mish": _plain("Mish"),
    "HardSwish": _plain("HardSwish"),
    "Exp": _plain("Exp"),
    "Log": _plain("Log"),
}.items():
    translates(_operator)(_translation)


@translates("Selu")
def selu(b: Builder, op: Operator) -> list[str]:
    fields = {"alpha": op.get("alpha", 1.67326319217681884765625), "lambda": op.get("gamma", 1.05070102214813232421875)}
    return [b.add("SeLu", [b.x(op)], selu_param=fields)]


@translates("Celu")
def celu(b: Builder, op: Operator) -> list[str]:
    """alpha ELU(x / alpha)"""
    x, alpha = b.x(op), op.get("alpha", 1.0)
    if alpha == 1:
        return [b.add("ELU", [x])]
    return [power(b, b.add("ELU", [power(b, x, suffix="inner", scale=1 / alpha)], suffix="elu"), scale=alpha)]


@translates("HardSigmoid")
def hard_sigmoid(b: Builder, op: Operator) -> list[str]:
    line = power(b, b.x(op), suffix="line", scale=op.get("alpha", 0.2), shift=op.get("beta", 0.5))
    return [b.add("Clip", [line], clip_param={"min": 0.0, "max": 1.0})]


@translates("PRelu")
def prelu(b: Builder, op: Operator) -> list[str]:
    slope, rank = b.constant(op, 1), len(b.shape(op.inputs[0]))
    if slope is None:
        raise Unsupported(op, "its slopes are computed in the net")
    if slope.size == 1:
        return [b.add("PReLU", [b.x(op)], [slope.reshape(())], prelu_param={"channel_shared": True})]
    aligned = (1,) * (rank - slope.ndim) + slope.shape
    if aligned[1] != slope.size:
        raise Unsupported(op, f"slopes of shape {list(slope.shape)}", "one slope, or one for each channel")
    return [b.add("PReLU", [b.x(op)], [slope.reshape(-1)])]


@translates("Clip")
def clip(b: Builder, op: Operator) -> list[str]:
    low = op.get("min", b.number(op, 1, -math.inf))
    high = op.get("max", b.number(op, 2, math.inf))
    return [_clipped(b, b.x(op), low, high)]


def _clipped(b: Builder, x: str, low: float, high: float) -> str:
    if (low, high) == (0, 6):
        return b.add("ReLU6", [x])
    if low == 0 and high >= LARGEST:
        return b.add("ReLU", [x])
    return b.add("Clip", [x], clip_param={"min": max(low, -LARGEST), "max": min(high, LARGEST)})


def power(b: Builder, x: str, suffix: str = "", **fields: float) -> str:
    """(shift + scale x) ^ power"""
    return b.add("Power", [x], suffix=suffix, power_param=fields)


@translates("Neg")
def negative(b: Builder, op: Operator) -> list[str]:
    return [power(b, b.x(op), scale=-1)]


@translates("Sqrt", "Reciprocal")
def root(b: Builder, op: Operator) -> list[str]:
    return [power(b, b.x(op), power=0.5 if op.kind == "Sqrt" else -1)]


@translates("Pow")
def pow_(b: Builder, op: Operator) -> list[str]:
    exponent = b.constant(op, 1)
    if exponent is None or exponent.size != 1:
        raise Unsupported(op, "its exponent is no single number")
    return [power(b, b.x(op), power=float(exponent.reshape(())))]


@translates("Softsign")
def softsign(b: Builder, op: Operator) -> list[str]:
    x = b.x(op)
    below = power(b, b.add("AbsVal", [x], suffix="abs"), suffix="below", shift=1.0)
    return [b.add("Eltwise", [x, below], eltwise_param={"operation": pb.EltwiseParameter.DIV})]


@translates("Gelu")
def gelu(b: Builder, op: Operator) -> list[str]:
    if op.get("approximate", "none") == "none":
        return [b.add("GELU", [b.x(op)])]
    # x (1 + tanh(s)) / 2 is x / (1 + e^-2s)
    x = b.x(op)
    cubed = power(b, x, suffix="cube", power=3.0, scale=0.044715 ** (1 / 3))
    inner = b.add("Eltwise", [x, cubed], suffix="inner", eltwise_param={"operation": pb.EltwiseParameter.SUM})
    scaled = power(b, inner, suffix="scaled", scale=math.sqrt(8 / math.pi))
    gate = b.add("Sigmoid", [scaled], suffix="gate")
    return [b.add("Eltwise", [x, gate], eltwise_param={"operation": pb.EltwiseParameter.PROD})]


@translates("Dropout")
def dropout(b: Builder, op: Operator) -> list[str]:
    ratio = op.get("ratio", b.number(op, 1, 0.5))
    if not ratio or ratio >= 1:
        return [b.x(op)]
    return [b.add("Dropout", [b.x(op)], dropout_param={"dropout_ratio": ratio})]


@translates("Min", "Max", "Sum", "Mean")
def several(b: Builder, op: Operator) -> list[str]:
    kinds = pb.EltwiseParameter
    if op.kind in ("Min", "Max") and len(op.inputs) == 2:
        for i in range(2):
            value = b.constant(op, i)
            if value is not None and value.size == 1:
                limit = float(value.reshape(()))
                low, high = (limit, math.inf) if op.kind == "Max" else (-math.inf, limit)
                return [_clipped(b, b.x(op, 1 - i), low, high)]
    if len(op.inputs) == 1:
        return [b.x(op)]
    if any(b.shape(name) != b.shape(op.outputs[0]) for name in op.inputs):
        raise Unsupported(op, "its inputs have several shapes")
    fields: dict[str, Any] = {"operation": {"Min": kinds.MIN, "Max": kinds.MAX}.get(op.kind, kinds.SUM)}
    if op.kind == "Mean":
        fields["coeff"] = [1 / len(op.inputs)] * len(op.inputs)
    return [b.add("Eltwise", [b.x(op, i) for i in range(len(op.inputs))], eltwise_param=fields)]


@translates("Add", "Sub", "Mul", "Div")
def binary(b: Builder, op: Operator) -> list[str]:
    for i in range(2):
        if op.inputs[i] not in b.names:
            return [_with_constant(b, op, i)]
    return [_of_blobs(b, op)]


def _with_constant(b: Builder, op: Operator, index: int) -> str:
    """A sum or product of a blob and a constant, which is the first input or the second."""
    x, c = b.x(op, 1 - index), b.traced.values[op.inputs[index]].astype(np.float64)
    shape, product = b.shape(op.inputs[1 - index]), op.kind in ("Mul", "Div")
    if op.kind == "Sub" and index == 0:
        x = power(b, x, suffix="negative", scale=-1) if c.size > 1 else x
    if op.kind == "Div" and index == 0:
        x = power(b, x, suffix="inverse", power=-1)
    if op.kind == "Div" and index == 1:
        c = 1 / c
    if op.kind == "Sub" and index == 1:
        c = -c
    if c.size == 1 and len(shape) >= c.ndim:
        value = float(c.reshape(()))
        if product:
            return x if value == 1 else power(b, x, scale=value)
        if op.kind == "Sub" and index == 0:
            return power(b, x, scale=-1, shift=value)
        return power(b, x, shift=value) if value else x
    if c.ndim == len(shape) and len(c) > 1 and b.traced.batch_axis.get(op.inputs[1 - index]) == 0:
        c = c[:1] if (c == c[:1]).all() else c  # repeated for the batch
    made = np.broadcast_shapes(c.shape, shape)
    if c.ndim <= len(shape) and made != shape:
        x, shape = tiled(b, x, shape, made, len(made)), made
    axis, values = _spread(b, op, c, shape)
    if axis == 0 and b.traced.batch_axis.get(op.inputs[1 - index]) == 0 and shape[0] > 1:
        raise Unsupported(op, "a constant for each sample of the batch", "export with an open batch: dynamic_axes")
    fields = {"axis": axis, "num_axes": values.ndim}
    fields = {} if fields == {"axis": 1, "num_axes": 1} else fields
    more: dict[str, Any] = {} if b.learned(op, index) else {"param": [FIXED]}
    if product:
        return b.add("Scale", [x], [values], scale_param=fields, **more)
    return b.add("Bias", [x], [values], bias_param=fields, **more)


def _spread(b: Builder, op: Operator, c: np.ndarray, shape: tuple[int, ...]) -> tuple[int, np.ndarray]:
    """The first axis that a constant spans, and its values over the axes from there."""
    if c.ndim > len(shape):
        raise Unsupported(op, "it adds an axis to its input")
    aligned = (1,) * (len(shape) - c.ndim) + c.shape
    spanned = [i for i, side in enumerate(aligned) if side != 1]
    axis, end = spanned[0], spanned[-1] + 1
    return axis, np.broadcast_to(c.reshape(aligned[axis:end]), shape[axis:end])


def _of_blobs(b: Builder, op: Operator) -> str:
    kinds, made = pb.EltwiseParameter, b.shape(op.outputs[0])
    (one, first), (other, second) = (_with_axes(b, op, i, len(made)) for i in range(2))
    shapes = [first, second]
    product = op.kind in ("Mul", "Div")
    if shapes[0] != shapes[1] and made in shapes:
        small = shapes.index(made) ^ 1
        if shapes[small][:1] != made[:1]:
            raise Unsupported(op, f"shapes {list(shapes[0])} and {list(shapes[1])}", "repeat the smaller one: Expand")
        x, y = (one, other)[1 - small], (one, other)[small]
        if op.kind in ("Sub", "Div"):  # x - y is x + (-y), and so on
            turned = {"scale": -1.0} if op.kind == "Sub" else {"power": -1.0}
            if small == 1:
                y = power(b, y, suffix="turned", **turned)
            else:
                x = power(b, x, suffix="turned", **turned)
        end = max((i for i, side in enumerate(shapes[small]) if side != 1), default=0) + 1
        end = max(end, 1)
        y = tiled(b, y, shapes[small], made, end)
        if end < len(made):
            dims = [0, *made[1:end]]
            y = b.add("Reshape", [y], suffix="rows", reshape_param={"shape": {"dim": dims}})
        if product:
            return b.add("Scale", [x, y], scale_param={"axis": 0})
        return b.add("Bias", [x, y], bias_param={"axis": 0})
    if shapes[0] != shapes[1]:
        one, other = (tiled(b, x, s, made, len(made)) for x, s in zip((one, other), shapes, strict=True))
    if one == other and op.kind == "Mul":
        return power(b, one, power=2.0)
    fields: dict[str, Any] = {"operation": {"Mul": kinds.PROD, "Div": kinds.DIV}.get(op.kind, kinds.SUM)}
    if op.kind == "Sub":
        fields["coeff"] = [1, -1]
    return b.add("Eltwise", [one, other], eltwise_param=fields)


def _with_axes(b: Builder, op: Operator, index: int, rank: int) -> tuple[str, tuple[int, ...]]:
    """A blob under as many axes as the other one has, and its shape."""
    x, shape, batch = b.x(op, index), b.shape(op.inputs[index]), b.traced.batch_axis.get(op.inputs[index])
    more = (1,) * (rank - len(shape))
    if not more:
        return x, shape
    dims = [*more, *(-1 if axis == batch else side for axis, side in enumerate(shape))]
    return b.add("Reshape", [x], suffix="axes", reshape_param={"shape": {"dim": dims}}), (*more, *shape)


def tiled(b: Builder, x: str, shape: tuple[int, ...], made: tuple[int, ...], end: int) -> str:
    """A blob repeated along the axes before ``end`` in which it has one value and the other blob several."""
    for axis in range(1, end):
        if shape[axis] != made[axis]:
            x = b.add("Tile", [x], suffix="repeated", tile_param={"axis": axis, "tiles": made[axis]})
    return x
