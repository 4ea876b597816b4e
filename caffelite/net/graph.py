"""Builds the graph of a net: its wiring, shapes and gradients for one phase, without arrays and without a device."""

import math
from collections.abc import Callable, Sequence
from typing import cast

from .. import caffelite_pb2 as pb, layers
from ..errors import NOWHERE, CaffeliteError, Collector, Locator, UnknownType, did_you_mean
from ..layers import Layer, Shape
from ..layers.base.feeding import feeding, feeding_type
from . import gradients, pairing
from .nodes import AUTOMATIC, Graph, Node, Parameter, ParameterRef, Value
from .parameters import blobs_of_file

MOST_AXES = 32  # of a blob, as in Caffe
MOST_BLOBS = 1 << 14  # tops or bottoms of a layer: far more than any net has, and handled within seconds
MOST_EXPLAINED = 100  # unknown blobs with a remedy: each one is compared with all names
LARGEST = 2**31 - 1  # numbers in a blob, as in Caffe: indices are 32 bits wide

__all__ = ["AUTOMATIC", "Graph", "Node", "Parameter", "Value", "build", "keeps", "net_state"]


def net_state(
    phase: int,
    net: pb.NetParameter,
    extra: pb.NetState | None = None,
    level: int | None = None,
    stages: tuple[str, ...] = (),
) -> pb.NetState:
    """A net's state: the phase, then the net's own state, then the solver's (``extra``), then the command line's."""
    which = cast(pb.Phase, phase)  # callers pass numbers, which is what protobuf's constants are
    merged = pb.NetState(phase=which)
    merged.MergeFrom(net.state)
    if extra is not None:
        merged.MergeFrom(extra)
    merged.phase = which
    if level is not None:
        merged.level = level
    merged.stage.extend(stages)
    return merged


def keeps(spec: pb.LayerParameter, state: pb.NetState, locate: Locator = NOWHERE) -> str | None:
    """None where the layer belongs to the state, else the reason why not."""
    if spec.include and spec.exclude:
        what = f'layer "{spec.name}" has include and exclude rules'
        raise locate.error(what, "exclude", 0, remedy="keep rules of one kind")
    reasons = [_mismatch(rule, state) for rule in (spec.include or spec.exclude)]
    if spec.exclude:
        return "an exclude rule holds" if None in reasons else None
    return None if not reasons or None in reasons else "; ".join(filter(None, reasons))


def _mismatch(rule: pb.NetStateRule, state: pb.NetState) -> str | None:
    """Why a rule does not hold; all its parts must."""
    stages = set(state.stage)
    if rule.HasField("phase") and rule.phase != state.phase:
        return f"phase is {pb.Phase.Name(state.phase)}, the rule wants {pb.Phase.Name(rule.phase)}"
    if rule.HasField("min_level") and state.level < rule.min_level:
        return f"level {state.level} is below min_level {rule.min_level}"
    if rule.HasField("max_level") and state.level > rule.max_level:
        return f"level {state.level} is above max_level {rule.max_level}"
    if missing := [s for s in rule.stage if s not in stages]:
        return f'stage "{missing[0]}" is not set'
    if unwelcome := [s for s in rule.not_stage if s in stages]:
        return f'stage "{unwelcome[0]}" is set'
    return None


def joined(
    net: pb.NetParameter, position: int, spec: pb.LayerParameter, state: pb.NetState, locate: Locator = NOWHERE
) -> pb.LayerParameter:
    """The message of a data layer, at this position of a net, whose labels have in TEST the meaning that they have in
    the TRAIN layer of the same tops."""
    kind = layers.REGISTRY.get(spec.type)
    if state.phase != pb.TEST or kind is None or not feeding_type(kind).reads_source:
        return spec
    for i, other in enumerate(net.layer):
        if i != position and not other.bottom and set(other.top) & set(spec.top) and _trains(other, state):
            return feeding_type(kind).joined(spec, locate.at("layer", position), other, locate.at("layer", i))
    return spec


def _trains(spec: pb.LayerParameter, state: pb.NetState) -> bool:
    """Whether a layer that this state leaves out is one of TRAIN, whatever the levels and stages of its rules."""
    if keeps(spec, state) is None:
        return False
    phases = [rule.phase if rule.HasField("phase") else None for rule in (spec.include or spec.exclude)]
    return pb.TRAIN in phases or None in phases if spec.include else pb.TEST in phases


