"""Builds the graph of a net for inspection: one phase, with shapes even if its data is missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from .. import caffelite_pb2 as pb, prototxt
from ..errors import CaffeliteError, Locator, Mistakes, did_you_mean
from ..layers import REGISTRY, Shape
from ..layers.base import unknown_types
from ..net import graph
from ..net.graph import Graph, Node
from ..prototxt.overrides import Overrides
from ..training import nets
from . import partial
from .feeds import Absent, Feeds, label_shapes, rebatched, stand_ins, with_inputs
from .reading import Findings, Reading, tolerant

NO_FEEDS = ("Parameter",)  # layers without bottoms that provide no data
NOTHING = Overrides()


@dataclass
class InspectedNet:
    """The net that a command inspects, the solver that uses it, if any, and the shapes that the user gave."""

    message: pb.NetParameter
    locate: Locator
    shapes: dict[str, Shape]
    level: int | None = None
    stages: tuple[str, ...] = ()
    solver: pb.SolverParameter | None = None
    states: tuple[pb.NetState, ...] = ()
    tests: int = 0  # how many of a solver's test nets there are
    ignored: tuple[CaffeliteError, ...] = ()  # unknown fields, as mistakes

    def graph(self, phase: int, batch: int | None = None) -> tuple[Graph, list[str]]:
        """The graph of a phase, and notes about the guessed shapes of data that is not there."""
        net = with_inputs(self.message if batch is None else rebatched(self.message, batch), self.shapes)
        labels = label_shapes(net)
        feeds = Feeds(self.shapes, labels)
        try:
            return self._result(self._build(net, phase, feeds), feeds)
        except CaffeliteError as first:
            fewest = first
            candidates = list(stand_ins(net, feeds))
            for shapes in candidates:
                guess = self._guess(shapes, labels)
                try:
                    return self._result(self._build(net, phase, guess), guess, feeds.unshaped, shapes)
                except CaffeliteError as error:
                    fewest = min(fewest, error, key=mistakes_in)
            likeliest = candidates[0] if candidates else {}
            fit = self._guess(likeliest, labels)
            fitting, whole, fit = partial.build_fitting(Reading(net, self.locate), self._state(phase), Findings(), fit)
            if fitting is None or not whole or fit.unknown:
                raise fewest from None  # what no guess mends
            return self._result(fitting, fit, feeds.unshaped, likeliest)

    def _guess(self, shapes: dict[str, Shape], labels: dict[str, Shape]) -> Feeds:
        """Feeds with these shapes where the user gave none."""
        return Feeds(shapes | self.shapes, labels, shapes.keys() - self.shapes.keys())

    def timed(self, phase: int) -> tuple[pb.NetParameter, list[str]]:
        """The net with zeros in place of data that is not there, which take as long to compute, and notes about
        guessed shapes. Errors: mistakes of the net; data that is there but cannot be read."""
        built, notes = self.graph(phase)
        absent = {n.name: [top.shape for top in n.tops] for n, source in built.sources if isinstance(source, Absent)}
        new, state = pb.NetParameter(), self._state(phase)
        new.CopyFrom(with_inputs(self.message, self.shapes))
        for spec in new.layer:
            if spec.name in absent and graph.keeps(spec, state) is None:
                spec.type = "DummyData"
                spec.dummy_data_param.shape.extend(pb.BlobShape(dim=shape) for shape in absent[spec.name])
        return new, notes

    def _build(self, net: pb.NetParameter, phase: int, feeds: Feeds) -> Graph:
        return graph.build(net, self._state(phase), self.locate, feeds)

    def buildable(self, phase: int) -> tuple[Graph, list[str], list[CaffeliteError]]:
        """As ``graph``, without what cannot be built (layers of unknown types, layers with mistakes, and what depends
        on them), and the reasons. Errors: only data layers are left."""
        try:
            return *self.graph(phase), []
        except CaffeliteError:
            net, unshaped, shapes = with_inputs(self.message, self.shapes), [], {}
            built, findings, feeds = self._partial(net, phase, {})
            if feeds.unshaped:  # no layer that can be built contradicts the likeliest shape
                unshaped, shapes = feeds.unshaped, next(stand_ins(net, feeds))
                built, findings, feeds = self._partial(net, phase, shapes)
            if built is None or len(built.nodes) == len(built.feeds):
                raise
        return *self._result(built, feeds, unshaped, shapes), [finding.error for finding in findings]

    def _partial(
        self, net: pb.NetParameter, phase: int, shapes: dict[str, Shape]
    ) -> tuple[Graph | None, Findings, Feeds]:
        feeds, findings = self._guess(shapes, label_shapes(net)), Findings()
        built, _, feeds = partial.build_fitting(Reading(net, self.locate), self._state(phase), findings, feeds)
        return built, findings, feeds

    def _state(self, phase: int) -> pb.NetState:
        return graph.net_state(
            phase, self.message, next((s for s in self.states if s.phase == phase), None), self.level, self.stages
        )

    def _result(
        self,
        built: Graph,
        feeds: Feeds,
        unshaped: Sequence[tuple[str, str]] = (),
        tried: Mapping[str, Shape] = MappingProxyType({}),
    ) -> tuple[Graph, list[str]]:
        """The graph, and notes about guessed shapes. unshaped: tops without a known shape; tried: the shapes that
        were assumed for them, where no layer needed another one."""
        partial.close(built)
        tried = {top: feeds.labels.get(top, shape) for top, shape in tried.items()}
        notes = [f'layer "{name}": "{top}" taken as {times(shape)} by {why}' for name, top, shape, why in feeds.guessed]
        needed = {top for _, top in unshaped} | {top for top, shape in tried.items() if shape}
        shapes = {top: shape for top, shape in tried.items() if top in needed and top not in self.shapes}
        if shapes:
            assumed = ", ".join(f'"{top}" as {times(shape)}' for top, shape in shapes.items())
            remedy = " ".join(f"-shape {top}={'x'.join(map(str, shape))}" for top, shape in shapes.items())
            notes.append(f"the shape of a sample is not known; assumed {assumed}: give the right one, as in {remedy}")
        return built, notes


def mistakes_in(error: CaffeliteError) -> int:
    return len(error.mistakes) if isinstance(error, Mistakes) else 1


def inspected_net(
    model: str | None,
    solver: str | None,
    shapes: dict[str, Shape],
    level: int | None = None,
    stages: tuple[str, ...] = (),
    overrides: Overrides = NOTHING,
    lenient: bool = False,
    either: bool = False,
) -> InspectedNet:
    """The net of ``model``, or the one that ``solver`` trains, with ``overrides``. lenient: unknown fields of the net
    are ignored and listed. either: whether the user had the choice of -model and -solver."""
    ignored: list[CaffeliteError] = []
    tolerate = tolerant(ignored) if lenient else unknown_types.tolerate
    if not solver:
        if model is None:
            raise ValueError("neither a model nor a solver is given")
        document = overrides.net(prototxt.read_net(model, tolerate=tolerate, either=either))
        return InspectedNet(document.message, document.locate, shapes, level, stages, ignored=tuple(ignored))
    document = overrides.solver(prototxt.read_solver(solver, unknown_types.tolerate, either=either))
    train = nets.train_net(document.message, document.locate, tolerate=tolerate)
    tests = nets.test_nets(document.message, document.locate, tolerate)
    overrides.nets([train])
    states = (train.state, *(spec.state for spec in tests[:1]))
    if any(spec.locate.file != train.locate.file for spec in tests):
        states = states[:1]
    return InspectedNet(
        train.message, train.locate, shapes, level, stages, document.message, states, len(tests), tuple(ignored)
    )


def phases(requested: str | None, net: pb.NetParameter) -> list[int]:
    """The requested phase, or the phases that the net is made for."""
    return [pb.Phase.Value(requested.upper())] if requested else phases_of(net)


def phases_of(net: pb.NetParameter) -> list[int]:
    """The phases in which the net has data, both if that is not clear; TEST for a net without losses and scores. One
    that has a part of the other's data alone, and lacks blobs for it, is none."""
    fed: dict[int, set[str]] = {}  # the layers that feed it
    wired: set[int] = set()
    scored = False
    for phase in (pb.TRAIN, pb.TEST):
        state = graph.net_state(phase, net)
        try:
            layers = [spec for spec in net.layer if graph.keeps(spec, state) is None]
        except CaffeliteError:  # building the net reports invalid rules
            return [pb.TRAIN, pb.TEST]
        feeds = {spec.name for spec in layers if not spec.bottom and spec.type not in NO_FEEDS}
        if feeds:
            fed[phase] = feeds
        if {bottom for spec in layers for bottom in spec.bottom} <= {top for spec in layers for top in spec.top}:
            wired.add(phase)
        scored |= any(any(spec.loss_weight) or (spec.type in REGISTRY and REGISTRY[spec.type].loss) for spec in layers)
    phases = [phase for phase in fed if phase in wired or not any(fed[phase] < feeds for feeds in fed.values())]
    if scored:
        return phases or [pb.TRAIN, pb.TEST]
    return [pb.TEST] if pb.TEST in phases or not phases else phases


def node_of(built: Graph, name: str) -> Node:
    """The layer with this name. Errors: there is none; the error suggests the nearest name."""
    node = next((n for n in built.nodes if n.name == name), None)
    if node is None:
        why = dict(built.dropped).get(name)
        near = did_you_mean(name, [n.name for n in built.nodes])
        phase = pb.Phase.Name(built.phase)
        raise CaffeliteError(
            f'no layer "{name}" in {phase}',
            remedy=f"it is left out: {why}" if why else near or "caffelite summary lists them",
        )
    return node


def times(shape: Shape) -> str:
    return "×".join(map(str, shape)) or "1"
