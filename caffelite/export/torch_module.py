"""Writes a deploy net as a Python file with an nn.Module, one line for each layer, and its weights as tensors."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Mistakes
from ..layers.base.feeding import Feeding
from ..net.graph import Graph, Node, Value
from ..net.net import Net
from ..proof.runners import outputs_of
from .free_names import free_name
from .tensor_files import Tensors


@dataclass
class Line:
    """What a layer becomes: ``module``, the expression that makes it ("" for a function); ``call`` of the bottoms {0},
    {1}, {module}; tensors: of its state, by their names in the module."""

    call: str
    module: str = ""
    tensors: Tensors = field(default_factory=dict)


Form = Callable[[Node, list[np.ndarray]], Line]
FORMS: dict[str, Form] = {}
HEAD = '''"""{title}, made by caffelite export. Weights: {weights} in the same folder.

    net = Net.load()      # in evaluation; net.train() for dropout and batch norm
    scores = net({arguments})
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

DTYPES = {{"F32": torch.float32, "I64": torch.int64}}  # of the file of weights


class Scale(nn.Module):
    """y = x * weight + bias along some axes; either may be missing."""

    def __init__(self, shape, scales=True, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape)) if scales else None
        self.bias = nn.Parameter(torch.zeros(shape)) if bias else None

    def forward(self, x):
        x = x if self.weight is None else x * self.weight
        return x if self.bias is None else x + self.bias


class Net(nn.Module):
    def __init__(self):
        super().__init__()
{modules}

    def forward(self, {arguments}):
{calls}
        return {result}

    @classmethod
    def load(cls, file=Path(__file__).with_name("{weights}")):
        """The net with its weights, in evaluation."""
        data = bytearray(Path(file).read_bytes())
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start])
        header.pop("__metadata__", None)
        tensors = {{}}
        for name, entry in header.items():
            first, last = (start + offset for offset in entry["data_offsets"])
            values = torch.frombuffer(data[first:last], dtype=DTYPES[entry["dtype"]])
            tensors[name] = values.reshape(entry["shape"])
        net = cls()
        net.load_state_dict(tensors)
        return net.eval()
