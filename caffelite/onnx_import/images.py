"""Operators of images: convolutions, poolings, borders, other sizes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..export.writer import import_onnx
from .arithmetic import FIXED
from .builder import Builder, Unsupported, translates
from .reader import Operator
from .shapes import chosen, permuted
from .simplify import constant_pads
from .trace import plain_runner

PER_AXIS = {"kernel_size": "kernel", "stride": "stride", "pad": "pad"}


def per_axis(name: str, values: Sequence[int], usual: int | None = None) -> dict[str, Any]:
    """The fields of a size by axis: one number where all are equal, else _h and _w."""
    if all(value == usual for value in values):
        return {}
    if len(set(values)) == 1:
        return {name: values[0]}
    if len(values) == 2 and name in PER_AXIS:
        return {f"{PER_AXIS[name]}_{side}": value for side, value in zip("hw", values, strict=True)}
    return {name: list(values)}


def repeated(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    """The same for fields that are lists."""
    return {name: [value] if name in names and isinstance(value, int) else value for name, value in fields.items()}


def pads_of(b: Builder, op: Operator, kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """The pads before and behind each axis."""
    rank = len(kernel)
    auto, ones = op.get("auto_pad", "NOTSET"), [1] * rank
    if auto == "NOTSET":
        pads = op.get("pads") or [0] * 2 * rank
        return list(pads[:rank]), list(pads[rank:])
    if auto == "VALID":
        return [0] * rank, [0] * rank
    sizes, strides, dilations = b.shape(op.inputs[0])[2:], op.get("strides") or ones, op.get("dilations") or ones
    totals = [
        max((math.ceil(size / s) - 1) * s + d * (k - 1) + 1 - size, 0)
        for size, s, d, k in zip(sizes, strides, dilations, kernel, strict=True)
    ]
    less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (more, less) if auto == "SAME_LOWER" else (less, more)


def padded(b: Builder, op: Operator, x: str, before: Sequence[int], behind: Sequence[int], value: float = 0) -> str:
    """Images with a border; negative numbers cut it off."""
    if not any((*before, *behind)):
        return x
    if len(before) != 2:
        raise Unsupported(op, "pads that differ by side, of other than two axes", "pad symmetrically")
    sides = {"pad_t": before[0], "pad_b": behind[0], "pad_l": before[1], "pad_r": behind[1]}
    fields = {name: int(pad) for name, pad in sides.items() if pad}
    return b.add("Padding", [x], suffix="pad", padding_param=fields | ({"value": value} if value else {}))


def weights(b: Builder, op: Operator) -> tuple[np.ndarray, np.ndarray | None]:
    """The constant weight and bias of an operator."""
    weight, bias = b.constant(op, 1), b.constant(op, 2)
    if weight is None or (bias is None and len(op.inputs) > 2 and op.inputs[2]):
        raise Unsupported(op, "its weights are computed in the net", "fold constants: onnxsim, or onnxruntime")
    return weight, bias


@translates("Conv")
def convolution(b: Builder, op: Operator) -> list[str]:
    weight, bias = weights(b, op)
    kernel = weight.shape[2:]
    before, behind = pads_of(b, op, kernel)
    x, pads = b.x(op), before
    if before != behind:
        x, pads = padded(b, op, x, before, behind), [0] * len(kernel)
    fields = _kernel_fields(op, kernel, pads)
    fields["num_output"] = weight.shape[0]
    if op.get("group", 1) != 1:
        fields["group"] = op.get("group")
    if bias is None:
        fields["bias_term"] = False
    return [b.add("Convolution", [x], [weight, *([] if bias is None else [bias])], convolution_param=fields)]


def _kernel_fields(op: Operator, kernel: Sequence[int], pads: Sequence[int]) -> dict[str, Any]:
    ones = [1] * len(kernel)
    fields = per_axis("kernel_size", kernel) | per_axis("stride", op.get("strides") or ones, 1)
    fields |= per_axis("pad", pads, 0) | per_axis("dilation", op.get("dilations") or ones, 1)
    return repeated(fields, "kernel_size", "stride", "pad", "dilation")


@translates("ConvTranspose")
def deconvolution(b: Builder, op: Operator) -> list[str]:
    weight, bias = weights(b, op)
    kernel, size, made = weight.shape[2:], b.shape(op.inputs[0])[2:], b.shape(op.outputs[0])[2:]
    ones = [1] * len(kernel)
    strides, dilations = op.get("strides") or ones, op.get("dilations") or ones
    extra = op.get("output_padding") or [0] * len(kernel)
    full = [s * (n - 1) + d * (k - 1) + 1 for s, n, d, k in zip(strides, size, dilations, kernel, strict=True)]
    if op.get("auto_pad", "NOTSET") == "NOTSET" and not op.get("output_shape"):
        before = list((op.get("pads") or [0] * 2 * len(kernel))[: len(kernel)])
    else:
        totals = [n + e - o for n, e, o in zip(full, extra, made, strict=True)]
        upper = op.get("auto_pad") == "SAME_UPPER"
        before = [total // 2 if upper else total - total // 2 for total in totals]
    behind = [n - o - pad for n, o, pad in zip(full, made, before, strict=True)]
    group = op.get("group", 1)
    fields: dict[str, Any] = {"num_output": weight.shape[1] * group} | ({"group": group} if group != 1 else {})
    if before == behind:
        fields |= _kernel_fields(op, kernel, before) | ({"bias_term": False} if bias is None else {})
        params = [weight, *([] if bias is None else [bias])]
        return [b.add("Deconvolution", [b.x(op)], params, convolution_param=fields)]
    fields |= _kernel_fields(op, kernel, [0] * len(kernel)) | {"bias_term": False}
    y = b.add("Deconvolution", [b.x(op)], [weight], convolution_param=fields)
    y = padded(b, op, y, [-pad for pad in before], [-pad for pad in behind])
    return [y if bias is None else b.add("Bias", [y], [bias], suffix="bias")]


@translates("MaxPool", "AveragePool")
def pooling(b: Builder, op: Operator) -> list[str]:
    if len([name for name in op.outputs[1:] if name]) > 0 and any(
        name in other.inputs for name in op.outputs[1:] for other in b.traced.operators
    ):
        raise Unsupported(op, "the places of its winners are read", "export the net before MaxUnpool")
    kernel, ones = op.get("kernel_shape"), [1] * len(op.get("kernel_shape"))
    before, behind = pads_of(b, op, kernel)
    strides, average = op.get("strides") or ones, op.kind == "AveragePool"
    dilations = op.get("dilations") or ones
    if set(kernel) | set(strides) == {1} and not any((*before, *behind)):
        return [b.x(op)]
    kinds = pb.PoolingParameter
    excludes = average and not op.get("count_include_pad", 0) and any((*before, *behind))
    method = kinds.AVE_EXC_PAD if excludes else kinds.AVE if average else kinds.MAX
    fields = {"pool": method, **per_axis("kernel_size", kernel), **per_axis("stride", strides, 1)}
    x = b.x(op)
    if before == behind:
        fields |= per_axis("pad", before, 0)
    elif len(kernel) == 2:
        sides = {"pad_t": before[0], "pad_b": behind[0], "pad_l": before[1], "pad_r": behind[1]}
        fields |= {name: int(pad) for name, pad in sides.items() if pad}
    else:
        raise Unsupported(op, "pads that differ by side, of other than two axes", "pad symmetrically")
    if set(dilations) != {1}:
        if average:
            raise Unsupported(op, "a mean of windows with gaps", "use a depthwise convolution")
        fields["dilation"] = list(dilations)
    if not op.get("ceil_mode", 0):
        fields["round_mode"] = kinds.FLOOR
    return [b.add("Pooling", [x], pooling_param=fields)]


@translates("GlobalAveragePool", "GlobalMaxPool")
def global_pooling(b: Builder, op: Operator) -> list[str]:
    method = pb.PoolingParameter.AVE if op.kind == "GlobalAveragePool" else pb.PoolingParameter.MAX
    return [b.add("Pooling", [b.x(op)], pooling_param={"pool": method, "global_pooling": True})]


@translates("Pad")
def pad(b: Builder, op: Operator) -> list[str]:
    shape, mode = b.shape(op.inputs[0]), op.get("mode", "constant")
    pads, value = constant_pads(op, b.traced)
    rank = len(shape)
    if not any(pads):
        return [b.x(op)]
    if mode == "constant":
        axes = [axis for axis in range(rank) if pads[axis] or pads[axis + rank]]
        if rank != 4 or len(axes) > 2 or 0 in axes:
            raise Unsupported(op, "it pads the batch, or other than two axes of images", "pad images alone")
        last = axes if len(axes) == 2 else [2, 3] if axes[0] > 1 else [1, 3]
        order = [axis for axis in range(rank) if axis not in last] + last
        x = permuted(b, b.x(op), order, "order")
        x = padded(b, op, x, [pads[axis] for axis in last], [pads[axis + rank] for axis in last], value)
        return [permuted(b, x, [order.index(axis) for axis in range(rank)], "back")]
    if mode not in ("edge", "reflect", "wrap") or min(pads) < 0:
        raise Unsupported(op, f"its mode is {mode}", "pad with zeros")
    x, sizes = b.x(op), list(shape)
    for axis in (axis for axis in range(rank) if pads[axis] or pads[axis + rank]):
        if axis == b.traced.batch_axis.get(op.inputs[0]):
            raise Unsupported(op, "it pads the batch", "pad images alone")
        numbers = np.pad(np.arange(sizes[axis]), (pads[axis], pads[axis + rank]), mode)
        x = chosen(b, x, axis, numbers.tolist(), sizes[axis])
    return [x]


@translates("LRN")
def lrn(b: Builder, op: Operator) -> list[str]:
    fields = {"local_size": op.get("size"), "alpha": op.get("alpha", 1e-4), "beta": op.get("beta", 0.75)}
    if op.get("bias", 1.0) != 1:
        fields["k"] = op.get("bias")
    return [b.add("LRN", [b.x(op)], lrn_param=fields)]


@translates("Resize", "Upsample")
def resize(b: Builder, op: Operator) -> list[str]:
    before, after = b.shape(op.inputs[0]), b.shape(op.outputs[0])
    if before == after:
        return [b.x(op)]
    if len(before) != 4 or before[:2] != after[:2]:
        raise Unsupported(op, "it resizes other axes than height and width")
    usual = (
        "half_pixel" if op.kind == "Resize" and "coordinate_transformation_mode" not in op.attributes else "asymmetric"
    )
    where, mode = op.get("coordinate_transformation_mode", usual), op.get("mode", "nearest")
    size = {"height": after[2], "width": after[3]}
    if mode == "nearest":
        return [_nearest(b, op, where, after)]
    even = after[2] * before[3] == after[3] * before[2]
    if mode == "linear" and where == "align_corners":
        return [b.add("Interp", [b.x(op)], interp_param=size)]
    if mode == "linear" and where in ("half_pixel", "pytorch_half_pixel") and even and after[2] > 1 < after[3]:
        return [b.add("Resample", [b.x(op)], resample_param={**size, "antialias": bool(op.get("antialias", 0))})]
    if op.get("keep_aspect_ratio_policy", "stretch") != "stretch" or where == "tf_crop_and_resize":
        raise Unsupported(op, f"mode {mode} with {where}", "resize the whole image to a size")
    return [_by_products(b, op, before, after)]


def _by_products(b: Builder, op: Operator, before: Sequence[int], after: Sequence[int]) -> str:
    """Images of any size, each pixel a sum over those of its row and its column, as products with two matrices."""
    x = b.x(op)
    for axis in (axis for axis in (3, 2) if before[axis] != after[axis]):
        weight = _shares(b, op, axis, before[axis], after[axis]).T
        fields = {"num_output": after[axis], "axis": 3, "bias_term": False}
        turn = [0, 1, 3, 2] if axis == 2 else [0, 1, 2, 3]
        x = permuted(b, x, turn, "turned")
        x = b.add("InnerProduct", [x], [weight], suffix="axis", inner_product_param=fields, param=[FIXED])
        x = permuted(b, x, turn, "back")
    return x


def _shares(b: Builder, op: Operator, axis: int, size: int, made: int) -> np.ndarray:
    """What each pixel along an axis gives to each of the resized image (size, made): onnxruntime resizes images of
    which one pixel is 1."""
    onnx = import_onnx("reading ONNX files")
    index = 1 if b.traced.model.opset < 11 else 2
    scales, axes = b.constant(op, index), op.get("axes") or list(range(4))
    scale = made / size
    if scales is not None and scales.size == len(axes) and axis in axes:
        scale = float(scales[axes.index(axis)])
    attributes = {name: value for name, value in op.attributes.items() if name != "axes"}
    kept = ["x"] if index == 1 else ["x", "roi"]
    node = onnx.helper.make_node(op.kind, [*kept, "scales"], ["y"], **attributes)
    arrays = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 1, scale], np.float32)}
    graph = onnx.helper.make_graph(
        [node],
        "resize",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 1, size, size])],
        [onnx.ValueInfoProto(name="y")],
        [onnx.numpy_helper.from_array(arrays[name], name) for name in (*kept[1:], "scales")],
    )
    versions = [onnx.helper.make_opsetid("", b.traced.model.opset)]
    proto = onnx.helper.make_model(graph, opset_imports=versions, ir_version=8)
    found = plain_runner(proto).outputs({"x": np.eye(size, dtype=np.float32)[None, None]})["y"][0, 0]
    if found.shape != (size, made):
        raise Unsupported(op, f"a factor of {scale:g} from {size} to {made}", "give sizes in place of factors")
    return found


def _nearest(b: Builder, op: Operator, where: str, after: tuple[int, ...]) -> str:
    before, nearest = b.shape(op.inputs[0]), op.get("nearest_mode", "round_prefer_floor")
    whole = all(n % m == 0 for n, m in zip(after[2:], before[2:], strict=True))
    factors = [n // m for n, m in zip(after[2:], before[2:], strict=True)]
    floors = where == "asymmetric" and (nearest == "floor" or op.kind == "Upsample")
    centered = where in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
    if whole and len(set(factors)) == 1 and factors[0] > 1 and (floors or centered and nearest.startswith("round")):
        return b.add("Upsample", [b.x(op)], upsample_param={"scale": factors[0]})
    fields = {"output_height": after[2], "output_width": after[3], "data_format": "NCHW"}
    if floors:
        return b.add("ResizeNearestNeighbor", [b.x(op)], resize_nearest_neighbor_param=fields)
    if where == "align_corners" and nearest.startswith("round"):
        fields["align_corners"] = True
        return b.add("ResizeNearestNeighbor", [b.x(op)], resize_nearest_neighbor_param=fields)
    raise Unsupported(op, f"nearest neighbors with {where} and {nearest}", "resize by whole factors")


@translates("DepthToSpace", "SpaceToDepth")
def blocks(b: Builder, op: Operator) -> list[str]:
    size, (_, c, h, w) = op.get("blocksize"), b.shape(op.inputs[0])
    if op.kind == "SpaceToDepth":
        dims, order = [0, c, h // size, size, w // size, size], [0, 3, 5, 1, 2, 4]
    elif op.get("mode", "DCR") == "CRD":
        return [b.add("PixelShuffle", [b.x(op)], pixel_shuffle_param={"upscale_factor": size})]
    else:
        dims, order = [0, size, size, c // size**2, h, w], [0, 3, 4, 1, 5, 2]
    y = b.add("Reshape", [b.x(op)], suffix="split", reshape_param={"shape": {"dim": dims}})
    y = b.add("Permute", [y], suffix="order", permute_param={"order": order})
    return [b.add("Reshape", [y], reshape_param={"shape": {"dim": [0, *b.shape(op.outputs[0])[1:]]}})]
