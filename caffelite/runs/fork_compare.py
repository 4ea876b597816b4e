"""Compares the layers of a fork's own code with caffelite's: in a net, and each alone on the same bottoms."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb, prototxt
from ..devices import open_device
from ..errors import CaffeliteError, Locator
from ..fork.option import Fork
from ..layers import REGISTRY
from ..layers.base.feeding import Feeding
from ..layers.base.fields_read import names_read
from ..layers.base.unknown_types import tolerate
from ..net import graph
from ..net.net import Net
from ..weights import read_model
from .open_net import open_net

SEED = 1
PASSES = 5  # that are timed; the fastest counts
NEAR = 1e-5  # relative to the largest number of an array
TIE = 1e-3  # of the numbers of an array may differ by more: the maximum of a window, or a ReLU, that rounding turns


@dataclass
class Difference:
    """How far two arrays are from each other, relative to the largest number. share: of the numbers that differ by
    more than NEAR."""

    name: str
    most: float
    share: float

    @property
    def same(self) -> bool:
        return self.most <= NEAR

    @property
    def verdict(self) -> str:
        return "equal" if self.same else "ties" if self.share <= TIE else "differs"


@dataclass
class LayerComparison:
    """A layer's differences: alone, on the bottoms and top gradients that the fork has there, and in the net. reason:
    why it was not compared alone, or with what the fork's code was not run."""

    name: str
    type: str
    alone: list[Difference] = field(default_factory=list)
    in_net: list[Difference] = field(default_factory=list)
    seconds: tuple[float, float] = (0.0, 0.0)  # the fork's and caffelite's, of both passes alone
    reason: str = ""

    @property
    def verdict(self) -> str:
        """Of the layer alone."""
        verdicts = {each.verdict for each in self.alone}
        return next((each for each in ("differs", "ties", "equal") if each in verdicts), self.reason or "nothing")


def difference(name: str, one: np.ndarray, other: np.ndarray) -> Difference:
    """Of two arrays of one shape; of others infinitely much."""
    if one.shape != other.shape:
        return Difference(f"{name} of shape {list(other.shape)}, not {list(one.shape)}", float("inf"), 1.0)
    if not one.size:
        return Difference(name, 0.0, 0.0)
    one, other = np.ravel(one), np.ravel(other)
    with np.errstate(invalid="ignore", over="ignore"):
        scale = float(np.nanmax(np.abs(one))) or 1.0
        gaps = np.abs(one.astype(np.float64) - other.astype(np.float64)) / scale
        gaps[np.isnan(one) & np.isnan(other)] = 0
    gaps = np.where(np.isnan(gaps), np.inf, gaps)
    return Difference(name, float(gaps.max()), float((gaps > NEAR).mean()))


# A net


def compare_net(fork: Fork, model: str, weights: str | None, phase: int) -> list[LayerComparison]:
    """Runs a net with caffelite's layers and with the fork's, forward and backward on one batch.

    The data, and layers that draw random numbers, are caffelite's in both. Errors: mistakes in the net; what the fork's
    code reports.
    """
    documents = []
    for mode in ("missing", "all"):
        with fork.reading(mode):
            document = prototxt.read_net(model, tolerate=tolerate)
        documents.append(prototxt.Document(_separated(document.message), document.locate))
    _drop_random(documents[1].message)
    dev = open_device(None)
    opened = [open_net(each, dev, phase, seed=SEED, keep=True, all_gradients=True) for each in documents]
    with closing(opened[0]) as ours, closing(opened[1]) as theirs:
        if weights:
            ours.load(read_model(weights), weights)
        _copy_parameters(ours, theirs)
        for net in (ours, theirs):
            net.clear_loss()
            net.forward(0)
            net.backward()
        own = {node.layer_index: node for node in ours.graph.nodes}  # without the copies that the compiler inserts
        nodes = [node for node in theirs.graph.nodes if node.layer_index >= 0]
        return [_layer(fork, own[node.layer_index], node, ours, theirs) for node in nodes]


def _separated(net: pb.NetParameter) -> pb.NetParameter:
    """A copy without layers in place, so that each blob stays."""
    separate = pb.NetParameter()
    names: dict[str, str] = {}
    separate.CopyFrom(net)
    for layer in separate.layer:
        layer.bottom[:] = [names.get(name, name) for name in layer.bottom]
        for i, name in enumerate(list(layer.top)):
            if name in names or names.get(name, name) in layer.bottom:
                names[name] = f"{name}@{layer.name}"
                layer.top[i] = names[name]
    return separate


def _drop_random(net: pb.NetParameter) -> None:
    for layer in net.layer:
        if layer.HasField("fork") and draws(layer):
            layer.ClearField("fork")


