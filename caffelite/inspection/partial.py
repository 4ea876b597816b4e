"""A graph of what is right in a net, so that one mistake hides no other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from .. import caffelite_pb2 as pb
from .. import graph
from ..errors import CaffeliteError, Locator, Mistakes
from ..graph import Graph
from ..user_modules import NotImported
from .feeds import Feeds
from .reading import Findings, Reading

NEVER = "(left out: a mistake)"  # a stage that no state sets, a type that no layer has


def build(reading: Reading, state: pb.NetState, findings: Findings, feeds: Feeds) -> tuple[Graph | None, bool]:
    """(the graph of the layers without mistakes, whether it is all of them). Every mistake goes to ``findings``, in the file's order.

    A layer whose text has mistakes is not asked for its shapes, and what reads its tops goes without: one typing error, one message.
    """
    net, locate = reading.message, reading.locate
    starts = [(w.line, w.column) for w in (locate("layer", i) for i in range(len(net.layer)))]
    broken = {place for where in reading.broken if (place := _layer_at(starts, where)) is not None} if any(starts) else set()
    found, errors = _try(net, state, locate, feeds)
    if broken:
        told = [e for e in errors if _layer(starts, e, locate) in broken and _is_leaf(e, locate)]
        told = [e for e in told if (e.where.line, e.where.column) not in reading.broken]
        found, errors = _try(_poisoned(net, broken), state, locate, feeds)
        errors = told + [e for e in errors if _layer(starts, e, locate) not in broken]
    faulty: set[int] = set()
    wrong = broken | {_layer(starts, e, locate) for e in errors}
    while True:
        for error in errors:
            findings.add("note" if error in feeds.missing or isinstance(error, NotImported) else "mistake", error)
        if found or None in wrong or wrong <= faulty:
            return found, not faulty
        faulty |= wrong
        found, errors = _try(_without(net, state, faulty), state, locate, feeds)
        wrong = {_layer(starts, e, locate) for e in errors}


def _try(net: pb.NetParameter, state: pb.NetState, locate: Locator, feeds: Feeds) -> tuple[Graph | None, list[CaffeliteError]]:
    try:
        return graph.build(net, state, locate, feeds), []
    except CaffeliteError as error:
        return None, error.mistakes if isinstance(error, Mistakes) else [error]


def _layer_at(starts: list[tuple[int, int]], place: tuple[int, int]) -> int | None:
    """Which layer holds a place of the file, by where layers start; what is indented no deeper than a layer stands outside."""
    order = sorted(range(len(starts)), key=starts.__getitem__)
    at = bisect_right([starts[i] for i in order], place) - 1
    if at < 0 or not any(place):
        return None
    line, column = starts[order[at]]
    return None if place[0] > line and place[1] <= column else order[at]


def _layer(starts: list[tuple[int, int]], error: CaffeliteError, locate: Locator) -> int | None:
    if error.where is None or error.where.file != locate.file:
        return None
    return _layer_at(starts, (error.where.line, error.where.column))


def _is_leaf(error: CaffeliteError, locate: Locator) -> bool:
    """Whether an error stands at a value, not at a block that may lack one for the text's mistake."""
    place = (error.where.line, error.where.column)
    paths = [path for path, where in locate.places.items() if where == place]
    return bool(paths) and not any(len(other) > len(p) and other[: len(p)] == p for p in paths for other in locate.places)


def _poisoned(net: pb.NetParameter, broken: Iterable[int]) -> pb.NetParameter:
    """The net with layers that fail before they are asked for anything."""
    new = pb.NetParameter()
    new.CopyFrom(net)
    for i in broken:
        new.layer[i].type = NEVER
    return new


def _without(net: pb.NetParameter, state: pb.NetState, faulty: set[int]) -> pb.NetParameter:
    """The net without these layers and all that hangs on them; the others keep their places."""
    new = pb.NetParameter()
    new.CopyFrom(net)
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