OpenSource = Callable[[pb.LayerParameter, int, Locator], object]


def build(
    net: pb.NetParameter,
    state: pb.NetState,
    locate: Locator = NOWHERE,
    open_source: OpenSource | None = None,
    all_gradients: bool = False,
) -> Graph:
    """The graph of the layers that ``state`` (phase, level, stages) keeps.

    ``open_source(spec, phase, locate)`` gives a feeding layer its source, which knows the shapes of the data; with an
    attribute ``without_data`` that is true, also a layer that names no source. Its attribute ``unknown`` names blobs
    whose shape nobody may rely on.
    all_gradients: see ``gradients.mark``. Raises all mistakes of the wiring in one pass, each with its place.
    """
    builder = _Builder(net, state, locate, open_source)
    try:
        return builder.graph(all_gradients)
    except BaseException:
        for node in builder.nodes:
            if feeding(node.layer).source is not None:
                feeding(node.layer).source.close()
        raise


class _Builder:
    def __init__(self, net: pb.NetParameter, state: pb.NetState, locate: Locator, open_source: OpenSource | None):
        self.net, self.state, self.locate, self.open_source = net, state, locate, open_source
        self.nodes: list[Node] = []
        self.values: dict[str, Value | None] = {}  # None: a blob of unknown shape, after an error
        self.parameters: list[Parameter] = []
        self.by_param_name: dict[str, int] = {}
        self.dropped: dict[int, str] = {}  # place in the file → why this phase leaves the layer out
        self.mistakes = Collector()
        self.notes: list[str] = []

    def graph(self, all_gradients: bool) -> Graph:
        if not self.net.layer:
            self.mistakes.add(self.locate.error("the net has no layers", remedy="write layer { ... } for each layer"))
        names: dict[str, int] = {}
        for position, spec in enumerate(self.net.layer):
            at = self.locate.at("layer", position)
            try:
                if reason := keeps(spec, self.state, at):
                    self.dropped[position] = reason
                    continue
                self._add(position, spec, at)
                self._note_name(position, spec, names)
            except CaffeliteError as mistake:
                self.mistakes.add(mistake)
                for top in spec.top:
                    self.values.setdefault(top, None)
        self.mistakes.mistakes.sort(key=lambda mistake: not isinstance(mistake, UnknownType))
        self.mistakes.raise_any()
        self.notes += pairing.share_orders(self.nodes)
        dropped = [(self.net.layer[position].name, reason) for position, reason in self.dropped.items()]
        values = {name: value for name, value in self.values.items() if value}
        graph = Graph(
            self.net.name, self.state.phase, self.nodes, values, self.parameters, self.net, dropped, self.notes
        )
        gradients.mark(graph, self.mistakes, all_gradients)
        self.mistakes.raise_any()
        return graph

    def _note_name(self, position: int, spec: pb.LayerParameter, names: dict[str, int]) -> None:
        """Two layers of one name are no mistake in Caffe, but weights are found by name."""
        first = names.setdefault(spec.name, position)
        if first != position and self.nodes and self.nodes[-1].params:
            what = f'layer "{spec.name}" at {self.locate("layer", position, "name")} has the name of the one at'
            self.notes.append(
                f"{what} {self.locate('layer', first, 'name')}: both read and write the same weights in a caffemodel"
            )

    def _add(self, position: int, spec: pb.LayerParameter, at: Locator) -> None:
        layer = layers.create(spec, self.state.phase, at)
        node = Node(len(self.nodes), position, layer)
        self._arity(layer, "bottom", len(spec.bottom), layer.bottoms)
        tops = list(spec.top)
        if layer.loss and not tops:
            tops = [AUTOMATIC]
            layer.spec = pb.LayerParameter()
            layer.spec.CopyFrom(spec)
            layer.spec.top.append(AUTOMATIC)
        self._arity(layer, "top", len(tops), layer.tops)
        bottoms = [self._bottom(spec, i, at, position) for i in range(len(spec.bottom))]
        if len(spec.loss_weight) not in (0, len(tops)):
            what = f"has {len(spec.loss_weight)} loss_weight for {len(tops)} tops"
            raise layer.error(what, "loss_weight", len(tops), expected=f"none, or {len(tops)}", outer=True)
        if len(spec.propagate_down) not in (0, len(bottoms)):
            what = f"has {len(spec.propagate_down)} propagate_down for {len(bottoms)} bottoms"
            raise layer.error(what, "propagate_down", len(bottoms), expected=f"none, or {len(bottoms)}", outer=True)
        self._tops(spec, tops, at)
        known = [b for b in bottoms if b is not None]
        if len(known) < len(bottoms):  # a mistake that is already reported hides the shape
            for top in tops:
                if top != AUTOMATIC:
                    self.values[top] = None
            return
        inspected = feeding_type(type(layer)).reads_source and getattr(self.open_source, "without_data", False)
        if self.open_source and (feeding(layer).reads_source or inspected):
            layer.spec = joined(self.net, position, layer.spec, self.state, self.locate)
            feeding(layer).source = self.open_source(layer.spec, self.state.phase, at)
        self.nodes.append(node)
        shapes = layer.shapes([b.shape for b in known])
        for i, bottom in enumerate(known):
            node.bottoms.append(bottom)
            bottom.readers.append((node, i))
        for i, (name, shape) in enumerate(zip(tops, shapes, strict=True)):
            value = Value(name, tuple(map(int, shape)), node, i)
            _check_size(layer, f'top "{name}"', value.shape, at, "top", i)
            node.tops.append(value)
            if name != AUTOMATIC:
                self.values[name] = None if name in getattr(self.open_source, "unknown", ()) else value
        node.loss_weights = list(spec.loss_weight) or [1.0 if layer.loss and i == 0 else 0.0 for i in range(len(tops))]
        self._params(node, at)

    def _arity(self, layer: Layer, kind: str, count: int, allowed: tuple[int, int | None]) -> None:
        low, high = allowed
        if count > MOST_BLOBS and high is None:
            what = f'layer "{layer.name}" has too many {kind} blobs'
            raise layer.locate.error(what, kind, MOST_BLOBS, expected=f"at most {MOST_BLOBS}", found=count)
        if count < low or (high is not None and count > high):
            if low == high:
                expected = str(low)
            else:
                expected = f"{low} or more" if high is None else f"{low} to {high}"
            what = f'layer "{layer.name}" ({layer.spec.type}): has {count} {kind} blobs'
            remedy = layer.more_tops_remedy if kind == "top" and count > low else None
            raise layer.locate.error(
                what, kind, low if high is None or count < low else high, expected=expected, remedy=remedy
            )

    def _bottom(self, spec: pb.LayerParameter, index: int, at: Locator, position: int) -> Value | None:
        name = spec.bottom[index]
        if name in self.values:
            return self.values[name]
        explained = len(self.mistakes.mistakes) < MOST_EXPLAINED
        remedy = (self._maker(name, position) or did_you_mean(name, self.values)) if explained else None
        self.mistakes.add(
            at.error(f'layer "{spec.name}" ({spec.type}): unknown bottom "{name}"', "bottom", index, remedy=remedy)
        )
        return None

    def _maker(self, name: str, position: int) -> str | None:
        """Where a blob comes from that the layer at ``position`` cannot see: a layer left out, or one further down."""
        for other, spec in enumerate(self.net.layer):
            if name not in spec.top or other == position:
                continue
            if other in self.dropped:
                return f'layer "{spec.name}" makes it, but is left out: {self.dropped[other]}'
            if other > position:
                try:
                    reason = keeps(spec, self.state)
                except CaffeliteError:
                    reason = None
                return f'layer "{spec.name}" makes it further down' + (
                    f", but is left out: {reason}" if reason else ": move that layer up"
                )
        return None

    def _tops(self, spec: pb.LayerParameter, tops: Sequence[str], at: Locator) -> None:
        seen: set[str] = set()
        for i, name in enumerate(tops):
            in_place = i < len(spec.bottom) and spec.bottom[i] == name
            if name in seen or (name in self.values and not in_place):
                other = self.values.get(name)
                first = f'; layer "{other.node.name}" makes it already' if other is not None else ""
                what = f'layer "{spec.name}" ({spec.type}): a second top "{name}"{first}'
                raise at.error(what, "top", i, remedy="give it a name of its own")
            seen.add(name)

    def _params(self, node: Node, at: Locator) -> None:
        layer, specs = node.layer, node.layer.spec.param
        if len(specs) > len(layer.param_blobs):
            raise at.error(
                f'layer "{node.name}" ({layer.spec.type}): {len(specs)} param messages',
                "param",
                len(layer.param_blobs),
                expected=f"at most {len(layer.param_blobs)}, one a parameter blob",
            )
        blobs_of_file(layer)
        for i, blob in enumerate(layer.param_blobs):
            _check_size(layer, f"parameter {i}", blob.shape, at, layer.field)
            spec = specs[i] if i < len(specs) else pb.ParamSpec()
            if blob.statistic:
                spec = _frozen(layer, spec, blob.ignores_rate, at.at("param", i))
            owner = self.by_param_name.get(spec.name) if spec.name else None
            if owner is None:
                lr = spec.lr_mult if spec.HasField("lr_mult") else None
                decay = spec.decay_mult if spec.HasField("decay_mult") else None
                owner = len(self.parameters)
                self.parameters.append(Parameter(node, i, spec.name, blob, lr, decay))
                if spec.name:
                    self.by_param_name[spec.name] = owner
            else:
                self._share(self.parameters[owner], node, i, spec, at)
            down = spec.HasField("param_propagate_down")
            wanted = spec.param_propagate_down if down else spec.lr_mult != 0
            node.params.append(ParameterRef(owner, wanted))

    def _share(self, first: Parameter, node: Node, index: int, spec: pb.ParamSpec, at: Locator) -> None:
        mine, theirs = node.layer.param_blobs[index].shape, first.blob.shape
        permissive = spec.share_mode == pb.ParamSpec.PERMISSIVE
        fits = math.prod(mine) == math.prod(theirs) if permissive else mine == theirs
        where = at("param", index, "name")
        if not fits:
            what = f'layer "{node.name}": shared parameter "{spec.name}" does not fit that of layer "{first.node.name}"'
            raise where.error(what, expected=f"shape {list(theirs)}", found=list(mine))
        for mult in ("lr_mult", "decay_mult"):
            if not spec.HasField(mult):
                continue
            value, earlier = getattr(spec, mult), getattr(first, mult)
            if earlier is not None and earlier != value:
                what = (
                    f'layer "{node.name}": shared parameter "{spec.name}" has another {mult} than in layer '
                    f'"{first.node.name}"'
                )
                raise at.error(what, "param", index, mult, expected=f"{earlier:g}", found=f"{value:g}")
            setattr(first, mult, value)


