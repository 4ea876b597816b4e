"""Writes a net as an ONNX file, and checks that onnxruntime computes the same numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Locator, Mistakes, missing_extra
from ..layers import REGISTRY
from ..layers.exporting import EXAMPLES, OPERATORS
from ..layers.feeding import Feeding, is_input
from ..layers.registry import import_beside_layers
from ..net import graph as graphs
from ..net.graph import Graph, Value
from ..net.net import Net
from . import pixels
from .writer import Writer

if TYPE_CHECKING:
    from ..data.transforms import Transform

OPSET, IR = 17, 8  # of 2022: read by every onnxruntime since 1.12
NEAR = 1e-4  # of the greatest output: what another order of summation may change


def add_layers(writer: Writer, transforms: dict[str, Transform]) -> None:
    """Adds all layers; an input with a transform starts from pixels. Errors: all layers that ONNX cannot express, in
    one error."""
    import_beside_layers("onnx")
    mistakes = []
    for node in writer.graph.nodes:
        writer.begin(node)
        kind = node.layer.spec.type
        if isinstance(node.layer, Feeding):
            for value in node.tops:
                how = transforms.get(value.name)
                writer.names[value] = pixels.write(writer, value.name, how) if how else value.name
            continue
        if kind not in OPERATORS:
            mistakes.append(writer.cannot(node, "such a layer"))
            writer.names |= {value: value.name for value in node.tops}
            continue
        try:
            tops = OPERATORS[kind](
                writer, node, [writer.names[b] for b in node.bottoms], writer.params[node.layer_index]
            )
        except CaffeliteError as mistake:
            mistakes.append(mistake)
            tops = [value.name for value in node.tops]
        writer.names |= dict(zip(node.tops, tops, strict=True))
    if mistakes:
        raise mistakes[0] if len(mistakes) == 1 else Mistakes(mistakes)


def plain_graph(message: pb.NetParameter, state: pb.NetState, locate: Locator) -> Graph:
    """A deploy net's graph. Errors: a layer that reads data; those of `graph.build`."""
    for i, layer in enumerate(message.layer):
        kind = REGISTRY.get(layer.type)
        if (
            kind
            and issubclass(kind, Feeding)
            and not is_input(layer)
            and graphs.keeps(layer, state, locate.at("layer", i)) is None
        ):
            what, remedy = (
                f'layer "{layer.name}" ({layer.type}) reads data',
                "export a deploy net: caffelite deploy makes one",
            )
            raise CaffeliteError(what, where=locate("layer", i), remedy=remedy)
    return graphs.build(message, state, locate)


def encode(graph: Graph, net: Net, free: Mapping[Value, tuple[int, ...]] = MappingProxyType({})) -> bytes:
    """The ONNX file of a deploy net. The batch size is open, and so are the axes ``free`` of blobs (see
    `free_size.free_axes`); labels and deploy_param go along as metadata.

    An input with a transform_param takes pixels, 0 to 255, resized and cropped: the graph takes off the mean and
    scales. graph: the net's as it was built, before a device laid blobs out its own way; net: the same net with its
    weights. Errors: a layer that ONNX cannot express; onnx is not installed.
    """
    params = {
        node.layer_index: [net.dev.download(param.data) for param in node.layer.params]
        for node in net.graph.nodes
        if node.layer_index >= 0
    }
    writer = Writer(graph, params, free)
    add_layers(writer, pixels.transforms(graph))
    helper, proto = writer.onnx.helper, writer.onnx.TensorProto
    feeds = [value for node in graph.feeds for value in node.tops]
    outputs = [value for value in graph.outputs if not isinstance(value.node.layer, Feeding)]
    names = {value: _output_name(value, graph) for value in outputs}
    for value, name in names.items():  # a blob's name for what leaves the net
        writer.nodes.append(helper.make_node("Identity", [writer.names[value]], [name], name=f"output {name}"))
    made = helper.make_graph(
        writer.nodes,
        graph.name or "net",
        [helper.make_tensor_value_info(value.name, proto.FLOAT, writer.sizes(value)) for value in feeds],
        [helper.make_tensor_value_info(name, proto.FLOAT, writer.sizes(value)) for value, name in names.items()],
        [writer.onnx.numpy_helper.from_array(array, name) for name, array in writer.constants.items()],
    )
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="caffelite"
    )
    helper.set_model_props(model, metadata(graph.message))
    if model.ByteSize() < 2**31 - 1:
        writer.onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def _output_name(value: Value, graph: Graph) -> str:
    """The blob's name, or another one if an input has it (a layer in place on an input): ONNX names must differ."""
    return f"{value.name}_out" if value.name in graph.inputs else value.name


