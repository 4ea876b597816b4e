"""The graph: a net's wiring, shapes and gradients for one phase, without a single array.

Blobs are in single-assignment form: a layer that writes over its bottom makes a new Value with the same name, so that
what in-place means for memory is left to the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .. import caffelite_pb2 as pb
from .. import layers
from ..errors import NOWHERE, CaffeliteError, Collector, Locator, Where, did_you_mean
from ..layers import Layer, ParameterSpec, Shape

AUTOMATIC = (
    "(automatic)"  # what Caffe calls the top of a loss layer that names none; nobody can read it, and it is no output
)
MOST_AXES = 32  # of a blob, as in Caffe
MOST_EXPLAINED = 100  # unknown blobs with a remedy: each one is compared with all names
LARGEST = 2**31 - 1  # numbers in a blob, as in Caffe: indices are 32 bits wide


@dataclass(eq=False)
class Value:
    """One version of a blob. ``readers``: (node, bottom index) in order; ``gradient``: whether backward brings one to
    it."""

    name: str
    shape: Shape
    node: Node
    top: int
    readers: list[tuple[Node, int]] = field(default_factory=list)
    gradient: bool = False
    last: bool = False  # lies as N×H×W×C in memory: see layout.py
    narrow: bool = False  # of bfloat16 numbers

    @property
    def memory_shape(self) -> Shape:
        n, *rest = self.shape or (1,)
        return (n, *rest[1:], rest[0]) if self.last else self.shape

    @property
    def dtype(self) -> str | None:
        """Of its array and its gradient's; None: the net's."""
        return "uint16" if self.narrow else None


@dataclass(eq=False)
class ParamRef:
    """A parameter as one layer sees it; ``owner`` is the index of the learnable parameter that it is, or shares."""

    owner: int
    wanted: bool


@dataclass(eq=False)
class Parameter:
    """A parameter that the solver updates: the first of those that share a name."""

    node: Node
    index: int
    name: str
    blob: ParameterSpec
    lr_mult: float | None
    decay_mult: float | None

    @property
    def label(self) -> str:
        return self.name or f"{self.node.name}[{self.index}]"


@dataclass(eq=False)
class Node:
    """A layer in its net. ``index`` counts the layers that this phase keeps, ``place`` those of the file (-1: none of
    them)."""

    index: int
    place: int
    layer: Layer
    bottoms: list[Value] = field(default_factory=list)
    tops: list[Value] = field(default_factory=list)
    params: list[ParamRef] = field(default_factory=list)
    loss_weights: list[float] = field(default_factory=list)
    backward: bool = False
    gradient_to: list[bool] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.layer.name


@dataclass(eq=False)
class Graph:
    """``values`` maps each blob name to its last version; ``outputs`` are the values that nobody reads, by name."""

    name: str
    phase: int
    nodes: list[Node]
    values: dict[str, Value]
    parameters: list[Parameter]
    message: pb.NetParameter
    dropped: list[tuple[str, str]]
    notes: list[str] = field(default_factory=list)

    @property
    def outputs(self) -> list[Value]:
        return [v for _, v in sorted(self.values.items()) if not v.readers]

    @property
    def feeds(self) -> list[Node]:
        return [n for n in self.nodes if n.layer.feeds]

    @property
    def batch_size(self) -> int:
        """Samples in a batch: the first axis of the first blob that feeds the net; 1 where there is none."""
        return next((v.shape[0] for n in self.feeds for v in n.tops if v.shape), 1)

    @property
    def inputs(self) -> dict[str, Value]:
        """The tops of Input layers by name: the first version of each, which in-place layers read."""
        return {v.name: v for n in self.feeds if n.layer.spec.type == "Input" for v in n.tops}

    @property
    def seeds(self) -> list[tuple[Value, float]]:
        """(blob, loss weight) where backward starts: the losses; under force_backward without any, the outputs (0: the
        user sets them)."""
        pairs = [(v, w) for n in self.nodes for v, w in zip(n.tops, n.loss_weights, strict=True)]
        return [(v, w) for v, w in pairs if v.gradient and (w or not v.readers)]

    @property
    def losses(self) -> list[tuple[Value, float]]:
        return [(v, w) for n in self.nodes for v, w in zip(n.tops, n.loss_weights, strict=True) if w]


def keeps(spec: pb.LayerParameter, state: pb.NetState, locate: Locator = NOWHERE) -> str | None:
    """None where the layer belongs to the state, else the reason why not."""
    if spec.include and spec.exclude:
        raise CaffeliteError(
            f'layer "{spec.name}" has include and exclude rules',
            where=locate("exclude", 0),
            remedy="keep rules of one kind",
        )
    reasons = [_mismatch(rule, state) for rule in (spec.include or spec.exclude)]
    if spec.exclude:
        return "an exclude rule holds" if None in reasons else None
    return None if not reasons or None in reasons else "; ".join(reasons)


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


OpenSource = Callable[[pb.LayerParameter, int, Locator], object]


def build(
    net: pb.NetParameter, state: pb.NetState, locate: Locator = NOWHERE, open_source: OpenSource | None = None
) -> Graph:
    """The graph of the layers that ``state`` (phase, level, stages) keeps.

    ``open_source(spec, phase, locate)`` gives a feeding layer its source, which knows the shapes of the data. Raises
    all mistakes of the wiring in one pass, each with its place.
    """
    builder = _Builder(net, state, locate, open_source)
    try:
        return builder.graph()
    except BaseException:
        for node in builder.nodes:
            if getattr(node.layer, "source", None) is not None:
                node.layer.source.close()
        raise


class _Builder:
    def __init__(self, net: pb.NetParameter, state: pb.NetState, locate: Locator, open_source: OpenSource | None):
        self.net, self.state, self.locate, self.open_source = net, state, locate, open_source
        self.nodes: list[Node] = []
        self.values: dict[str, Value | None] = {}  # None: a blob whose shape a mistake hides
        self.parameters: list[Parameter] = []
        self.by_param_name: dict[str, int] = {}
        self.dropped: dict[int, str] = {}  # place in the file → why this phase leaves the layer out
        self.mistakes = Collector()
        self.notes: list[str] = []

    def graph(self) -> Graph:
        if not self.net.layer:
            self.mistakes.add(
                CaffeliteError(
                    "the net has no layers", where=self.locate(), remedy="write layer { ... } for each layer"
                )
            )
        names: dict[str, int] = {}
        for place, spec in enumerate(self.net.layer):
            at = self.locate.at("layer", place)
            try:
                if reason := keeps(spec, self.state, at):
                    self.dropped[place] = reason
                    continue
                self._add(place, spec, at)
                self._note_name(place, spec, names)
            except CaffeliteError as mistake:
                self.mistakes.add(mistake)
                for top in spec.top:
                    self.values.setdefault(top, None)
        self.mistakes.raise_any()
        self._gradients()
        self.mistakes.raise_any()
        dropped = [(self.net.layer[place].name, reason) for place, reason in self.dropped.items()]
        return Graph(
            self.net.name, self.state.phase, self.nodes, self.values, self.parameters, self.net, dropped, self.notes
        )

    def _note_name(self, place: int, spec: pb.LayerParameter, names: dict[str, int]) -> None:
        """Two layers of one name are no mistake in Caffe, but weights are found by name."""
        first = names.setdefault(spec.name, place)
        if first != place and self.nodes and self.nodes[-1].params:
            what = f'layer "{spec.name}" at {self.locate("layer", place, "name")} has the name of the one at'
            self.notes.append(
                f"{what} {self.locate('layer', first, 'name')}: both read and write the same weights in a caffemodel"
            )

    def _add(self, place: int, spec: pb.LayerParameter, at: Locator) -> None:
        layer = layers.create(spec, self.state.phase, at)
        node = Node(len(self.nodes), place, layer)
        self._arity(layer, "bottom", len(spec.bottom), layer.bottoms)
        tops = list(spec.top)
        if layer.loss and not tops:
            tops = [AUTOMATIC]
            layer.spec = pb.LayerParameter()
            layer.spec.CopyFrom(spec)
            layer.spec.top.append(AUTOMATIC)
        self._arity(layer, "top", len(tops), layer.tops)
        bottoms = [self._bottom(spec, i, at, place) for i in range(len(spec.bottom))]
        if len(spec.loss_weight) not in (0, len(tops)):
            what = f"has {len(spec.loss_weight)} loss_weight for {len(tops)} tops"
            raise layer.outer_error(what, "loss_weight", len(tops), expected=f"none, or {len(tops)}")
        if len(spec.propagate_down) not in (0, len(bottoms)):
            what = f"has {len(spec.propagate_down)} propagate_down for {len(bottoms)} bottoms"
            raise layer.outer_error(what, "propagate_down", len(bottoms), expected=f"none, or {len(bottoms)}")
        self._tops(spec, tops, at)
        if any(b is None for b in bottoms):  # a mistake that is already reported hides the shape
            for top in tops:
                self.values[top] = None
            return
        if layer.feeds and self.open_source and hasattr(type(layer), "source"):
            layer.source = self.open_source(spec, self.state.phase, at)
        self.nodes.append(node)
        shapes = layer.shapes([b.shape for b in bottoms])
        for i, bottom in enumerate(bottoms):
            node.bottoms.append(bottom)
            bottom.readers.append((node, i))
        for i, (name, shape) in enumerate(zip(tops, shapes, strict=True)):
            value = Value(name, tuple(int(d) for d in shape), node, i)
            _check_size(layer, f'top "{name}"', value.shape, at("top", i))
            node.tops.append(value)
            if name != AUTOMATIC:
                self.values[name] = value
        node.loss_weights = list(spec.loss_weight) or [1.0 if layer.loss and i == 0 else 0.0 for i in range(len(tops))]
        self._params(node, at)

    def _arity(self, layer: Layer, kind: str, count: int, allowed: tuple[int, int | None]) -> None:
        low, high = allowed
        if count < low or (high is not None and count > high):
            if low == high:
                expected = str(low)
            else:
                expected = f"{low} or more" if high is None else f"{low} to {high}"
            what = f'layer "{layer.name}" ({layer.spec.type}): has {count} {kind} blobs'
            raise CaffeliteError(what, where=layer.locate(kind, low if count < low else high), expected=expected)

    def _bottom(self, spec: pb.LayerParameter, index: int, at: Locator, place: int) -> Value | None:
        name = spec.bottom[index]
        if name in self.values:
            return self.values[name]
        explained = len(self.mistakes.mistakes) < MOST_EXPLAINED
        remedy = (self._maker(name, place) or did_you_mean(name, self.values)) if explained else None
        self.mistakes.add(
            CaffeliteError(
                f'layer "{spec.name}" ({spec.type}): unknown bottom "{name}"', where=at("bottom", index), remedy=remedy
            )
        )
        return None

    def _maker(self, name: str, place: int) -> str | None:
        """Where a blob comes from that the layer at ``place`` cannot see: a layer left out, or one further down."""
        for other, spec in enumerate(self.net.layer):
            if name not in spec.top or other == place:
                continue
            if other in self.dropped:
                return f'layer "{spec.name}" makes it, but is left out: {self.dropped[other]}'
            if other > place:
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
                raise CaffeliteError(what, where=at("top", i), remedy="give it a name of its own")
            seen.add(name)

    def _params(self, node: Node, at: Locator) -> None:
        layer, specs = node.layer, node.layer.spec.param
        if len(specs) > len(layer.param_blobs):
            what = f'layer "{node.name}" ({layer.spec.type}): {len(specs)} param messages'
            raise CaffeliteError(
                what,
                where=at("param", len(layer.param_blobs)),
                expected=f"at most {len(layer.param_blobs)}, one a parameter blob",
            )
        for i, blob in enumerate(layer.param_blobs):
            _check_size(layer, f"parameter {i}", blob.shape, at(layer.field))
            spec = specs[i] if i < len(specs) else pb.ParamSpec()
            if i < layer.frozen_params:
                spec = _frozen(layer, spec, at.at("param", i))
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
            node.params.append(ParamRef(owner, (spec.lr_mult if spec.HasField("lr_mult") else 1.0) != 0))

    def _share(self, first: Parameter, node: Node, index: int, spec: pb.ParamSpec, at: Locator) -> None:
        mine, theirs = node.layer.param_blobs[index].shape, first.blob.shape
        permissive = spec.share_mode == pb.ParamSpec.PERMISSIVE
        fits = math.prod(mine) == math.prod(theirs) if permissive else mine == theirs
        where = at("param", index, "name")
        if not fits:
            what = f'layer "{node.name}": shared parameter "{spec.name}" does not fit that of layer "{first.node.name}"'
            raise CaffeliteError(what, where=where, expected=f"shape {list(theirs)}", found=list(mine))
        for mult in ("lr_mult", "decay_mult"):
            if not spec.HasField(mult):
                continue
            value, earlier = getattr(spec, mult), getattr(first, mult)
            if earlier is not None and earlier != value:
                what = (
                    f'layer "{node.name}": shared parameter "{spec.name}" has another {mult} than in layer '
                    f'"{first.node.name}"'
                )
                raise CaffeliteError(what, where=at("param", index, mult), expected=f"{earlier:g}", found=f"{value:g}")
            setattr(first, mult, value)

    def _gradients(self) -> None:
        """Backward runs where a learned parameter lies below and a loss above, as in Caffe; in TEST only under
        force_backward."""
        force = self.net.force_backward
        if self.state.phase == pb.TEST and not force:
            for node in self.nodes:
                node.gradient_to = [False] * len(node.bottoms)
            return
        for node in self.nodes:
            if node.layer.spec.type == "Parameter" and [
                r.layer.takes_over_gradient for r, _ in node.tops[0].readers
            ] == [True]:
                reader = node.tops[0].readers[0][0]
                node.params[0].wanted = False
                self.notes.append(
                    f'layer "{node.name}" learns nothing, as in Caffe: its only reader, "{reader.name}", takes its '
                    "gradient over"
                )
        refused: dict[Node, list[int]] = {}
        for node in self.nodes:
            layer, down = node.layer, node.layer.spec.propagate_down
            want = [bool(down[i]) if down else b.gradient for i, b in enumerate(node.bottoms)]
            if force and layer.differentiable:
                want = [i not in layer.constant_bottoms for i in range(len(want))]
            want = [w and b.top not in b.node.layer.constant_tops for w, b in zip(want, node.bottoms, strict=True)]
            for i in layer.constant_bottoms & set(range(len(want))):
                if want[i]:
                    refused.setdefault(node, []).append(i)
                want[i] = False
            node.gradient_to = want
            node.backward = layer.differentiable and (any(p.wanted for p in node.params) or any(want))
            for top in node.tops:
                top.gradient = node.backward
        learns = {top for node in self.nodes for top in node.tops if top.gradient}
        under_loss: set[Value] = set()
        if force and not any(any(node.loss_weights) for node in self.nodes):
            under_loss = {top for node in self.nodes for top in node.tops if node.backward and not top.readers}
        asked = set(under_loss)
        for node in reversed(self.nodes):
            contributes = any(w != 0 for w in node.loss_weights) or any(t in under_loss for t in node.tops)
            if (
                contributes
                and not node.layer.differentiable
                and any(b.gradient for b in node.bottoms)
                and any(node.loss_weights)
            ):
                self.mistakes.add(
                    node.layer.outer_error(
                        "has a loss_weight, but no gradient", "loss_weight", 0, remedy="drop loss_weight"
                    )
                )
            for i in sorted(refused.get(node, ()) if contributes else ()):
                what = f'can give its bottom "{node.bottoms[i].name}" no gradient'
                remedy = (
                    "propagate_down: "
                    f"{'false' if len(node.bottoms) == 1 else f'false for bottom {i}, one value a bottom'}"
                )
                self.mistakes.add(node.layer.outer_error(what, "propagate_down", i, remedy=remedy))
            node.backward = node.backward and contributes
            node.gradient_to = [w and node.backward for w in node.gradient_to]
            under_loss.update(b for b, w in zip(node.bottoms, node.gradient_to, strict=True) if w)
        for node in reversed(self.nodes):
            for top, weight in zip(node.tops, node.loss_weights, strict=True):
                seeded = node.backward and weight != 0 and top.top not in node.layer.constant_tops
                top.gradient = (
                    seeded
                    or (top in asked and node.backward)
                    or any(reader.gradient_to[i] for reader, i in top.readers)
                )
            if not any(top.gradient for top in node.tops):
                node.backward, node.gradient_to = False, [False] * len(node.bottoms)
            if (
                not node.layer.differentiable
                and learns & set(node.bottoms)
                and any(r.backward for top in node.tops for r, _ in top.readers)
            ):
                self.notes.append(
                    f'layer "{node.name}" ({node.layer.spec.type}) passes no gradient on: nothing is learned through it'
                )


def _frozen(layer: Layer, spec: pb.ParamSpec, at: Locator) -> pb.ParamSpec:
    """The spec of a parameter that no solver changes; a rate for it is a mistake, as in Caffe."""
    if spec.HasField("lr_mult") and spec.lr_mult:
        what = f'layer "{layer.name}" ({layer.spec.type}): its blobs are statistics, not parameters to learn'
        raise CaffeliteError(what, where=at("lr_mult"), expected="lr_mult: 0, or none", found=f"{spec.lr_mult:g}")
    frozen = pb.ParamSpec()
    frozen.CopyFrom(spec)
    frozen.lr_mult = 0
    return frozen


def _check_size(layer: Layer, what: str, shape: Shape, where: Where) -> None:
    """A blob that has too many axes, holds nothing, or more than 32 bits can count, is a mistake."""
    what = f'layer "{layer.name}" ({layer.spec.type}): {what}'
    if len(shape) > MOST_AXES:
        raise CaffeliteError(
            f"{what} has too many axes", where=where, expected=f"at most {MOST_AXES}, as in Caffe", found=len(shape)
        )
    if min(shape, default=1) < 1:
        raise CaffeliteError(f"{what} is empty", where=where, expected="dimensions of 1 or more", found=list(shape))
    if math.prod(shape) > LARGEST:
        raise CaffeliteError(
            f"{what} is too large",
            where=where,
            expected=f"at most {LARGEST} numbers",
            found=f"{math.prod(shape)} {list(shape)}",
        )
