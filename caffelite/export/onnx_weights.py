"""The weights of an ONNX net, as its operators use them: transposed, scaled and named by module, with the attributes
that a layer must share.

Operators and their attributes: onnx.ai/onnx/operators.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import CaffeliteError
from ..layers.batch_norm import BatchNorm
from ..layers.convolution import Kernels
from ..net.nodes import Node
from .onnx_nodes import attributes_of
from .writer import import_onnx

# What each input after the first is, of operators whose weights a layer can take
INPUTS = {
    "Conv": ("weight", "bias"),
    "ConvTranspose": ("weight", "bias"),
    "Gemm": ("weight", "bias"),
    "MatMul": ("weight",),
    "PRelu": ("weight",),
    "BatchNormalization": ("weight", "bias", "running_mean", "running_var"),
}
# Of no consequence to what an operator computes, but for the tensors that are checked anyway
WITHOUT_EFFECT = {"momentum", "kernel_shape"}
COPIES = ("Identity", "Transpose")
ARITHMETIC = ("Add", "Sub", "Mul", "Div")


class Unreadable(Exception):
    """What an ONNX file holds that is not read; the text says what."""


@dataclass(frozen=True)
class Use:
    """The operator that uses a module's tensors. attributes: those that it does not apply to the tensors."""

    operator: str
    name: str
    attributes: Mapping[str, Any]

    def __str__(self) -> str:
        return f'the {self.operator} "{self.name}"'


class OnnxTensors(dict[str, np.ndarray]):
    """Tensors as modules of PyTorch name them, MODULE.weight and MODULE.bias. uses: of the modules; ``left``: sums and
    products with constants, which belong to no module, by the constants' names."""

    def __init__(self) -> None:
        self.uses: dict[str, Use] = {}
        self.left: dict[str, Use] = {}

    def check_left(self) -> None:
        """Errors: a sum or product that is no bias, so that no layer computes it."""
        for name, use in self.left.items():
            what = f'no layer takes the values "{name}" of {use}'
            raise CaffeliteError(what, remedy="export the net with its constants folded into the layers before them")


def read(data: bytes) -> OnnxTensors:
    """The tensors of an ONNX net in the order of its operators. Errors: Unreadable."""
    from google.protobuf.message import DecodeError

    onnx = import_onnx("reading ONNX files")
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:
        raise Unreadable("none of these") from None
    constants, origins = _constants(onnx, model.graph)
    if not constants:
        raise Unreadable("no tensors")
    tensors, taken = OnnxTensors(), set()
    inputs = {_text(value.name) for value in model.graph.input} - constants.keys()
    makers: dict[str, str] = {}  # the module of each blob that an operator with weights makes
    for node in model.graph.node:
        if node.op_type in ARITHMETIC:
            taken.update(_read_arithmetic(node, constants, tensors, makers, inputs))
        names, module = _read_node(onnx, node, constants, origins, tensors)
        taken.update((*names, *(origins.get(name, name) for name in names)))
        if module and node.op_type != "ConvTranspose":
            makers[node.output[0]] = module
    for name, values in constants.items():
        if name not in taken and name not in origins:
            tensors.setdefault(name, values)
    return tensors


def _text(value: str | bytes) -> str:
    """A name. Errors: it is not in UTF-8, which protobuf hands out as bytes."""
    if isinstance(value, bytes):
        raise Unreadable(f"a name that is not in UTF-8, {value!r}")
    return value