def metadata(message: pb.NetParameter) -> dict[str, str]:
    """The metadata of the exported net, as text: its labels and how to prepare its inputs."""
    from google.protobuf import text_format

    entries = {}
    if message.HasField("deploy_param"):
        entries["deploy_param"] = text_format.MessageToString(message.deploy_param, as_utf8=True)
        if message.deploy_param.label:
            entries["labels"] = "\n".join(message.deploy_param.label)
    for layer in message.layer:
        if is_input(layer) and layer.HasField("transform_param"):
            rest = pb.TransformationParameter()
            rest.CopyFrom(layer.transform_param)
            for name in pixels.IN_GRAPH:
                rest.ClearField(name)
            entries[f"transform_param {layer.name}"] = text_format.MessageToString(rest)
            entries[f"input {layer.top[0]}"] = (
                "pixels, 0 to 255, resized and cropped; the graph takes off the mean and scales"
            )
    return entries


def _drawn(value: Value, rng: np.random.Generator) -> np.ndarray:
    """Random values of an input: those that a layer which reads it needs, else normal."""
    for node, index in value.readers:
        if draw := EXAMPLES.get((node.layer.spec.type, index)):
            return draw(node, rng)
    return rng.standard_normal(value.shape).astype(np.float32)


@dataclass(frozen=True)
class Checked:
    """outputs compared, by name: the greatest difference, as a share of the greatest value; version: of onnxruntime."""

    outputs: dict[str, float]
    version: str


def check(net: Net, body: bytes | Path, seed: int = 0) -> Checked:
    """Runs random inputs through both; the net gets its own by name, as a user feeds it. Errors: they differ by more
    than rounding; a number is not finite; onnxruntime is not installed."""
    try:
        import onnxruntime
    except ImportError:
        raise missing_extra("onnxruntime", "onnx", "the check of an export") from None
    rng, transforms = np.random.default_rng(seed), pixels.transforms(net.graph)
    model_inputs, fed = {}, {}
    for name, value in net.graph.inputs.items():
        if name in transforms:
            model_inputs[name], fed[name] = pixels.drawn(transforms[name], value.shape[0], rng)
        else:
            model_inputs[name] = fed[name] = _drawn(value, rng)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        body if isinstance(body, bytes) else str(body), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    theirs = dict(zip(names, session.run(names, model_inputs), strict=True))
    net.set_inputs(**fed)
    net.forward(0)
    outputs = {_output_name(value, net.graph): value for value in net.graph.outputs}
    differences = {}
    for name in names:
        mine = net.dev.download(net.data[outputs[name]]).astype(float)
        if not np.isfinite(mine).all():
            raise CaffeliteError(
                f'the net\'s own "{name}" of random inputs is not finite',
                remedy="give trained weights, or use -no_check",
            )
        if mine.shape != theirs[name].shape:
            what = f'onnxruntime gets another shape for "{name}"'
            raise CaffeliteError(what, expected=list(mine.shape), found=list(theirs[name].shape))
        differences[name] = float(np.abs(mine - theirs[name]).max() / max(np.abs(mine).max(), 1e-30))
        if not differences[name] <= NEAR:  # so that NaN is a difference
            raise CaffeliteError(
                f'onnxruntime gets other numbers for "{name}"',
                expected=f"within {NEAR:g}",
                found=f"{differences[name]:.3g}",
            )
    return Checked(differences, onnxruntime.__version__)
