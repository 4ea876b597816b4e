"""Compares a fork's own code with caffelite: nets, their training, and each layer alone on the same bottoms."""

import copy
import math
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb, prototxt
from ..devices import open_device
from ..errors import CaffeliteError, Locator
from ..fork.option import Fork
from ..fork.text import NETS
from ..layers import REGISTRY
from ..layers.base.feeding import Feeding
from ..layers.base.unknown_types import tolerate
from ..net import graph
from ..net.net import Net
from ..training import build_trainer
from ..weights import read_model
from .fork_net import SEED, Arrays, SharedNet, array_of, compile_ahead, draws, learned, parameters
from .open_net import without_extras

PASSES = 5  # that are timed; the fastest counts
NEAR = 2e-5  # relative to the largest number of an array; convolutions by Winograd round by 1e-5
NOISES, SLACK = 3, 60  # passes on bottoms moved by rounding, and the multiple of its effect that is no difference
FAR = np.array([-np.inf, np.inf], np.float32)
TIE = 1e-3  # of the numbers of an array may differ by more: the maximum of a window, or a ReLU, that rounding turns


@dataclass
class Difference:
    """How far two arrays are from each other, relative to the largest number. share: of the numbers that differ by
    more than NEAR. rounding: how far they may be where float32's rounding of the bottoms alone changes that much."""

    name: str
    most: float
    share: float
    rounding: float = 0.0

    @property
    def same(self) -> bool:
        return self.most <= max(NEAR, self.rounding)

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


@dataclass
class NetComparison:
    """seconds: of both passes, the fork's Net and caffelite's."""

    layers: list[LayerComparison]
    seconds: tuple[float, float]


@dataclass
class ParameterComparison:
    """A parameter after training. of_weights, of_change: how far it is from the fork's, relative to the largest value
    and to the largest change. alone: where only the update is caffelite's, relative to the largest change."""

    layer: str
    number: int
    of_weights: float
    of_change: float
    alone: Difference


@dataclass
class TrainingComparison:
    """losses: the fork's and caffelite's, of each iteration; seconds: of the fastest one."""

    iterations: int
    losses: list[tuple[float, float]] = field(default_factory=list)
    params: list[ParameterComparison] = field(default_factory=list)
    seconds: tuple[float, float] = (0.0, 0.0)


def difference(name: str, one: np.ndarray, other: np.ndarray) -> Difference:
    """Of two arrays of one shape, or with as many values in four axes; of others infinitely much."""
    one = _shaped(one, other.shape)
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


def compare_net(fork: Fork, model: str, weights: str | None, phase: int) -> NetComparison:
    """Runs a net forward and backward on one batch, by caffelite and by the fork's own Net, and each layer alone.

    Data and the masks of dropout are caffelite's in both. Errors: mistakes in the net; what the fork's code reports.
    """
    shared = SharedNet(fork, model, phase)
    with closing(shared), closing(shared.open(open_device(None))) as ours:
        if weights:
            ours.load(read_model(weights), weights)
        theirs = shared.open_forks(str(Path(model).resolve().parent))
        start, batch = parameters(ours), shared.batch(0)
        theirs.call("set_parameters", start)
        theirs.call("passes", batch)
        ours.set_inputs(**batch)
        _run(ours)
        sides = _Sides(shared, ours, start, *(theirs.call(name, d) for name, d in ARRAYS))
        layers = [sides.layer(node) for node in ours.graph.nodes if node.layer_index >= 0]
        return NetComparison(layers, (theirs.call("passes", batch)[1], _timed(ours)))


ARRAYS = (("arrays", False), ("arrays", True), ("parameters", True))


def _run(net: Net) -> None:
    net.clear_loss()
    net.forward(0)
    net.backward()


@dataclass
class _Sides:
    """A net that both have run. params: before the passes; data, diffs and gradients: of the fork's blobs and
    parameters."""

    shared: SharedNet
    ours: Net
    params: dict[str, list[np.ndarray]]
    data: Arrays
    diffs: Arrays
    gradients: dict[str, list[np.ndarray]]

    def layer(self, node: Any) -> LayerComparison:
        spec = self.shared.specs[node.layer_index]
        made = LayerComparison(spec.name, self.shared.replaced.get(spec.name, spec.type))
        made.in_net = list(self._in_net(node))
        if spec.name in self.shared.replaced:
            made.reason = "data" if not spec.bottom else "random"
        elif draws(spec):
            made.reason = "random"
        elif not spec.HasField("fork"):
            made.reason = "not the fork's"
        elif node.layer.spec.HasField("fork"):
            made.reason = "only the fork has it"
        else:
            bottoms = [_shaped(self.data[value.name], value.shape) for value in node.bottoms]
            starts = [self._start(value) for value in node.tops]
            specs = node.layer.spec, spec
            params = self.params.get(spec.name, [])
            made.alone, made.seconds, made.reason = alone(specs, bottoms, starts, params, self.shared.phase)
        return made

    def _start(self, value: Any) -> np.ndarray | None:
        """The gradient of a top in the fork's net; None where that has none."""
        gradient = self.diffs.get(value.name)
        return None if gradient is None or not gradient.any() else _shaped(gradient, value.shape)

    def _in_net(self, node: Any) -> Iterator[Difference]:
        """The tops, their gradients and those of parameters."""
        net = self.ours
        for value in node.tops:
            if value.name not in self.data:
                continue
            yield difference(value.name, self.data[value.name], array_of(net, net.data[value], value))
            own = array_of(net, net.diff.get(value), value)
            if own is not None and node.bottoms:
                yield difference(f"gradient of {value.name}", self.diffs[value.name], own)
        for i, (ref, one) in enumerate(zip(node.params, self.gradients.get(node.name, ()), strict=False)):
            if (own := array_of(net, net.params.diffs[ref.owner])) is not None:
                yield difference(f"gradient of parameter {i}", one, own)