def _frozen(layer: Layer, spec: pb.ParamSpec, ignores_rate: bool, at: Locator) -> pb.ParamSpec:
    """The spec of a parameter that no solver changes; a rate for it is a mistake, as in Caffe, unless the layer ignores
    it."""
    if spec.HasField("lr_mult") and spec.lr_mult and not ignores_rate:
        what = f'layer "{layer.name}" ({layer.spec.type}): its blobs are statistics, not parameters to learn'
        raise at.error(what, "lr_mult", expected="lr_mult: 0, or none", found=f"{spec.lr_mult:g}")
    frozen = pb.ParamSpec()
    frozen.CopyFrom(spec)
    frozen.lr_mult = 0
    frozen.ClearField("param_propagate_down")
    return frozen


def _check_size(layer: Layer, what: str, shape: Shape, at: Locator, *path: str | int) -> None:
    """A blob that has too many axes, holds nothing, or more than 32 bits can count, is a mistake. path: its field."""
    if len(shape) <= MOST_AXES and 1 <= min(shape, default=1) and math.prod(shape) <= LARGEST:
        return
    what, where = f'layer "{layer.name}" ({layer.spec.type}): {what}', at(*path)
    if len(shape) > MOST_AXES:
        raise where.error(f"{what} has too many axes", expected=f"at most {MOST_AXES}, as in Caffe", found=len(shape))
    if min(shape, default=1) < 1:
        raise where.error(f"{what} is empty", expected="dimensions of 1 or more", found=list(shape))
    found = f"{math.prod(shape)} {list(shape)}"
    raise where.error(f"{what} is too large", expected=f"at most {LARGEST} numbers", found=found)
