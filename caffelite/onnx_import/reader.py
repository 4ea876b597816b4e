"""Reads an ONNX file: its operators in their order, its constants, inputs and outputs. No code of the file runs.

Format: onnx.ai/onnx/repo-docs/IR.html.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import inputs, roots
from ..errors import CaffeliteError, reporting
from ..export.onnx_nodes import attributes_of
from ..export.writer import import_onnx

OPSETS = range(7, 27)
DOMAINS = ("", "ai.onnx")
MOST_OPERATORS = 100_000
# Of ai.onnx.ml, which scikit-learn's nets have before and behind them
PREPARERS = ("Scaler", "Normalizer", "Imputer", "OneHotEncoder", "FeatureVectorizer", "DictVectorizer", "Binarizer")
LABELERS = ("ZipMap", "ArrayFeatureExtractor", "LabelEncoder")
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, NotImplementedError)


@dataclass
class Operator:
    """A node of the graph. inputs: "" where one is left out. attributes: tensors as arrays, text as str."""

    kind: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f'{self.kind} "{self.name or self.outputs[0]}"'

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)


@dataclass
class Model:
    """A graph. inputs: shapes by name, None for an open axis; batch_axes: which axis of each counts samples;
    constants: initializers by name; opset: of the standard operators; proto: the message."""

    path: Path
    proto: Any
    opset: int
    operators: list[Operator]
    inputs: dict[str, tuple[int | None, ...]]
    outputs: list[str]
    constants: dict[str, np.ndarray]
    batch_axes: dict[str, int]


def is_onnx(data: bytes) -> bool:
    """Whether a file may be an ONNX net: it is no zip, no pickle, no .safetensors file."""
    return data[:4] != b"PK\x03\x04" and data[8:9] != b"{" and data[:1] != b"\x80"


def read(path: Path, data: bytes) -> Model:
    """The graph of an ONNX file with these bytes. Errors: CaffeliteError where it is damaged, or is no such file, or
    reads values from files outside of its folder."""
    onnx = import_onnx("reading ONNX files")
    with _damaged(onnx, path):
        proto = _parsed(onnx, path, data)
        _check(onnx, proto)
        return _model(onnx, proto, path)


def remodel(model: Model, proto: Any) -> Model:
    """A model of the same file with another graph."""
    onnx = import_onnx("reading ONNX files")
    with _damaged(onnx, model.path):
        _check(onnx, proto)
        return _model(onnx, proto, model.path)


def parse(path: Path, data: bytes) -> Any:
    """The message of an ONNX file with these bytes, with all values in it. Errors: as for `read`, but for operators
    that are no standard ones."""
    onnx = import_onnx("reading ONNX files")
    with _damaged(onnx, path):
        return _parsed(onnx, path, data)


def _parsed(onnx: Any, path: Path, data: bytes) -> Any:
    proto = onnx.ModelProto.FromString(data)
    if not proto.graph.node:
        raise ValueError("no graph")
    if not all(isinstance(name, str) for name in _names(proto.graph)):  # protobuf gives bytes
        raise ValueError("names that are no text")
    _load_values(onnx, proto, path)
    _write_erfc_as_erf(onnx, proto.graph)
    return proto


def _write_erfc_as_erf(onnx: Any, graph: Any) -> None:
    """tf2onnx leaves TensorFlow's Erfc, of Keras's gelu, which no runtime has: 1 - Erf."""
    nodes = []
    for node in graph.node:
        if node.op_type != "Erfc" or node.domain not in DOMAINS:
            nodes.append(node)
            continue
        one, erf = (f"{node.output[0]}/{part}" for part in ("one", "erf"))
        graph.initializer.append(onnx.numpy_helper.from_array(np.float32(1), one))
        nodes.append(onnx.helper.make_node("Erf", node.input, [erf], name=node.name))
        nodes.append(onnx.helper.make_node("Sub", [one, erf], node.output, name=f"{node.name}/opposite"))
    if len(nodes) > len(graph.node):
        del graph.node[:]
        graph.node.extend(nodes)


@contextmanager
def _damaged(onnx: Any, path: Path) -> Iterator[None]:
    from google.protobuf.message import DecodeError

    try:
        yield
    except CaffeliteError:
        raise
    except (DecodeError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError, *_DAMAGE) as error:
        found = str(error).strip().split("\n")[0] or type(error).__name__
        raise CaffeliteError(f"cannot read {path}", expected="a whole ONNX net", found=found[:300]) from None


def _check(onnx: Any, proto: Any) -> None:
    if len(proto.graph.node) > MOST_OPERATORS:
        raise ValueError(f"{len(proto.graph.node)} operators")
    if len(proto.functions) or any(node.domain not in DOMAINS for node in proto.graph.node):
        raise _of_another_domain(proto.graph)
    onnx.checker.check_model(proto)


def _of_another_domain(graph: Any) -> CaffeliteError:
    """The error for operators that are no standard ones, with what can be done about the first one."""
    named = next((node for node in graph.node if node.domain not in DOMAINS), None)
    what, remedy = "functions", "export it with the standard operators alone, without extensions"
    if named:
        what = f'the operator {named.op_type} "{named.name or named.output[0]}" of the domain "{named.domain}"'
    if named and named.domain == "ai.onnx.ml":
        remedy = "keep such a model in onnxruntime: layers are those of neural nets"
        if named.op_type in LABELERS:
            remedy = "it makes labels of scores: keep the scores alone, by onnx.utils.extract_model"
        elif named.op_type in PREPARERS:
            remedy = "it prepares the inputs: export the net without it, and do the same with the data"
    return CaffeliteError(f"the net has {what}", remedy=remedy)


def _model(onnx: Any, proto: Any, path: Path) -> Model:
    graph = proto.graph
    opset = next((entry.version for entry in proto.opset_import if entry.domain in DOMAINS), 0)
    if opset not in OPSETS:
        expected, remedy = f"opset {OPSETS[0]} to {OPSETS[-1]}", "export with opset_version=17"
        raise CaffeliteError(f"{path} is of another version of ONNX", expected=expected, found=opset, remedy=remedy)
    if len(graph.sparse_initializer):
        raise CaffeliteError(f"{path} has sparse tensors", remedy="export dense weights")
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    operators = []
    for node in graph.node:
        runs_graphs = any(len(attribute.graphs) or attribute.HasField("g") for attribute in node.attribute)
        if runs_graphs and node.op_type != "If":
            what = f'{node.op_type} "{node.name}" runs a graph of its own, as a loop of the program does'
            remedy = "export the net by tracing, for one fixed shape; Keras's recurrent layers with unroll=True"
            raise CaffeliteError(what, remedy=remedy)
        attributes = {} if runs_graphs else attributes_of(onnx, node)
        if node.op_type == "Constant":
            constants[node.output[0]] = _constant(attributes, node)
        else:
            operators.append(Operator(node.op_type, node.name, list(node.input), list(node.output), attributes))
    used = _read_names(graph)
    for unread in [value for value in graph.input if value.name not in used]:  # as tf2onnx leaves them
        graph.input.remove(unread)
    fed = {value.name: _dims(onnx, value) for value in graph.input if value.name not in constants}
    if not fed:
        raise CaffeliteError(f"{path} has no input", expected="an input for pictures or numbers")
    outputs, axes = [value.name for value in graph.output], _batch_axes(graph, fed)
    return Model(path, proto, opset, operators, fed, outputs, constants, axes)


def _names(graph: Any) -> Iterator[str | bytes]:
    """All names in a graph, and in graphs within it."""
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield value.name
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            if attribute.HasField("g"):
                yield from _names(attribute.g)


def _read_names(graph: Any) -> set[str]:
    """What operators and outputs read, also in the branches of the graph."""
    names = {value.name for value in graph.output}
    for node in graph.node:
        names.update(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                names |= _read_names(attribute.g)
    return names


def _constant(attributes: Mapping[str, Any], node: Any) -> np.ndarray:
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64)):
        if name in attributes:
            return np.array(attributes[name], dtype)
    value = attributes.get("value", attributes.get("value_ints"))
    if value is None:
        raise CaffeliteError(
            f'the Constant "{node.name}" holds no numbers', expected="value, value_ints or value_floats"
        )
    return np.asarray(value)


def _dims(onnx: Any, value: Any) -> tuple[int | None, ...]:
    kind = value.type.tensor_type
    if kind.elem_type not in (onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.INT32):
        name = onnx.TensorProto.DataType.Name(kind.elem_type)
        remedy = "export the net in float32: net.float()"
        raise CaffeliteError(f'the input "{value.name}" has another type', expected="FLOAT", found=name, remedy=remedy)
    return tuple(dim.dim_value if dim.dim_value > 0 else None for dim in kind.shape.dim)


def _batch_axes(graph: Any, fed: Mapping[str, tuple[int | None, ...]]) -> dict[str, int]:
    """The axis of samples of each input: the first one, or where it has a size, as of the first states of an LSTM, the
    one whose open size has the name of the other inputs' batch. Where all first axes have sizes, as of sequences (T, N,
    I), it is the only open size of all inputs, but for one input of one sample, whose steps may be open."""
    sizes = {value.name: [dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in graph.input}
    opened = {name: [axis for axis, dim in enumerate(dims) if dim is None] for name, dims in fed.items()}
    first = {sizes[name][0] for name, axes in opened.items() if axes[:1] == [0]}
    alone = {sizes[name][axes[0]] for name, axes in opened.items() if len(axes) == 1}
    if not first and len(alone) == 1 and all(len(axes) == 1 for axes in opened.values()):
        first = alone if len(fed) > 1 or next(iter(fed.values()))[0] != 1 else set()
    return {
        name: 0 if axes[:1] == [0] else next((axis for axis in axes if sizes[name][axis] in first), 0)
        for name, axes in opened.items()
    }


def _load_values(onnx: Any, proto: Any, path: Path) -> None:
    """Reads values that lie in other files of the folder of the net into the message. Errors: a file that lies
    elsewhere, also by a link; values beyond its end; more than one message can hold."""
    total = proto.ByteSize()
    for tensor in _tensors(proto.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        name, offset = entries.get("location", ""), int(entries.get("offset", 0))
        length = int(entries["length"]) if "length" in entries else None
        size = int(np.prod([float(dim) for dim in tensor.dims])) * _width(onnx, tensor)
        length = size if length is None else length
        if offset < 0 or length != size:
            what = f'the values of "{tensor.name}" in {name} do not fit its shape'
            raise CaffeliteError(what, expected=f"{size} bytes", found=f"{length} bytes at {offset}")
        total += length
        if total > inputs.MESSAGE:
            raise CaffeliteError(f"{path} is too large", expected=f"at most {inputs.MESSAGE} bytes", found=total)
        tensor.raw_data = _slice(path, name, offset, length, tensor.name)
        tensor.ClearField("external_data")
        tensor.data_location = onnx.TensorProto.DEFAULT


def _tensors(graph: Any) -> Iterator[Any]:
    """All tensors that hold values: initializers and attributes of operators, also those of graphs within the graph."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inner in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                yield from _tensors(inner)


def _width(onnx: Any, tensor: Any) -> int:
    return int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def _slice(path: Path, name: str, offset: int, length: int, tensor: str) -> bytes:
    folder = os.path.realpath(path.parent)
    file = os.path.realpath(os.path.join(folder, name)) if name and "\0" not in name else folder
    if os.path.isabs(name) or os.path.dirname(os.path.relpath(file, folder)).split(os.sep)[0] == ".." or file == folder:
        what = f'the values of "{tensor}" lie outside the folder of {path}'
        raise CaffeliteError(what, expected=f"a file in {path.parent}", found=name or "no name")
    with reporting(f"read {file}, in which {path} keeps the values of {tensor}"):
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise CaffeliteError(f"{file} is no regular file", expected=f'the values of "{tensor}"')
        roots.check(file)
        with inputs.open_file(file) as values:
            values.seek(offset)
            data = values.read(length)
    if len(data) != length:
        what = f'{name} ends before the values of "{tensor}"'
        raise CaffeliteError(what, expected=f"{length} bytes at {offset}", found=f"{len(data)} bytes")
    return data