def draws(layer: pb.LayerParameter) -> bool:
    """Whether a layer of caffelite's draws random numbers, which are others in the fork."""
    kind: Any = REGISTRY.get(layer.type)
    if kind is None or kind.__module__ == "caffelite.fork.layer":
        return False
    pools = layer.pooling_param.pool, layer.spp_param.pool
    if layer.type in ("Pooling", "SPP"):
        return pb.PoolingParameter.STOCHASTIC in pools
    return "random_key" in names_read(kind)


def _copy_parameters(source: Net, target: Net) -> None:
    pairs = zip(source.params.blobs, target.params.blobs, strict=True)
    for one, other in pairs:
        values = np.array(source.dev.download(one))
        target.dev.upload(other, values.reshape(other.shape))


def _layer(fork: Fork, mine: Any, its: Any, ours: Net, theirs: Net) -> LayerComparison:
    spec = its.layer.spec
    made = LayerComparison(spec.name, spec.type)
    made.in_net = list(_in_net(mine, its, ours, theirs))
    if not spec.HasField("fork"):
        made.reason = "random" if draws(spec) else "data" if isinstance(its.layer, Feeding) else "not the fork's"
    elif mine.layer.spec.HasField("fork"):
        made.reason = "only the fork has it"
    else:
        bottoms = [_array(theirs, theirs.data[value], value) for value in its.bottoms]
        starts = [_array(theirs, theirs.diff.get(value), value) for value in its.tops]
        params = [_array(theirs, theirs.params.blobs[ref.owner]) for ref in its.params]
        specs = mine.layer.spec, spec
        made.alone, made.seconds, made.reason = alone(specs, bottoms, starts, params, theirs.graph.phase)
    return made


def _in_net(mine: Any, its: Any, ours: Net, theirs: Net) -> Iterator[Difference]:
    """The tops, their gradients and those of parameters."""
    for value, other in zip(mine.tops, its.tops, strict=True):
        yield difference(value.name, _array(theirs, theirs.data[other], other), _array(ours, ours.data[value], value))
        one, two = _array(theirs, theirs.diff.get(other), other), _array(ours, ours.diff.get(value), value)
        if one is not None and two is not None and mine.bottoms:
            yield difference(f"gradient of {value.name}", one, two)
    for i, (ref, other) in enumerate(zip(mine.params, its.params, strict=True)):
        one, two = _array(theirs, theirs.params.diffs[other.owner]), _array(ours, ours.params.diffs[ref.owner])
        if one is not None and two is not None:
            yield difference(f"gradient of parameter {i}", one, two)


def _array(net: Net, array: Any, value: Any = None) -> Any:
    """A copy of an array of the device, in the axes of a blob. value: of the blob."""
    if array is None:
        return None
    shown = array if value is None else net.shown(array, value)
    if not shown.flags.c_contiguous:
        copy = net.dev.empty(shown.shape)
        net.dev.assign(shown, copy)
        shown = copy
    return np.array(net.dev.download(shown))


# A layer


def alone(
    specs: Sequence[pb.LayerParameter],
    bottoms: Sequence[np.ndarray],
    starts: Sequence[np.ndarray | None],
    params: Sequence[np.ndarray] | None,
    phase: Any,
) -> tuple[list[Difference], tuple[float, float], str]:
    """Runs a layer alone as caffelite's and as the fork's: the messages of both. starts: gradients of the tops; params:
    values of parameters, None for random ones. Returns the differences, the seconds of the fork's and of caffelite's,
    and what one of them reports instead."""
    results, seconds = [], []
    for spec in specs:
        try:
            net = _net_of(spec, [each.shape for each in bottoms], phase)
            with closing(net):
                results.append(_passes(net, spec.name, bottoms, starts, params))
                seconds.append(min(_timed(net) for _ in range(PASSES)))
        except CaffeliteError as error:
            return [], (0.0, 0.0), str(error)
    mine, its = results
    names = [name for name in its if name in mine]
    return [difference(name, its[name], mine[name]) for name in names], (seconds[1], seconds[0]), ""


def _timed(net: Net) -> float:
    """The seconds of both passes."""
    start = time.perf_counter()
    net.forward(0)
    net.backward()
    return time.perf_counter() - start


