"""Builds the graph of the layers without errors, so that one error does not hide others."""

from bisect import bisect_right
from collections.abc import Iterable
from copy import deepcopy

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Locator, Mistakes
from ..layers import REGISTRY, Shape
from ..layers.base.feeding import feeding_type
from ..net import graph
from ..net.graph import Graph
from ..user_modules import NotImported
from .feeds import Feeds, uncertain
from .reading import Findings, Reading

NEVER = "(left out: a mistake)"  # a stage that no state sets, a type that no layer has


def build(reading: Reading, state: pb.NetState, findings: Findings, feeds: Feeds) -> tuple[Graph | None, bool]:
    """(the graph of the layers without errors, whether these are all). Every error is added to ``findings``, in the
    order of the file.

    The shapes of a layer with errors in its text are not computed, and layers that read its tops are left out: one
    typing error gives one message.
    """
    net, locate = reading.message, reading.locate
    layers = _Layers(net, locate)
    texts = set(reading.broken)
    broken = {position for where in texts if (position := layers.at(where)) is not None}
    built, errors = _try(net, state, locate, feeds)
    if broken:
        reported = [e for e in errors if layers.of(e) in broken and layers.is_leaf(e)]
        reported = [e for e in reported if _position(e) not in texts]
        built, errors = _try(_poisoned(net, broken), state, locate, feeds)
        errors = reported + [e for e in errors if layers.of(e) not in broken]
    faulty: set[int] = set()
    wrong = broken | {layers.of(e) for e in errors}
    while True:
        for error in errors:
            findings.add("note" if error in feeds.missing or isinstance(error, NotImported) else "mistake", error)
        if built or None in wrong or wrong <= faulty:
            return built, not faulty
        faulty |= {position for position in wrong if position is not None}
        built, errors = _try(_without(net, state, faulty), state, locate, feeds)
        wrong = {layers.of(e) for e in errors}


def build_fitting(
    reading: Reading, state: pb.NetState, findings: Findings, feeds: Feeds
) -> tuple[Graph | None, bool, Feeds]:
    """As ``build``; labels of missing data whose shape was assumed get the one that the layers need which read them,
    and the feeds with these shapes come third. Where no shape fits, it is unknown, and its readers have none."""
    errors = Findings()
    fitting, whole = build(reading, state, errors, feeds)
    for labels in _needed(reading.message, fitting, feeds) if fitting and not whole else ():
        others, fit = Findings(), Feeds(feeds.shapes, feeds.labels | labels, feeds.guesses)
        built, whole_now = build(reading, state, others, fit)
        if built and fitting and len(built.nodes) > len(fitting.nodes):
            close(fitting)
            fitting, whole, errors, feeds = built, whole_now, others, fit
        else:
            close(built)
        if whole:
            break
    if not whole and (unclear := uncertain(reading.message, feeds.assumed)):
        others, fit = Findings(), Feeds(feeds.shapes, feeds.labels, feeds.guesses, frozenset(unclear))
        built, whole_now = build(reading, state, others, fit)
        if len(others) < len(errors):
            close(fitting)
            fitting, whole, errors, feeds = built, whole_now, others, fit
            errors.extend(_unknown(reading, unclear))
        else:
            close(built)
    for finding in errors:
        findings.add(finding.kind, finding.error)
    return fitting, whole, feeds


def _unknown(reading: Reading, labels: Iterable[str]) -> Findings:
    """A note for each label of unknown shape."""
    notes = Findings()
    for i, spec in enumerate(reading.message.layer):
        for k, top in enumerate(spec.top):
            if not spec.bottom and top in labels:
                what = f'layer "{spec.name}": the shape of "{top}" is not known without its data'
                batched = feeding_type(REGISTRY[spec.type]).batched if spec.type in REGISTRY else False
                remedy = f"give it, as in -shape {top}=4" if batched else None
                notes.add("note", reading.locate.error(what, "layer", i, "top", k, remedy=remedy))
    return notes


def _needed(net: pb.NetParameter, built: Graph, feeds: Feeds) -> list[dict[str, Shape]]:
    """Shapes that the layers that were not built may need: one label for each pixel, or as many as scores."""
    names, free = {node.name for node in built.nodes}, uncertain(net, feeds.assumed)
    shapes = {top.name: top.shape for node in built.nodes for top in node.tops}
    return [
        dict.fromkeys(labels, shape)
        for spec in net.layer
        if spec.name not in names and spec.bottom and spec.bottom[0] in shapes
        if (labels := [bottom for bottom in spec.bottom[1:] if bottom in free])
        for scores in [shapes[spec.bottom[0]]]
        for shape in dict.fromkeys([(1, *scores[2:]), scores[1:]])
    ]


def close(built: Graph | None) -> None:
    """Closes the sources of a graph."""
    if built:
        built.close()


def _try(
    net: pb.NetParameter, state: pb.NetState, locate: Locator, feeds: Feeds
) -> tuple[Graph | None, list[CaffeliteError]]:
    try:
        return graph.build(net, state, locate, feeds), []
    except CaffeliteError as error:
        return None, error.mistakes if isinstance(error, Mistakes) else [error]


def _position(error: CaffeliteError) -> tuple[int, int] | None:
    return (error.where.line, error.where.column) if error.where else None


class _Layers:
    """The places of layers and values in the file."""

    def __init__(self, net: pb.NetParameter, locate: Locator):
        self.file = locate.file
        starts = [(where.line, where.column) for where in (locate("layer", i) for i in range(len(net.layer)))]
        self.order = sorted(range(len(starts)), key=starts.__getitem__)
        self.starts = [starts[i] for i in self.order]
        self.blocks = {path[:length] for path in locate.positions for length in range(len(path))}
        self.paths: dict[tuple[int, int], list[tuple]] = {}
        for path, position in locate.positions.items():
            self.paths.setdefault(position, []).append(path)

    def at(self, position: tuple[int, int]) -> int | None:
        """The index of the layer that contains a place. A line indented no deeper than the layer is outside it."""
        before = bisect_right(self.starts, position) - 1
        if before < 0 or not any(position):
            return None
        line, column = self.starts[before]
        return None if position[0] > line and position[1] <= column else self.order[before]

    def of(self, error: CaffeliteError) -> int | None:
        position = _position(error)
        if position is None or error.where is None or error.where.file != self.file:
            return None
        return self.at(position)

    def is_leaf(self, error: CaffeliteError) -> bool:
        """Whether an error is at a value, not at a block that may lack a value because of a mistake in the text."""
        position = _position(error)
        paths = self.paths.get(position, []) if position else []
        return bool(paths) and not any(path in self.blocks for path in paths)


def _poisoned(net: pb.NetParameter, broken: Iterable[int]) -> pb.NetParameter:
    """The net in which these layers have a type that fails first."""
    new = deepcopy(net)
    for i in broken:
        new.layer[i].type = NEVER
    return new


def _without(net: pb.NetParameter, state: pb.NetState, faulty: set[int]) -> pb.NetParameter:
    """The net without these layers and the layers that depend on them; the others keep their places."""
    new = deepcopy(net)
    hidden: set[str] = set()
    for i, spec in enumerate(new.layer):
        if i in faulty:
            hidden |= set(spec.top)
        elif hidden & set(spec.bottom) and graph.keeps(spec, state) is None:
            hidden |= set(spec.top)
        elif graph.keeps(spec, state) is None:
            hidden -= set(spec.top)
            continue
        else:
            continue
        spec.CopyFrom(pb.LayerParameter(name=spec.name, type=spec.type, include=[pb.NetStateRule(stage=[NEVER])]))
    return new