def _constants(onnx: Any, graph: Any) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The values by name that do not depend on the net's inputs: initializers, constants, and copies
    of them; and what each copy is of."""
    constants: dict[str, np.ndarray] = {}
    origins: dict[str, str] = {}
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise Unreadable("values in a second file; save the ONNX net as one file")
        constants[_text(tensor.name)] = _values(onnx, tensor)
    if len(graph.sparse_initializer):
        raise Unreadable("sparse tensors")
    for node in graph.node:
        names = [_text(name) for name in (*node.input, *node.output, node.name)]
        attributes = attributes_of(onnx, node)
        if node.op_type == "Constant" and isinstance(attributes.get("value"), np.ndarray):
            constants[names[0]] = _plain(attributes["value"])
        elif node.op_type in COPIES and names and names[0] in constants:
            values = constants[names[0]]
            if node.op_type == "Transpose":
                values = values.transpose(attributes.get("perm", range(values.ndim)[::-1]))
            constants[names[1]] = values
            origins[names[1]] = origins.get(names[0], names[0])
    return constants, origins


def _values(onnx: Any, tensor: Any) -> np.ndarray:
    return _plain(onnx.numpy_helper.to_array(tensor))


def _plain(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32) if values.dtype.kind == "f" else values


def _read_node(
    onnx: Any, node: Any, constants: Mapping[str, np.ndarray], origins: Mapping[str, str], tensors: OnnxTensors
) -> tuple[list[str], str]:
    """Adds the tensors that an operator uses under the name of its module. Returns the names of constants that it
    takes, and the module; none and "" where it has no weights."""
    kinds = INPUTS.get(node.op_type)
    if kinds is None or len(node.input) < 2 or node.input[1] not in constants:
        return [], ""
    names = [name for name in node.input[1:] if name]
    if unknown := [name for name in names if name not in constants]:
        raise Unreadable(f'weights that are computed, "{unknown[0]}"')
    module = _module(node, [origins.get(name, name) for name in names])
    attributes = attributes_of(onnx, node)
    values = dict(zip(kinds, (constants[name] for name in names), strict=False))
    for kind, array in _applied(node.op_type, attributes, values).items():
        tensors[f"{module}.{kind}"] = array
    tensors.uses[module] = Use(node.op_type, _text(node.name) or _text(node.output[0]), attributes)
    return names, module


def _read_arithmetic(
    node: Any, constants: Mapping[str, np.ndarray], tensors: OnnxTensors, makers: Mapping[str, str], inputs: set[str]
) -> list[str]:
    """A sum with a constant behind weights is their bias; other values are ``left``, but for those that a picture is
    normalized by. Returns the names of constants that it takes."""
    known = [name for name in node.input if name in constants]
    blobs = [name for name in node.input if name not in constants]
    if len(known) != 1 or len(blobs) != 1 or constants[known[0]].size < 2:
        return []
    values, module = constants[known[0]], makers.get(blobs[0], "")
    if node.op_type == "Add" and module and f"{module}.bias" not in tensors:
        channels = tensors[f"{module}.weight"].shape[0]
        if values.size == channels and max(values.shape) == channels:
            tensors[f"{module}.bias"] = values.reshape(-1)
            return known
    if blobs[0] not in inputs and values.dtype.kind == "f":
        tensors.left[known[0]] = Use(node.op_type, _text(node.name) or _text(node.output[0]), {})
    return []


def _module(node: Any, names: Sequence[str]) -> str:
    """The module's name: what PyTorch's exporter put before .weight, else the operator's."""
    prefix, dot, kind = names[0].rpartition(".")
    if dot and all(name.rpartition(".")[0] == prefix for name in names):
        return prefix
    return _text(node.name) or _text(node.output[0])