'''


def form(*kinds: str) -> Callable[[Form], Form]:
    def register(function: Form) -> Form:
        FORMS.update(dict.fromkeys(kinds, function))
        return function

    return register


def _call(text: str) -> Form:
    return lambda node, params: Line(text)


for _kind, _text in {
    "Sigmoid": "torch.sigmoid({0})",
    "TanH": "torch.tanh({0})",
    "AbsVal": "torch.abs({0})",
    "BNLL": "F.softplus({0}, threshold=50)",
    "ReLU6": "F.relu6({0})",
    "HardSwish": "F.hardswish({0})",
    "Mish": "F.mish({0})",
    "GELU": "F.gelu({0})",
    "MatMul": "{0} @ {1}",
    "Axpy": "{0}.flatten(1)[..., None, None] * {1} + {2}",
    "Silence": "",
}.items():
    FORMS[_kind] = _call(_text)


def _named(params: list[np.ndarray]) -> Tensors:
    return dict(zip(("weight", "bias"), params, strict=False))


def _options(**values: tuple[Any, Any]) -> str:
    """Arguments that differ from torch's defaults: (value, default)."""
    return "".join(f", {name}={value!r}" for name, (value, usual) in values.items() if value != usual)


def _one(values: Any) -> Any:
    values = tuple(map(int, values))
    return values[0] if len(set(values)) == 1 else values


@form("Convolution", "Deconvolution", "DepthwiseConvolution", "ConvolutionDepthwise")
def _kernels(node: Node, params: list[np.ndarray]) -> Line:
    layer: Any = node.layer
    k, x, y = layer.window, node.bottoms[0].shape, node.tops[0].shape
    if not 1 <= len(x) - 2 <= 3 or len(node.bottoms) > 1:
        raise _cannot(node, "such axes")
    kind = "ConvTranspose" if node.layer.spec.type == "Deconvolution" else "Conv"
    group = (y if kind == "ConvTranspose" else x)[1] // params[0].shape[1]
    arguments = _options(
        stride=(_one(k.stride), 1),
        padding=(_one(k.pad), 0),
        dilation=(_one(k.dilation), 1),
        groups=(group, 1),
        bias=(len(params) > 1, True),
    )
    return Line("{module}({0})", f"nn.{kind}{len(x) - 2}d({x[1]}, {y[1]}, {_one(k.kernel)}{arguments})", _named(params))


@form("InnerProduct")
def _linear(node: Node, params: list[np.ndarray]) -> Line:
    axis, shape = node.layer.axis(node.layer.p.axis, len(node.bottoms[0].shape)), node.bottoms[0].shape
    if len(node.bottoms) > 1 or node.layer.p.normalize:
        raise _cannot(node, "weights of another blob, or normalized ones")
    if node.layer.p.transpose:
        params = [np.ascontiguousarray(params[0].T), *params[1:]]
    made = f"nn.Linear({params[0].shape[1]}, {params[0].shape[0]}{_options(bias=(len(params) > 1, True))})"
    flat = "" if axis == len(shape) - 1 else f".flatten({axis})"
    return Line("{module}({0}" + flat + ")", made, _named(params))


@form("Pooling")
def _pooling(node: Node, params: list[np.ndarray]) -> Line:
    layer: Any = node.layer
    rank = len(node.bottoms[0].shape) - 2
    if layer.method == "STOCHASTIC" or len(node.tops) > 1 or rank not in (1, 2, 3) or layer.spec.pooling_param.dilation:
        raise _cannot(node, "this pooling")
    if layer.p.global_pooling:
        return Line(f"F.adaptive_{'max' if layer.method == 'MAX' else 'avg'}_pool{rank}d({{0}}, 1)")
    k = layer.window
    if tuple(layer.pad_after) != tuple(k.pad) or any(2 * pad > size for pad, size in zip(k.pad, k.kernel, strict=True)):
        raise _cannot(node, "pads that differ by side or are more than half the kernel")
    arguments = _options(stride=(_one(k.stride), None), padding=(_one(k.pad), 0), ceil_mode=(bool(layer.up), False))
    if layer.method == "AVE" and layer.excludes_pad:
        arguments += ", count_include_pad=False"
    return Line(f"F.{'max' if layer.method == 'MAX' else 'avg'}_pool{rank}d({{0}}, {_one(k.kernel)}{arguments})")


@form("ReLU")
def _relu(node: Node, params: list[np.ndarray]) -> Line:
    slope = node.layer.p.negative_slope
    return Line(f"F.leaky_relu({{0}}, {slope:.9g})" if slope else "F.relu({0})")


@form("PReLU")
def _prelu(node: Node, params: list[np.ndarray]) -> Line:
    return Line("{module}({0})", f"nn.PReLU({params[0].size})", {"weight": params[0].reshape(-1)})


@form("ELU")
def _elu(node: Node, params: list[np.ndarray]) -> Line:
    return Line(f"F.elu({{0}}, {node.layer.p.alpha:.9g})")


@form("Swish")
def _swish(node: Node, params: list[np.ndarray]) -> Line:
    beta = node.layer.p.beta
    return Line("F.silu({0})" if beta == 1 else f"{{0}} * torch.sigmoid({beta:.9g} * {{0}})")


@form("Clip")
def _clip(node: Node, params: list[np.ndarray]) -> Line:
    return Line(f"torch.clamp({{0}}, {node.layer.p.min:.9g}, {node.layer.p.max:.9g})")


@form("Power")
def _power(node: Node, params: list[np.ndarray]) -> Line:
    p, text = node.layer.p, "{0}"
    text = f"{text} * {p.scale:.9g}" if p.scale != 1 else text
    text = f"{text} + {p.shift:.9g}" if p.shift else text
    return Line(f"({text}) ** {p.power:.9g}" if p.power != 1 else text)


@form("Exp", "Log")
def _exp(node: Node, params: list[np.ndarray]) -> Line:
    p = node.layer.p
    base, inner = 1.0 if p.base == -1 else math.log(p.base), f"{{0}} * {p.scale:.9g} + {p.shift:.9g}"
    if node.layer.spec.type == "Exp":
        return Line(f"torch.exp(({inner}) * {base:.9g})")
    return Line(f"torch.log({inner}) / {base:.9g}")


@form("Dropout")
def _dropout(node: Node, params: list[np.ndarray]) -> Line:
    if not node.layer.p.scale_train:
        raise _cannot(node, "scale_train: false")
    return Line("{module}({0})", f"nn.Dropout({node.layer.p.dropout_ratio:.9g})")


@form("LRN")
def _lrn(node: Node, params: list[np.ndarray]) -> Line:
    p = node.layer.p
    if p.norm_region == pb.LRNParameter.WITHIN_CHANNEL:
        raise _cannot(node, "WITHIN_CHANNEL")
    values = f"{p.local_size}, alpha={p.alpha:.9g}, beta={p.beta:.9g}, k={p.k:.9g}"
    return Line(f"F.local_response_norm({{0}}, {values})")


@form("BatchNorm")
def _batch_norm(node: Node, params: list[np.ndarray]) -> Line:
    p, rank = node.layer.p, len(node.bottoms[0].shape)
    if rank not in (2, 3, 4, 5):
        raise _cannot(node, f"{rank} axes")
    factor = 1 / params[2][0] if params[2][0] else 0.0
    tensors = {"running_mean": params[0] * factor, "running_var": params[1] * factor}
    tensors["num_batches_tracked"] = np.array(0, np.int64)
    affine = len(params) == 5
    if len(params) == 4:
        raise _cannot(node, "a scale without a bias")
    tensors |= {"weight": params[3], "bias": params[4]} if affine else {}
    dims = {2: 1, 3: 1, 4: 2, 5: 3}[rank]
    more = _options(affine=(affine, True))
    made = f"nn.BatchNorm{dims}d({len(params[0])}, eps={p.eps:.9g}, momentum={1 - p.moving_average_fraction:.6g}{more})"
    return Line("{module}({0})", made, tensors)


@form("GroupNorm")
def _group_norm(node: Node, params: list[np.ndarray]) -> Line:
    return Line(f"F.group_norm({{0}}, {node.layer.p.group_num}, eps={node.layer.p.eps:.9g})")


@form("Scale", "Bias")
def _scale(node: Node, params: list[np.ndarray]) -> Line:
    layer, rank = node.layer, len(node.bottoms[0].shape)
    axis, scales = layer.axis(layer.p.axis, rank, end=True), layer.spec.type == "Scale"
    if len(node.bottoms) == 2:
        if params:
            raise _cannot(node, "a learned bias with a second bottom")
        after = rank - axis - len(node.bottoms[1].shape) if node.bottoms[1].shape else 0
        return Line(
            f"{{0}} {'*' if scales else '+'} {{1}}" + (f"[..., {', '.join(['None'] * after)}]" if after else "")
        )
    shape = (*params[0].shape, *[1] * (rank - axis - params[0].ndim)) if params[0].ndim else ()
    arrays = [array.reshape(shape) for array in params]
    names = ("weight", "bias") if scales else ("bias",)
    more = _options(scales=(scales, True), bias=(not scales or len(params) > 1, True))
    return Line("{module}({0})", f"Scale({tuple(shape)}{more})", dict(zip(names, arrays, strict=False)))


@form("Eltwise")
def _eltwise(node: Node, params: list[np.ndarray]) -> Line:
    p, kinds, names = node.layer.p, pb.EltwiseParameter, [f"{{{i}}}" for i in range(len(node.bottoms))]
    if p.operation in (kinds.MAX, kinds.MIN):
        text = names[0]
        for name in names[1:]:
            text = f"torch.{'maximum' if p.operation == kinds.MAX else 'minimum'}({text}, {name})"
        return Line(text)
    if p.operation == kinds.SUM:
        names = [n if c == 1 else f"{c:.9g} * {n}" for n, c in zip(names, p.coeff or [1] * len(names), strict=True)]
    return Line({kinds.SUM: " + ", kinds.PROD: " * ", kinds.DIV: " / "}[p.operation].join(names))


@form("Concat")
def _concat(node: Node, params: list[np.ndarray]) -> Line:
    axis = node.layer.joint_axis(len(node.bottoms[0].shape))  # type: ignore[attr-defined]
    return Line(f"torch.cat([{', '.join(f'{{{i}}}' for i in range(len(node.bottoms)))}], {axis})")


@form("Slice")
def _slice(node: Node, params: list[np.ndarray]) -> Line:
    axis = node.layer.joint_axis(len(node.bottoms[0].shape))  # type: ignore[attr-defined]
    return Line(f"torch.split({{0}}, {[top.shape[axis] for top in node.tops]}, {axis})")


@form("Split")
def _split(node: Node, params: list[np.ndarray]) -> Line:
    return Line(", ".join(["{0}"] * len(node.tops)))


@form("Flatten", "Reshape", "Squeeze")
def _reshape(node: Node, params: list[np.ndarray]) -> Line:
    before, after = node.bottoms[0].shape, node.tops[0].shape
    batch = -1 if before[0] != after[0] else None
    sides = ["-1" if batch or not before else "{0}.shape[0]", *map(str, after[1:])]
    if len(after) == 2 and batch is None:
        return Line("{0}.flatten(1)")
    return Line(f"{{0}}.reshape({', '.join(sides)})")


@form("Permute", "Transpose")
def _permute(node: Node, params: list[np.ndarray]) -> Line:
    order = list(node.layer.p.order if node.layer.spec.type == "Permute" else node.layer.p.dim)
    rest = [axis for axis in range(len(node.bottoms[0].shape)) if axis not in order]
    return Line(f"{{0}}.permute({', '.join(map(str, [*order, *rest]))})")


@form("Softmax")
def _softmax(node: Node, params: list[np.ndarray]) -> Line:
    return Line(f"F.softmax({{0}}, {node.layer.axis(node.layer.p.axis, len(node.bottoms[0].shape))})")


@form("Reduction")
def _reduction(node: Node, params: list[np.ndarray]) -> Line:
    p, kinds = node.layer.p, pb.ReductionParameter
    axes = list(range(node.layer.axis(p.axis, len(node.bottoms[0].shape)), len(node.bottoms[0].shape)))
    x = {kinds.ASUM: "{0}.abs()", kinds.SUMSQ: "({0} ** 2)"}.get(p.operation, "{0}")
    text = f"{x}.{'mean' if p.operation == kinds.MEAN else 'sum'}({axes})"
    return Line(text if p.coeff == 1 else f"{text} * {p.coeff:.9g}")


@form("Padding")
def _padding(node: Node, params: list[np.ndarray]) -> Line:
    p = node.layer.p
    sides = [p.pad_l + p.pad_beg, p.pad_r + p.pad_end, p.pad_t + p.pad_beg, p.pad_b + p.pad_end]
    return Line(f"F.pad({{0}}, {sides}{_options(value=(p.value, 0.0))})")


@form("Tile")
def _tile(node: Node, params: list[np.ndarray]) -> Line:
    rank = len(node.bottoms[0].shape)
    axis = node.layer.axis(node.layer.p.axis, rank)
    return Line(f"{{0}}.repeat({', '.join(str(node.layer.p.tiles if i == axis else 1) for i in range(rank))})")


@form("ShuffleChannel")
def _shuffle(node: Node, params: list[np.ndarray]) -> Line:
    return Line(f"F.channel_shuffle({{0}}, {node.layer.p.group})")


@form("PixelShuffle")
def _pixel_shuffle(node: Node, params: list[np.ndarray]) -> Line:
    return Line(f"F.pixel_shuffle({{0}}, {node.layer.p.upscale_factor})")


@form("Interp")
def _interp(node: Node, params: list[np.ndarray]) -> Line:
    size = tuple(node.tops[0].shape[2:])
    p = node.layer.p
    if p.pad_beg or p.pad_end:
        raise _cannot(node, "pads")
    return Line(f'F.interpolate({{0}}, {size}, mode="bilinear", align_corners=True)')


def _cannot(node: Node, what: str) -> CaffeliteError:
    return node.layer.error(f"{what} cannot be written for PyTorch", remedy="export ONNX, which has more operators")


def parameters(net: Net) -> dict[str, list[np.ndarray]]:
    """The blobs of a net by layer, in float32."""
    return {
        node.name: [np.asarray(net.dev.download(param.data), np.float32) for param in node.layer.params]
        for node in net.graph.nodes
        if node.layer.params
    }


def write_module(graph: Graph, params: Mapping[str, list[np.ndarray]], weights: str) -> tuple[str, Tensors]:
    """(the text of the Python file, its tensors by their names in the module).

    graph: of a deploy net; params: as of `parameters`; weights: the name of the file with the tensors. Errors: all
    layers that have no form in PyTorch, in one error.
    """
    blobs = _Names({"self", "torch", "nn", "F", "Scale", "Net", "Path"})
    names: dict[str, str] = {}
    values: dict[Value, str] = {}
    tensors: Tensors = {}
    modules, calls, mistakes = [], [], []
    fields = _Names(
        set(dir(object)) | {"training", "forward", "load", "train", "eval", "type", "float", "half", "apply"}
    )
    for node in graph.nodes:
        if isinstance(node.layer, Feeding):
            names |= {value.name: blobs.new(value.name) for value in node.tops}
            values |= {value: names[value.name] for value in node.tops}
            continue
        if node.layer.spec.type not in FORMS:
            mistakes.append(_cannot(node, f"a layer of type {node.layer.spec.type}"))
            continue
        try:
            line = FORMS[node.layer.spec.type](node, list(params.get(node.name, [])))
        except CaffeliteError as mistake:
            mistakes.append(mistake)
            continue
        if mistakes:
            continue
        attribute = fields.new(node.name)
        bottoms = [values[bottom] for bottom in node.bottoms]
        if line.module:
            modules.append(f"        self.{attribute} = {line.module}")
        tensors |= {f"{attribute}.{name}": array for name, array in line.tensors.items()}
        if node.tops:
            for top in node.tops:  # in place: the blob keeps its name
                names.setdefault(top.name, "")
                names[top.name] = values[top] = names[top.name] or blobs.new(top.name)
            targets = ", ".join(values[top] for top in node.tops)
            calls.append(f"        {targets} = {line.call.format(*bottoms, module=f'self.{attribute}')}")
    if mistakes:
        raise mistakes[0] if len(mistakes) == 1 else Mistakes(mistakes)
    inputs = [values[value] for node in graph.feeds for value in node.tops]
    outputs = [values[value] for value in outputs_of(graph)]
    title = re.sub(r"[^\w .-]+", "_", graph.name or "net")
    text = HEAD.format(
        title=title,
        weights=weights,
        arguments=", ".join(inputs),
        modules="\n".join(modules) or "        pass",
        calls="\n".join(calls),
        result=", ".join(outputs),
    )
    return text, tensors


class _Names:
    """Names of Python for names of a net, each once."""

    def __init__(self, taken: set[str]):
        self.taken = set(taken)

    def new(self, name: str) -> str:
        import keyword

        plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "x"
        plain = f"_{plain}" if plain[0].isdigit() or keyword.iskeyword(plain) else plain
        return free_name(plain, self.taken)