def _net_of(spec: pb.LayerParameter, shapes: Sequence[tuple[int, ...]], phase: Any) -> Net:
    """A net of one layer, whose bottoms are its inputs."""
    message = pb.NetParameter(name=spec.name, force_backward=True)
    for i, shape in enumerate(shapes):
        layer = message.layer.add(name=f"x{i}", type="Input", top=[f"x{i}"])
        layer.input_param.shape.add(dim=shape)
    layer = message.layer.add()
    layer.CopyFrom(spec)
    layer.bottom[:] = [f"x{i}" for i in range(len(shapes))]
    layer.top[:] = [f"y{i}" for i in range(len(spec.top))]
    for name in ("include", "exclude", "propagate_down"):
        layer.ClearField(name)
    for i in range(0 if REGISTRY[spec.type].loss else len(spec.top)):  # so that a top may have its bottom's memory
        message.layer.add(name=f"z{i}", type="Power", bottom=[f"y{i}"], top=[f"z{i}"]).power_param.scale = 1
    built = graph.build(message, pb.NetState(phase=phase), Locator(f"<{spec.type}>"))
    return Net.of(built, open_device(None), seed=SEED, random_seed=SEED, keep=True)


def _passes(
    net: Net,
    name: str,
    bottoms: Sequence[np.ndarray],
    starts: Sequence[np.ndarray | None],
    params: Sequence[np.ndarray] | None,
) -> dict[str, np.ndarray]:
    """The tops and gradients of a net of the layer of this name."""
    draw = np.random.default_rng(SEED + 1)  # other numbers than those of the bottoms
    net.set_inputs(**{f"x{i}": each for i, each in enumerate(bottoms)})
    for i, blob in enumerate(net.params.blobs):
        values = params[i].reshape(blob.shape) if params is not None else draw.normal(size=blob.shape) * 0.5
        net.dev.upload(blob, np.asarray(values, np.float32))
    net.clear_loss()
    net.forward(0)
    node = next(each for each in net.graph.nodes if each.name == name)
    for i in range(len(node.tops)):
        value = net.graph.values.get(f"z{i}")
        if value in net.diff:
            given = starts[i] if starts else None
            values = draw.normal(size=value.shape) if given is None else given
            net.shown(net.diff[value], value)[...] = values
    net.backward()
    arrays = {f"top {v.name[1:]}": _array(net, net.data[v], v) for v in node.tops}
    for i, value in enumerate(net.graph.inputs.values()):  # the layer may read a copy in another layout
        if (gradient := net.diff.get(value)) is not None:
            arrays[f"gradient of bottom {i}"] = _array(net, gradient, value)
    for i, gradient in enumerate(net.params.diffs):
        if gradient is not None:
            arrays[f"gradient of parameter {i}"] = _array(net, gradient)
    return arrays


# Types on random blobs

_IMAGE, _ROWS = (3, 4, 7, 6), (5, 4)
_FILLER = 'weight_filler { type: "xavier" } bias_filler { type: "gaussian" std: 0.1 }'
# Layers by type, where the type alone does not make one: the shapes of the bottoms, and fields
SETTINGS: dict[str, list[tuple[tuple[tuple[int, ...], ...], str]]] = {
    "ArgMax": [((_ROWS,), "argmax_param { top_k: 2 out_max_val: true }")],
    "Concat": [((_IMAGE, (3, 2, 7, 6)), "concat_param { axis: 1 }")],
    "Convolution": [
        ((_IMAGE,), f"convolution_param {{ num_output: 6 kernel_size: 3 pad: 1 stride: 2 group: 2 {_FILLER} }}"),
        ((_IMAGE,), f"convolution_param {{ num_output: 2 kernel_size: 1 bias_term: false {_FILLER} }}"),
    ],
    "Crop": [((_IMAGE, (3, 4, 5, 4)), "crop_param { axis: 2 offset: 1 }")],
    "Deconvolution": [((_IMAGE,), f"convolution_param {{ num_output: 4 kernel_size: 3 stride: 2 {_FILLER} }}")],
    "Eltwise": [((_IMAGE, _IMAGE), f"eltwise_param {{ operation: {each} }}") for each in ("SUM", "PROD", "MAX")],
    "Embed": [(((6,),), f"embed_param {{ input_dim: 3 num_output: 5 {_FILLER} }}")],
    "Filter": [((_IMAGE, (3, 1)), "")],
    "Im2col": [((_IMAGE,), "convolution_param { kernel_size: 3 stride: 2 }")],
    "InnerProduct": [((_IMAGE,), f"inner_product_param {{ num_output: 5 {_FILLER} }}")],
    "LRN": [
        ((_IMAGE,), f"lrn_param {{ local_size: 3 alpha: 0.5 norm_region: {r} }}")
        for r in ("ACROSS_CHANNELS", "WITHIN_CHANNEL")
    ],
    "LSTM": [(((4, 3, 5), (4, 3)), f"recurrent_param {{ num_output: 4 {_FILLER} }}")],
    "RNN": [(((4, 3, 5), (4, 3)), f"recurrent_param {{ num_output: 4 {_FILLER} }}")],
    "Log": [((_ROWS,), "log_param { shift: 9 }")],
    "Pooling": [
        ((_IMAGE,), f"pooling_param {{ pool: {each} kernel_size: 3 stride: 2 pad: 1 }}") for each in ("MAX", "AVE")
    ],
    "Power": [((_ROWS,), "power_param { power: 2 scale: 0.5 shift: 1 }")],
    "Reduction": [
        ((_IMAGE,), f"reduction_param {{ operation: {o} axis: 1 }}") for o in ("SUM", "ASUM", "SUMSQ", "MEAN")
    ],
    "Reshape": [((_IMAGE,), "reshape_param { shape { dim: 0 dim: -1 } }")],
    "SPP": [((_IMAGE,), "spp_param { pyramid_height: 2 }")],
    "Tile": [((_IMAGE,), "tile_param { axis: 1 tiles: 2 }")],
    "Scale": [((_IMAGE,), "scale_param { bias_term: true }"), ((_IMAGE, (4,)), "scale_param { axis: 1 }")],
    "Bias": [((_IMAGE,), ""), ((_IMAGE, (4,)), "bias_param { axis: 1 }")],
    "ContrastiveLoss": [((_ROWS, _ROWS, (5,)), "")],
    "InfogainLoss": [],  # reads a file
    "SigmoidCrossEntropyLoss": [((_ROWS, _ROWS), "")],
    "MultinomialLogisticLoss": [((_ROWS, (5,)), "")],
    "BatchReindex": [((_IMAGE, (4,)), "")],
    "LSTMUnit": [(((1, 3, 4), (1, 3, 16), (1, 3)), "")],
}
TOPS = {"LSTMUnit": 2, "Slice": 2, "Split": 2, "Silence": 0}