def _applied(operator: str, attributes: dict[str, Any], values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors with the attributes that change them; these are removed. Errors: one that no layer can have."""
    if operator == "MatMul":
        if values["weight"].ndim != 2:
            raise Unreadable(f"a MatMul by weights of {values['weight'].ndim} axes")
        return {"weight": values["weight"].T}
    if operator == "PRelu":
        return {"weight": values["weight"].reshape(-1)}
    if operator != "Gemm":
        return values
    if attributes.pop("transA", 0):
        raise Unreadable("a Gemm with transA")
    alpha, beta = attributes.pop("alpha", 1.0), attributes.pop("beta", 1.0)
    weight = values["weight"] if attributes.pop("transB", 0) else values["weight"].T
    made = {"weight": weight if alpha == 1 else weight * np.float32(alpha)}
    if "bias" in values:
        bias = np.broadcast_to(values["bias"].reshape(-1), (len(weight),))
        made["bias"] = bias if beta == 1 else bias * np.float32(beta)
    return made


def check(node: Node, use: Use) -> None:
    """Errors: a layer that computes otherwise than the operator whose weights it takes."""
    for name, found, wanted, field in _differences(node, use):
        what = f"{use}, whose weights it takes, has another {name}"
        raise node.layer.error(what, field, expected=_shown(wanted), found=_shown(found))


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _differences(node: Node, use: Use) -> list[tuple[str, Any, Any, str]]:
    """(attribute, the layer's value, the operator's, the field) of each that differs."""
    layer, given = node.layer, dict(use.attributes)
    for name in WITHOUT_EFFECT:
        given.pop(name, None)
    found: dict[str, tuple[Any, Any, str]] = {}
    if isinstance(layer, BatchNorm):
        found["epsilon"] = float(layer.p.eps), float(given.pop("epsilon", 1e-5)), "eps"
        for name, usual in (("training_mode", 0), ("spatial", 1), ("is_test", 1)):
            found[name] = usual, given.pop(name, usual), ""
    elif use.operator in ("Conv", "ConvTranspose"):
        found |= _window(layer, given) if isinstance(layer, Kernels) else _plain_window(given)
    found |= {name: (None, value, "") for name, value in given.items()}
    return [(name, *values) for name, values in found.items() if not _equal(*values[:2])]


def _equal(one: Any, other: Any) -> bool:
    return math.isclose(one, other, rel_tol=1e-5) if isinstance(one, float) else one == other


def _plain_window(given: dict[str, Any]) -> dict[str, tuple[Any, Any, str]]:
    """Of a convolution that an inner product computes; takes what it compares from ``given``."""
    usual = {"strides": 1, "dilations": 1, "pads": 0, "group": 1, "output_padding": 0}
    given.pop("auto_pad", None)  # of a 1×1 kernel with stride 1 it pads nothing
    return {name: ({value}, set(np.ravel(given.pop(name, value)).tolist()), "") for name, value in usual.items()}


def _window(layer: Kernels, given: dict[str, Any]) -> dict[str, tuple[Any, Any, str]]:
    """Of a convolution; takes what it compares from ``given``."""
    k = layer.window
    ones = [1] * len(k.kernel)
    strides, dilations = given.pop("strides", ones), given.pop("dilations", ones)
    pads, auto = given.pop("pads", [0] * 2 * len(ones)), given.pop("auto_pad", "NOTSET")
    if auto != "NOTSET":
        pads = _automatic_pads(layer, auto, strides, dilations)
    outputs = layer.x_shape[1] if layer.spec.type != "Deconvolution" else layer.y_shape[1]
    return {
        "strides": (list(k.stride), list(strides), "stride"),
        "pads": ([*k.pad, *k.pad], list(pads), "pad"),
        "dilations": (list(k.dilation), list(dilations), "dilation"),
        "group": (outputs // layer.param_blobs[0].shape[1], given.pop("group", 1), "group"),
        "output_padding": ([0] * len(ones), list(given.pop("output_padding", [0] * len(ones))), ""),
    }


def _automatic_pads(layer: Kernels, kind: str, strides: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """The padding that auto_pad means: SAME_UPPER, SAME_LOWER or VALID."""
    totals = [
        max((math.ceil(size / stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0) if kind != "VALID" else 0
        for size, stride, dilation, kernel in zip(
            layer.x_shape[2:], strides, dilations, layer.window.kernel, strict=True
        )
    ]
    less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return [*more, *less] if kind == "SAME_LOWER" else [*less, *more]