def _shaped(array: Any, shape: Sequence[int]) -> Any:
    """An array in the shape that caffelite has, where the fork has four axes."""
    return array.reshape(shape) if array is not None and array.size == math.prod(shape) else array


# Training


def compare_training(fork: Fork, model: str, weights: str | None, solver: str, iterations: int) -> TrainingComparison:
    """Trains a net by caffelite and by the fork's own Net and Solver, from the same parameters on the same batches.

    The update is judged alone too: a third net of caffelite's gets the gradients of the fork's.
    """
    shared = SharedNet(fork, model, pb.TRAIN)
    document = prototxt.read_solver(Path(solver), tolerate)
    p = without_extras(document.message)
    for name in (*NETS, "net", "train_net", "weights"):
        p.ClearField(name)
    p.random_seed, p.debug_info = SEED, False
    theirs = shared.open_forks(str(Path(model).resolve().parent), p)
    p.train_net_param.CopyFrom(shared.message)
    with ExitStack() as opened:
        opened.callback(shared.close)
        dev = open_device(None)
        options = [{"snapshots": False, "keep": keep} for keep in (False, True)]
        trainers = [build_trainer(copy.deepcopy(p), document.locate, solver, dev, **each) for each in options]
        for each in trainers:
            opened.callback(each.close)
            if weights:
                each.net.load(read_model(weights), weights)
        ours, updated = trainers
        start = parameters(ours.net)
        theirs.call("set_parameters", start)
        made, taken = TrainingComparison(iterations), []
        for i in range(iterations):
            batch = shared.batch(i)
            loss, seconds = theirs.call("passes", batch, p.iter_size)
            _set_gradients(updated.net, theirs.call("parameters", True))
            updated.apply_update()
            updated.state.iteration += 1
            theirs.call("update")
            ours.net.set_inputs(**batch)
            own = time.perf_counter()
            ours.step(1)
            taken.append((seconds, time.perf_counter() - own))
            made.losses.append((loss, ours.loss_window(1)[0]))
        made.seconds = min(one for one, _ in taken), min(own for _, own in taken)
        ends = theirs.call("parameters", False), parameters(ours.net), parameters(updated.net)
        for node in learned(ours.net):
            for i, ref in enumerate(node.params):
                if ours.net.graph.parameters[ref.owner].lr_mult != 0:
                    made.params.append(_parameter(node.name, i, iterations, start, *ends))
    return made


def _set_gradients(net: Net, gradients: dict[str, list[np.ndarray]]) -> None:
    for node in learned(net):
        for ref, values in zip(node.params, gradients[node.name], strict=True):
            if (diff := net.params.diffs[ref.owner]) is not None:
                net.dev.upload(diff, values.reshape(diff.shape))


def _parameter(name: str, i: int, iterations: int, *sides: dict[str, list[np.ndarray]]) -> ParameterComparison:
    """sides: the parameters at the start, the fork's, caffelite's, and those by the fork's gradients."""
    start, theirs, ours, updated = (np.ravel(side[name][i]).astype(np.float64) for side in sides)
    change = float(np.abs(theirs - start).max(initial=0)) or 1.0
    rounding = iterations * np.finfo(np.float32).eps * np.abs(theirs)  # of the weights, whatever the gradients are
    gaps = np.maximum(np.abs(updated - theirs) - rounding, 0) / change
    alone = Difference(f"parameter {i}", float(gaps.max(initial=0)), float((gaps > NEAR).mean()))
    return ParameterComparison(
        name, i, difference("", theirs, ours).most, float(np.abs(ours - theirs).max()) / change, alone
    )


# A layer


def alone(
    specs: Sequence[pb.LayerParameter],
    bottoms: Sequence[np.ndarray],
    starts: Sequence[np.ndarray | None],
    params: Sequence[np.ndarray] | None,
    phase: Any,
) -> tuple[list[Difference], tuple[float, float], str]:
    """Runs a layer alone as caffelite's and as the fork's: the messages of both.

    starts: gradients of the tops, None or an empty list for random ones; params: values of parameters, None for random
    ones. Returns the differences, the seconds of the fork's and of caffelite's, and what one of them reports instead.
    """
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
    found = [difference(name, its[name], mine[name]) for name in its if name in mine]
    if any(each.verdict == "differs" for each in found):
        for spec, result in zip(specs, results, strict=True):
            _allow_rounding(found, spec, result, (bottoms, starts, params), phase)
    return found, (seconds[1], seconds[0]), ""


