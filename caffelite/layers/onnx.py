"""ONNX operators of the layers of this package. A layer that no operator computes as Caffe does is an error, not
approximated."""

import math

import numpy as np

from .. import caffelite_pb2 as pb
from . import onnx_recurrent
from .argmax import ArgMax
from .base.exporting import ALL, OPERATORS, Node, Operator, Writer, layer_of, operator
from .batch_norm import BatchNorm
from .concat_slice import Joint
from .convolution import Kernels
from .inner_product import NormalizedInnerProduct
from .lrn_mvn import LRN, MVN
from .normalize import Normalize, UnitNorm
from .pooling import Pooling

__all__ = ["onnx_recurrent"]  # which registers operators too


@operator("Convolution", "Deconvolution")
def kernels(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    layer = layer_of(node, Kernels)
    k = layer.window
    rank = len(node.bottoms[0].shape)
    if layer.axis(layer.p.axis, rank) != 1:
        raise w.cannot(node, "channels at another axis than 1")
    kind = "ConvTranspose" if layer.spec.type == "Deconvolution" else "Conv"
    if rank == 2:  # without spatial axes
        params = [params[0][..., None], *params[1:]]
        x = [w.add("Unsqueeze", [bottom, w.numbers([2])]) for bottom in x]
    inputs = [w.constant(node, i, array) for i, array in enumerate(params)]
    attributes = {
        "kernel_shape": k.kernel,
        "strides": k.stride,
        "pads": [*k.pad, *k.pad],
        "dilations": k.dilation,
        "group": layer.p.group,
    }
    made = [w.add(kind, [bottom, *inputs], **attributes) for bottom in x]
    return [w.add("Squeeze", [top, w.numbers([2])]) for top in made] if rank == 2 else made


@operator("InnerProduct")
def inner_product(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    layer = node.layer
    axis = layer.axis(layer.p.axis, len(node.bottoms[0].shape))
    if axis != 1:
        return [_product_of_rows(w, node, x, params, axis)]
    flat = x[0] if len(node.bottoms[0].shape) == 2 else w.add("Flatten", x[:1], axis=1)
    if isinstance(layer, NormalizedInnerProduct):
        params = [layer.unit_rows(params[0]), *params[1:]]
    inputs = [*x[1:], *(w.constant(node, i, array) for i, array in enumerate(params))]
    if len(x) > 2 and not layer.p.bias_term:
        inputs = inputs[:1]
    return [w.add("Gemm", [flat, *inputs], transB=int(not node.layer.p.transpose))]


def _product_of_rows(w: Writer, node: Node, x: list[str], params: list[np.ndarray], axis: int) -> str:
    """An inner product of what follows an axis other than the first."""
    if len(x) > 1 or not axis or isinstance(node.layer, NormalizedInnerProduct):
        raise w.cannot(node, f"axis {axis}")
    last = axis == len(node.bottoms[0].shape) - 1
    rows = x[0] if last else w.add("Reshape", [x[0], w.numbers([0] * axis + [-1])])
    weight = params[0] if node.layer.p.transpose else params[0].T
    y = w.add("MatMul", [rows, w.array(f"{node.layer.name} of rows", weight)])
    return w.add("Add", [y, w.constant(node, 1, params[1])]) if len(params) > 1 else y


@operator("Pooling")
def pooling(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = layer_of(node, Pooling)
    if layer.method == "STOCHASTIC" or len(node.tops) > 1 and layer.p.global_pooling:
        raise w.cannot(node, "STOCHASTIC" if layer.method == "STOCHASTIC" else "a second top of a global pooling")
    if layer.p.global_pooling:
        return [w.add("GlobalMaxPool" if layer.method == "MAX" else "GlobalAveragePool", x)]
    if w.free.get(node.bottoms[0]):
        return _free_pooling(w, node, x[0])
    k, sizes, outs = layer.window, layer.x_shape[2:], layer.y_shape[2:]
    # The end's padding that gives Caffe's number of windows; where AVE counts zeros around the image, they are put
    # there first.
    ends = [(o - 1) * s + n - size - p for o, s, n, size, p in zip(outs, k.stride, k.kernel, sizes, k.pad, strict=True)]
    starts, padded = list(k.pad), x[0]
    if layer.method == "AVE" and any((*k.pad, *layer.pad_after)) and not layer.excludes_pad:
        padded = w.add("Pad", [padded, w.numbers([0, 0, *k.pad, 0, 0, *layer.pad_after])], mode="constant")
        starts, ends = [0] * len(sizes), [end - pad for end, pad in zip(ends, layer.pad_after, strict=True)]
    attributes = {"kernel_shape": k.kernel, "strides": k.stride, "pads": [*starts, *(max(0, end) for end in ends)]}
    if layer.method == "MAX":
        return _max_pooling(w, node, padded, **attributes)
    return [w.add("AveragePool", [padded], count_include_pad=0, **attributes)]


def _max_pooling(w: Writer, node: Node, x: str, **attributes: object) -> list[str]:
    """The greatest values, and their places in their planes, which ONNX counts over the whole blob."""
    if len(node.tops) == 1:
        return [w.add("MaxPool", [x], **attributes)]
    y, places = w.add_many("MaxPool", [x], 2, **attributes)
    plane = w.add("ReduceProd", [w.add("Shape", [x], start=2)], keepdims=1)
    in_planes = w.add("Mod", [places, plane])
    w.integers[top := w.add("Cast", [in_planes], to=1)] = in_planes
    return [y, top]


def _free_pooling(w: Writer, node: Node, x: str) -> list[str]:
    """Of images of any size: whether the last window is cut off depends on it, and is left to the operator."""
    layer = layer_of(node, Pooling)
    k, pads = layer.window, [*layer.window.pad, *layer.pad_after]
    if layer.method == "AVE" and any(pads) and not layer.excludes_pad:
        around = w.numbers([0, 0, *layer.window.pad, 0, 0, *layer.pad_after])
        x, pads = w.add("Pad", [x, around], mode="constant"), [0] * len(pads)
    attributes = {"kernel_shape": k.kernel, "strides": k.stride, "pads": pads, "ceil_mode": int(layer.up)}
    if layer.method == "MAX":
        return _max_pooling(w, node, x, **attributes)
    return [w.add("AveragePool", [x], count_include_pad=0, **attributes)]


@operator("LRN")
def lrn(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = layer_of(node, LRN)
    p = layer.p
    if layer.across:
        return [w.add("LRN", x, size=p.local_size, alpha=p.alpha, beta=p.beta, bias=p.k)]
    side = (p.local_size - 1) // 2
    mean = w.add(
        "AveragePool",
        [w.add("Mul", [x[0], x[0]])],
        kernel_shape=[p.local_size] * 2,
        pads=[side] * 4,
        count_include_pad=1,
    )
    scale = w.add("Add", [w.add("Mul", [mean, w.scalar(p.alpha)]), w.scalar(1)])
    return [w.add("Div", [x[0], w.add("Pow", [scale, w.scalar(p.beta)])])]


@operator("BatchNorm")
def batch_norm(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    layer = layer_of(node, BatchNorm)
    if not layer.stored or len(node.bottoms[0].shape) < 2:
        raise w.cannot(node, "moments of the batch" if not layer.stored else "one axis")
    mean, variance, sums = params[:3]
    factor = 1 / sums[0] if sums[0] else 0.0
    scale, bias = (params[3:] + [np.ones_like(mean), np.zeros_like(mean)][len(params[3:]) :])[:2]
    arrays = [scale, bias, mean * factor, variance * factor]
    inputs = [w.constant(node, i, array.astype(np.float32)) for i, array in enumerate(arrays)]
    return [w.add("BatchNormalization", [*x, *inputs], epsilon=layer.p.eps)]


@operator("Scale", "Bias")
def affine(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    p, rank = node.layer.p, len(node.bottoms[0].shape)
    axis = node.layer.axis(p.axis, rank, end=True)

    def spread(array: np.ndarray) -> np.ndarray:
        return array.reshape(*array.shape, *[1] * (rank - axis - array.ndim)) if array.ndim else array

    if len(x) == 2:
        shape = node.bottoms[1].shape
        after = rank - (axis if shape else 0) - len(shape)
        second = (
            w.add("Unsqueeze", [x[1], w.numbers(list(range(len(shape), len(shape) + after)))])
            if after and shape
            else x[1]
        )
    else:
        second = w.constant(node, 0, spread(params[0]))
    y = w.add("Mul" if node.layer.spec.type == "Scale" else "Add", [x[0], second])
    if node.layer.spec.type == "Scale" and p.bias_term:
        y = w.add("Add", [y, w.constant(node, 1, spread(params[-1]))])
    return [y]


@operator("ReLU")
def relu(w: Writer, node: Node, x: list[str], _) -> list[str]:
    slope = node.layer.p.negative_slope
    return [w.add("LeakyRelu", x, alpha=slope) if slope else w.add("Relu", x)]


@operator("PReLU")
def prelu(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    slope = params[0].reshape(-1, *[1] * (len(node.bottoms[0].shape) - 2))
    return [w.add("PRelu", [*x, w.constant(node, 0, slope)])]


def _named(kind: str, **fields: str) -> Operator:
    """A layer that is one operator; attributes by the layer's fields."""
    return lambda w, node, x, _: [
        w.add(kind, x, **{name: getattr(node.layer.p, field) for name, field in fields.items()})
    ]


for _type, _operator in (
    ("Sigmoid", _named("Sigmoid")),
    ("TanH", _named("Tanh")),
    ("AbsVal", _named("Abs")),
    ("BNLL", _named("Softplus")),
    ("ELU", _named("Elu", alpha="alpha")),
    ("Split", lambda w, node, x, _: x * len(node.tops)),
    ("Silence", lambda w, node, x, _: []),
):
    OPERATORS[_type] = _operator


@operator("Dropout")
def dropout(w: Writer, node: Node, x: list[str], _) -> list[str]:
    p = node.layer.p
    if p.sample_weights_test:
        raise w.cannot(node, "a mask that is drawn in TEST")
    return x if p.scale_train else [w.add("Mul", [x[0], w.scalar(1 - p.dropout_ratio)])]


@operator("Swish")
def swish(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return [w.add("Mul", [x[0], w.add("Sigmoid", [w.add("Mul", [x[0], w.scalar(node.layer.p.beta)])])])]


@operator("Mish")
def mish(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return [w.add("Mul", [x[0], w.add("Tanh", [w.add("Softplus", x)])])]


@operator("Clip")
def clip(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return [w.add("Clip", [x[0], w.scalar(node.layer.p.min), w.scalar(node.layer.p.max)])]


@operator("Power")
def power(w: Writer, node: Node, x: list[str], _) -> list[str]:
    p, y = node.layer.p, x[0]
    y = w.add("Mul", [y, w.scalar(p.scale)]) if p.scale != 1 else y
    y = w.add("Add", [y, w.scalar(p.shift)]) if p.shift else y
    return [w.add("Pow", [y, w.scalar(p.power)]) if p.power != 1 else y]


@operator("Exp", "Log")
def exponent(w: Writer, node: Node, x: list[str], _) -> list[str]:
    p, y = node.layer.p, x[0]
    base = 1.0 if p.base == -1 else math.log(p.base)
    exp = node.layer.spec.type == "Exp"
    y = w.add("Add", [w.add("Mul", [y, w.scalar(p.scale)]), w.scalar(p.shift)])
    y = (
        w.add("Exp", [w.add("Mul", [y, w.scalar(base)])])
        if exp
        else w.add("Mul", [w.add("Log", [y]), w.scalar(1 / base)])
    )
    return [y]


@operator("Eltwise")
def eltwise(w: Writer, node: Node, x: list[str], _) -> list[str]:
    p, kinds = node.layer.p, pb.EltwiseParameter
    if p.operation == kinds.SUM:
        x = [
            w.add("Mul", [name, w.scalar(c)]) if c != 1 else name
            for name, c in zip(x, p.coeff or [1] * len(x), strict=True)
        ]
    if p.operation in (kinds.MAX, kinds.MIN):
        return [w.add("Max" if p.operation == kinds.MAX else "Min", x)]
    if p.operation == kinds.DIV:
        return [w.add("Div", x)]
    y = x[0]
    for other in x[1:]:
        y = w.add("Add" if p.operation == kinds.SUM else "Mul", [y, other])
    return [y]


@operator("Concat")
def concat(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return [w.add("Concat", x, axis=layer_of(node, Joint).joint_axis(len(node.bottoms[0].shape)))]


@operator("Slice")
def slices(w: Writer, node: Node, x: list[str], _) -> list[str]:
    axis = layer_of(node, Joint).joint_axis(len(node.bottoms[0].shape))
    if axis in w.free.get(node.bottoms[0], ()):
        raise w.cannot(node, "a Slice of an axis that depends on the size of images")
    return w.add_many("Split", [x[0], w.numbers([top.shape[axis] for top in node.tops])], len(node.tops), axis=axis)


@operator("Flatten", "Reshape", "Squeeze")
def reshape(w: Writer, node: Node, x: list[str], _) -> list[str]:
    """An axis that is open stays, or takes what is left."""
    (bottom,), top = node.bottoms[:1], node.tops[0]
    before, after = bottom.shape, top.shape
    first = (0,) if before[:1] == after[:1] else ()
    open_before, open_after = (
        {*w.free.get(value, ()), *w.batch.get(value, first if value.shape else ())} for value in (bottom, top)
    )
    unchanged = {axis for axis in open_before & open_after if before[axis] == after[axis]}
    rest = open_after - unchanged
    if len(rest) > 1 or before[:1] != after[:1] and not w.batch:
        raise w.cannot(node, "another batch size" if not w.batch else "a shape with several axes that are open")
    dims = [0 if i in unchanged else -1 if i in rest else after[i] for i in range(len(after))]
    return [w.add("Reshape", [x[0], w.numbers(dims)])]


@operator("Softmax")
def softmax(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return [w.add("Softmax", x, axis=node.layer.axis(node.layer.p.axis, len(node.bottoms[0].shape)))]


@operator("Permute")
def permute(w: Writer, node: Node, x: list[str], _) -> list[str]:
    rank = len(node.bottoms[0].shape)
    order = list(node.layer.p.order)
    return [w.add("Transpose", x, perm=[*order, *(axis for axis in range(rank) if axis not in order)])]


@operator("Crop")
def crop(w: Writer, node: Node, x: list[str], _) -> list[str]:
    whole, cropped = node.bottoms[0].shape, node.tops[0].shape
    axis, offsets = node.layer.axis(node.layer.p.axis, len(whole)), list(node.layer.p.offset) or [0]
    if axis == 0:
        raise w.cannot(node, "axis 0")
    starts = offsets if len(offsets) > 1 else offsets * (len(whole) - axis)
    if w.free.get(node.tops[0]):
        ends_of = w.add("Add", [w.add("Shape", [x[1]], start=axis), w.numbers(starts)])
        return [w.add("Slice", [x[0], w.numbers(starts), ends_of, w.numbers(list(range(axis, len(whole))))])]
    ends = [start + size for start, size in zip(starts, cropped[axis:], strict=True)]
    return [w.add("Slice", [x[0], w.numbers(starts), w.numbers(ends), w.numbers(list(range(axis, len(whole))))])]


@operator("Normalize")
def normalize(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    layer, rank = node.layer, len(node.bottoms[0].shape)
    if isinstance(layer, UnitNorm):
        squared = layer.p.normalize_type == "L2"
        total = w.add("ReduceSumSquare" if squared else "ReduceL1", x, axes=[1], keepdims=1)
        norm = w.add("Add", [total, w.scalar(1e-6)])
        norm = w.add("Sqrt", [norm]) if squared else norm
        return [w.add("Div", [x[0], norm]), norm][: len(node.tops)]
    assert isinstance(layer, Normalize)
    axes = list(range(1, rank)) if layer.p.across_spatial else [1]
    total = w.add("ReduceSumSquare", x, axes=axes, keepdims=1)
    unit = w.add("Div", [x[0], w.add("Sqrt", [w.add("Add", [total, w.scalar(layer.p.eps)])])])
    scale = params[0].reshape(-1, *[1] * (rank - 2)) if params[0].ndim else params[0]
    return [w.add("Mul", [unit, w.constant(node, 0, scale)])]


@operator("Insanity")
def insanity(w: Writer, node: Node, x: list[str], _) -> list[str]:
    low, high = node.layer.p.lb, node.layer.p.ub
    slope = (math.log(abs(high)) - math.log(abs(low))) / (high - low)
    return [w.add("LeakyRelu", x, alpha=slope)]


@operator("SeLu")
def selu(w: Writer, node: Node, x: list[str], _) -> list[str]:
    p = node.layer.p
    return [w.add("Selu", x, alpha=p.alpha, gamma=getattr(p, "lambda"))]


@operator("SeLuDropout", "Gather")
def same(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return x


@operator("Transpose")
def transpose(w: Writer, node: Node, x: list[str], _) -> list[str]:
    return [w.add("Transpose", x, perm=list(node.layer.p.dim))]


@operator("Padding")
def padding(w: Writer, node: Node, x: list[str], _) -> list[str]:
    p = node.layer.p
    pads = [0, 0, p.pad_t, p.pad_l, 0, 0, p.pad_b, p.pad_r]
    return [w.add("Pad", [x[0], w.numbers(pads), w.scalar(p.value)], mode="constant")]


@operator("Reverse")
def reverse(w: Writer, node: Node, x: list[str], _) -> list[str]:
    axis = node.layer.axis(node.layer.p.axis, len(node.bottoms[0].shape))
    return [w.add("Slice", [x[0], *(w.numbers([value]) for value in (-1, ALL, axis, -1))])]


@operator("Reduction")
def reduction(w: Writer, node: Node, x: list[str], _) -> list[str]:
    p, rank = node.layer.p, len(node.bottoms[0].shape)
    axis, kinds = node.layer.axis(p.axis, rank), pb.ReductionParameter
    if axis == 0:
        raise w.cannot(node, "a sum over the batch")
    axes = list(range(axis, rank))
    if p.operation == kinds.SUM:
        total = w.add("ReduceSum", [x[0], w.numbers(axes)], keepdims=0)
    else:
        names = {kinds.ASUM: "ReduceL1", kinds.SUMSQ: "ReduceSumSquare", kinds.MEAN: "ReduceMean"}
        total = w.add(names[p.operation], x, axes=axes, keepdims=0)
    return [w.add("Mul", [total, w.scalar(p.coeff)]) if p.coeff != 1 else total]


@operator("Embed")
def embed(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    rows = w.add("Gather", [w.constant(node, 0, params[0]), w.add("Cast", x, to=7)], axis=0)
    return [w.add("Add", [rows, w.constant(node, 1, params[1])]) if node.layer.p.bias_term else rows]


@operator("Tile")
def tile(w: Writer, node: Node, x: list[str], _) -> list[str]:
    rank = len(node.bottoms[0].shape)
    axis = node.layer.axis(node.layer.p.axis, rank)
    return [w.add("Tile", [x[0], w.numbers([node.layer.p.tiles if i == axis else 1 for i in range(rank)])])]


@operator("Axpy")
def axpy(w: Writer, node: Node, x: list[str], _) -> list[str]:
    ones = [1] * (len(node.bottoms[1].shape) - 2)
    factor = w.add("Reshape", [x[0], w.numbers([0, 0, *ones])])
    return [w.add("Add", [w.add("Mul", [factor, x[1]]), x[2]])]


@operator("ArgMax")
def argmax(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = layer_of(node, ArgMax)
    if layer.p.top_k > 1:
        raise w.cannot(node, "top_k above 1, of which equal numbers have another order,")
    rank, along = len(node.bottoms[0].shape), layer.p.HasField("axis")
    axis = layer.axis(layer.p.axis, rank) if along else 1
    values = x[0] if along else w.add("Flatten", x, axis=1)
    if along and layer.p.out_max_val:
        return [w.add("ReduceMax", [values], axes=[axis], keepdims=1)]
    places = w.add("Cast", [w.add("ArgMax", [values], axis=axis, keepdims=1, select_last_index=1)], to=1)
    if along:
        return [places]
    tops = [places, *([w.add("ReduceMax", [values], axes=[1], keepdims=1)] if layer.p.out_max_val else [])]
    joined = w.add("Concat", tops, axis=1) if len(tops) > 1 else places
    return [w.add("Reshape", [joined, w.numbers([0, *node.tops[0].shape[1:]])])]


@operator("MVN")
def mvn(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = layer_of(node, MVN)
    axes = list(range(1 if layer.p.across_channels else 2, len(node.bottoms[0].shape)))
    apart = w.add("Sub", [x[0], w.add("ReduceMean", x, axes=axes, keepdims=1)])
    if not layer.divides:
        return [apart]
    variance = w.add("ReduceMean", [w.add("Mul", [apart, apart])], axes=axes, keepdims=1)
    return [w.add("Div", [apart, w.add("Add", [w.add("Sqrt", [variance]), w.scalar(layer.p.eps)])])]
