"""Writes a net as an ONNX file, with the preprocessing of its pixels, and checks that onnxruntime computes the same
numbers."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from .. import caffelite_pb2 as pb
from ..data.draws import key
from ..data.transforms import Choice, Transform
from ..errors import CaffeliteError, Locator, Mistakes
from ..layers import REGISTRY
from ..layers.base.exporting import EXAMPLES, OPERATORS
from ..layers.base.feeding import Feeding, is_input
from ..layers.base.registry import import_beside_layers
from ..net import graph as graphs
from ..net.graph import Graph, Node, Value
from ..net.net import Net
from ..proof.onnx_runner import OnnxRunner
from ..proof.runners import NetRunner, compare_outputs, outputs_of
from .writer import Writer

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
                writer.names[value] = write_pixels(writer, value.name, how) if how else value.name
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
            remedy = "export a deploy net: caffelite deploy makes one"
            raise locate.error(f'layer "{layer.name}" ({layer.type}) reads data', "layer", i, remedy=remedy)
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
    writer = Writer(graph, params, free, batch_axes(graph))
    add_layers(writer, pixel_transforms(graph))
    helper, proto = writer.onnx.helper, writer.onnx.TensorProto
    feeds = [value for node in graph.feeds for value in node.tops]
    outputs = outputs_of(graph)
    names = {value: _output_name(value, graph) for value in outputs}
    for value, name in names.items():  # a blob's name for what leaves the net
        writer.nodes.append(helper.make_node("Identity", [writer.names[value]], [name], name=f"output {name}"))
    writer.prune([*names.values()])
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


def batch_axes(graph: Graph) -> dict[Value, tuple[int, ...]]:
    """The axes of each blob that are twice as long where the inputs have twice as many samples; of a net whose layers
    fix the number of samples the first axis of each."""
    message = deepcopy(graph.message)
    for spec in message.layer:
        for shape in spec.input_param.shape if is_input(spec) else ():
            if shape.dim:
                shape.dim[0] *= 2
    try:
        other = graphs.build(message, graphs.net_state(graph.phase, message))
    except CaffeliteError:
        return {}
    pairs = zip(
        (top for node in graph.nodes for top in node.tops),
        (top for node in other.nodes for top in node.tops),
        strict=True,
    )
    return {
        value: tuple(axis for axis, (one, two) in enumerate(zip(value.shape, twin.shape, strict=True)) if one != two)
        for value, twin in pairs
    }


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
            rest = deepcopy(layer.transform_param)
            for name in IN_GRAPH:
                rest.ClearField(name)
            entries[f"transform_param {layer.name}"] = text_format.MessageToString(rest)
            entries[f"input {layer.top[0]}"] = (
                "pixels, 0 to 255, resized and cropped; the graph takes off the mean and scales"
            )
    return entries


def drawn(value: Value, rng: np.random.Generator) -> np.ndarray:
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
    runner = OnnxRunner(body, "the check of an export")
    rng, transforms = np.random.default_rng(seed), pixel_transforms(net.graph)
    pixels, fed = {}, {}
    for name, value in net.graph.inputs.items():
        if name in transforms:
            pixels[name], fed[name] = drawn_pixels(transforms[name], value.shape[0], rng)
        else:
            pixels[name] = fed[name] = drawn(value, rng)
    names = {_output_name(value, net.graph): value.name for value in outputs_of(net.graph)}
    remedy = "give trained weights, or use -no_check"
    shares = compare_outputs(runner, NetRunner(lambda shapes: net, names), [(pixels, fed)], NEAR, remedy)
    return Checked(shares, runner.version)


STEP = (64, 128)  # more rows and columns: what halves an image up to six times still fits


def larger(message: pb.NetParameter) -> pb.NetParameter:
    """The net with larger images: every Input top N×C×H×W has more rows and columns. Errors: there is no such input."""
    new = deepcopy(message)
    count = 0
    for spec in new.layer:
        for shape in spec.input_param.shape if is_input(spec) else ():
            if len(shape.dim) == 4:
                shape.dim[2:] = [shape.dim[2] + STEP[0], shape.dim[3] + STEP[1]]
                count += 1
    if not count:
        raise CaffeliteError("no input is a batch of images", expected="an Input layer with N×C×H×W")
    return new


def free_axes(graph: Graph, other: Graph) -> dict[Value, tuple[int, ...]]:
    """The axes of each blob that change with the size of images. other: the graph of the ``larger`` net.

    Errors: a layer whose weights change with it, all of them in one error.
    """
    free: dict[Value, tuple[int, ...]] = {}
    for node, twin in zip(graph.nodes, other.nodes, strict=True):
        for spec, second in zip(node.layer.param_blobs, twin.layer.param_blobs, strict=True):
            if spec.shape != second.shape:
                what = "its weights fix the size of images, which cannot be open"
                remedy = "export without --free_size, or make it a Convolution"
                raise node.layer.error(what, remedy=remedy)
        for value, top in zip(node.tops, twin.tops, strict=True):
            pairs = zip(value.shape, top.shape, strict=True)
            free[value] = tuple(axis for axis, (one, two) in enumerate(pairs) if axis and one != two)
    return free


IN_GRAPH = ("mean_file", "mean_value", "scale")  # fields of transform_param that the graph carries out


def pixel_transforms(graph: Graph) -> dict[str, Transform]:
    """The transform of each input of images that has one, by the input's name.

    Errors: one of an input that is not N×C×H×W; a mean that does not fit.
    """
    return {
        value.name: _transform(node, value, graph)
        for node in graph.feeds
        for i, value in enumerate(node.tops)
        if node.layer.spec.HasField("transform_param") and (i == 0 or len(value.shape) == 4)
    }


def _transform(node: Node, value: Value, graph: Graph) -> Transform:
    layer, shape, deploy = node.layer, value.shape, graph.message.deploy_param
    if len(shape) != 4:
        what = "has a transform_param, and its top is no batch of images"
        raise layer.error(what, "transform_param", expected="N×C×H×W", found=f"shape {list(shape)}", outer=True)
    stored = deploy.height or deploy.width or shape[2], deploy.width or deploy.height or shape[3]
    transform = Transform(
        layer.spec.transform_param, pb.TEST, (shape[1], *stored), layer.locate.at("transform_param"), key(0, layer.name)
    )
    if transform.shape != shape[1:]:
        what, expected = "transform_param and the input's shape differ", list(shape[1:])
        raise layer.error(what, "transform_param", expected=expected, found=list(transform.shape), outer=True)
    return transform


def write_pixels(w: Writer, name: str, transform: Transform) -> str:
    """Adds (pixels - mean) · scale, in the order of operations of `Transform`; returns the result's name."""
    x = name
    if transform.mean is not None:
        top, left = np.maximum(np.array(transform.mean.shape[1:]) - transform.shape[1:], 0) // 2
        mean = transform.mean[:, top : top + transform.shape[1], left : left + transform.shape[2]]
        if w.free and mean.shape[1:] != (1, 1):
            raise CaffeliteError(f'input "{name}": the size of its mean_file is fixed', remedy="use mean_value")
        x = w.add("Sub", [x, w.array(f"{name} mean", mean)])
    return w.add("Mul", [x, w.scalar(float(transform.scale))]) if transform.scale != 1 else x


def to_pixels(transform: Transform, values: np.ndarray) -> np.ndarray:
    """The pixels, as the exported graph takes them, of values of a net's input."""
    pixels = values / np.float32(transform.scale)
    if transform.mean is not None:
        top, left = np.maximum(np.array(transform.mean.shape[1:]) - values.shape[2:], 0) // 2
        pixels = pixels + transform.mean[:, top : top + values.shape[2], left : left + values.shape[3]]
    return np.ascontiguousarray(pixels, np.float32)


def drawn_pixels(transform: Transform, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random pixels for a check: float32 N×C×h×w as the exported graph takes them, and as the net's input."""
    cut = rng.integers(0, 256, (count, *transform.shape), np.uint8)
    fed = np.empty(cut.shape, np.float32)
    transform.finish(list(cut), Choice(np.repeat(transform.choose(0, 1).corners, count, 0), np.zeros(count, int)), fed)
    return cut.astype(np.float32), fed