def _allow_rounding(
    found: Sequence[Difference], spec: pb.LayerParameter, result: dict[str, np.ndarray], values: tuple, phase: Any
) -> None:
    """Raises ``rounding`` to that of a layer of one side: a gradient that cancels, as that of the norm of two numbers,
    is nothing but its error."""
    (bottoms, starts, params), draw = values, np.random.default_rng(SEED)
    for _ in range(NOISES):
        moved = [_rounded(each, draw) for each in bottoms], [_rounded(each, draw) for each in starts]
        with closing(_net_of(spec, [each.shape for each in bottoms], phase)) as net:
            other = _passes(net, spec.name, *moved, params)
        for each in found:
            if each.name in result and each.name in other:
                change = difference("", result[each.name], other[each.name]).most
                each.rounding = max(each.rounding, SLACK * change)


def _rounded(array: np.ndarray | None, draw: np.random.Generator) -> Any:
    """An array whose numbers are the next ones above or below; whole numbers stay, which may name something."""
    if array is None:
        return None
    array = np.asarray(array, np.float32)
    return np.where(array == np.round(array), array, np.nextafter(array, draw.choice(FAR, array.shape)))


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
    for name in ("include", "exclude"):
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
        values = (
            params[i].reshape(blob.shape) if params is not None else draw.uniform(0.1, 1, blob.shape)
        )  # positive, as variances are
        net.dev.upload(blob, np.asarray(values, np.float32))
    net.clear_loss()
    net.forward(0)
    node = next(each for each in net.graph.nodes if each.name == name)
    for i in range(len(node.tops)):
        value = net.graph.values.get(f"z{i}")
        if value in net.diff:
            given = starts[i] if starts else None
            values = draw.normal(size=value.shape) if given is None else given.reshape(value.shape)
            net.shown(net.starts.get(value, net.diff[value]), value)[...] = values
    net.backward()
    arrays = {f"top {v.name[1:]}": array_of(net, net.data[v], v) for v in node.tops}
    for i, value in enumerate(net.graph.inputs.values()):  # the layer may read a copy in another layout
        if (gradient := net.diff.get(value)) is not None:
            arrays[f"gradient of bottom {i}"] = array_of(net, gradient, value)
    for i, gradient in enumerate(net.params.diffs):
        if gradient is not None:
            arrays[f"gradient of parameter {i}"] = array_of(net, gradient)
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
    shared = {source: name for source in fork.tree.types if _has(name := fork.modern_name(source))}
    compile_ahead(fork, shared)
    made = []
    for name in shared.values():
        count = REGISTRY[name].bottoms[0]
        for shapes, fields in SETTINGS.get(name, [((_IMAGE if count == 1 else _ROWS,) * count, "")]):
            made.append(_type(fork, name, shapes, fields))
    return made


def _has(name: str) -> bool:
    """Whether a type is one of caffelite's own that reads no data."""
    kind: Any = REGISTRY.get(name)
    if kind is None or issubclass(kind, Feeding) or name == "Python":
        return False
    return kind.__module__ != "caffelite.fork.layer"


def compare_layer(
    fork: Fork, text: str, bottoms: Sequence[np.ndarray], phase: int = pb.TRAIN, constant: Collection[int] = ()
) -> LayerComparison:
    """Runs the last layer of a net's text alone, on these bottoms. constant: those that get no gradient."""
    row = LayerComparison("-", "")
    try:
        specs = []
        for mode in ("missing", "all"):
            with fork.reading(mode):
                net = prototxt.modern(prototxt.parse(text, pb.NetParameter, "<layer>")).message
            specs.append(net.layer[-1])
            del specs[-1].propagate_down[:]
            specs[-1].propagate_down.extend(i not in constant for i in range(len(bottoms) if constant else 0))
        row.type = specs[0].type
        if draws(specs[0]):
            row.reason = "random"
        elif specs[0].HasField("fork") or not specs[1].HasField("fork"):
            row.reason = "only one of the two has it"
        else:
            row.alone, row.seconds, row.reason = alone(specs, bottoms, [], None, phase)
    except CaffeliteError as error:
        row.reason = str(error)
    return row


def _type(fork: Fork, name: str, shapes: Sequence[tuple[int, ...]], fields: str) -> LayerComparison:
    below = " ".join(f'bottom: "x{i}"' for i in range(len(shapes)))
    above = " ".join(f'top: "y{i}"' for i in range(TOPS.get(name, 1)))
    text = f'layer {{ name: "{name}" type: "{name}" {below} {above} {fields} }}'
    row = compare_layer(fork, text, _random(name, shapes))
    row.name, row.type = fields or "-", name
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