def compare_types(fork: Fork) -> list[LayerComparison]:
    """Runs each type that the fork and caffelite have, on random blobs, alone."""
    made = []
    for source in fork.tree.types:
        name = fork.modern_name(source)
        kind: Any = REGISTRY.get(name)
        if kind is None or issubclass(kind, Feeding) or kind.__module__ == "caffelite.fork.layer" or name == "Python":
            continue
        count = kind.bottoms[0]
        for shapes, fields in SETTINGS.get(name, [((_IMAGE if count == 1 else _ROWS,) * count, "")]):
            made.append(_type(fork, name, shapes, fields))
    return made


def _type(fork: Fork, name: str, shapes: Sequence[tuple[int, ...]], fields: str) -> LayerComparison:
    row = LayerComparison(fields or "-", name)
    below = " ".join(f'bottom: "x{i}"' for i in range(len(shapes)))
    above = " ".join(f'top: "y{i}"' for i in range(TOPS.get(name, 1)))
    text = f'layer {{ name: "{name}" type: "{name}" {below} {above} {fields} }}'
    try:
        specs = []
        for mode in ("missing", "all"):
            with fork.reading(mode):
                net = prototxt.modern(prototxt.parse(text, pb.NetParameter, f"<{name}>")).message
            specs.append(net.layer[0])
        if draws(specs[0]):
            row.reason = "random"
            return row
        if specs[0].HasField("fork") or not specs[1].HasField("fork"):
            row.reason = "only one of the two has it"
            return row
        row.alone, row.seconds, row.reason = alone(specs, _random(name, shapes), [], None, pb.TRAIN)
    except CaffeliteError as error:
        row.reason = str(error)
    return row


def _random(name: str, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Normal numbers; class numbers where the last bottom is a list of them, marks of sequences, probabilities."""
    draw = np.random.default_rng(SEED)
    arrays = [draw.normal(size=shape).astype(np.float32) for shape in shapes]
    if name in ("SoftmaxWithLoss", "Accuracy", "HingeLoss", "MultinomialLogisticLoss") and len(arrays) == 2:
        arrays[1] = draw.integers(0, shapes[0][1], shapes[0][:1]).astype(np.float32)
    if name in ("LSTM", "RNN"):
        arrays[1] = (draw.random(shapes[1]) > 0.3).astype(np.float32)
    if name in ("LSTMUnit", "ContrastiveLoss", "Filter", "SigmoidCrossEntropyLoss"):
        arrays[-1] = (draw.random(shapes[-1]) > 0.4).astype(np.float32)
    if name == "MultinomialLogisticLoss":
        arrays[0] = draw.random(shapes[0]).astype(np.float32) + 0.1
    if name in ("Embed", "BatchReindex"):
        arrays[-1] = draw.integers(0, 3, shapes[-1]).astype(np.float32)
    return arrays
