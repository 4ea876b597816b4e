"""Compares two nets: layers, settings, wiring, shapes, parameters, and which weights of one fit the other."""

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from .. import caffelite_pb2 as pb
from ..layers.base import sliding
from ..net.graph import Graph, Node
from . import counts
from .nets import times

WIRING = ("name", "type", "bottom", "top", "include", "exclude", "phase", "blobs", "param")

# How a window may be written; the layer knows what it is
WINDOW = ("kernel_size", "stride", "pad", "dilation", "kernel_h", "kernel_w", "stride_h", "stride_w", "pad_h", "pad_w")


@dataclass
class Change:
    """The differences of a layer that both nets have; other: its name in B."""

    layer: str
    other: str
    what: list[str]


@dataclass
class Difference:
    """fits: layers of A with weights that fit B; clashes: (name, reason) of layers with equal names and weights that do
    not fit; renamed: (A's name, B's name) of weights that would fit under B's name."""

    only_a: list[str]
    only_b: list[str]
    changed: list[Change]
    totals: dict[str, tuple[float, float]]
    fits: list[str] = field(default_factory=list)
    clashes: list[tuple[str, str]] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        return not (self.only_a or self.only_b or self.changed)


def diff(a: Graph, b: Graph) -> Difference:
    pairs = _pairs(a, b)
    theirs = {y: x for x, y in pairs.items()}
    changed = [Change(x.name, y.name, what) for x, y in pairs.items() if (what := list(_changes(x, y, pairs)))]
    difference = Difference(
        [_shown(n) for n in a.nodes if n not in pairs],
        [_shown(n) for n in b.nodes if n not in theirs],
        changed,
        _totals(a, b),
    )
    by_name = {n.name: n for n in a.nodes if n.params}
    for node in (n for n in b.nodes if n.params):
        mine = by_name.get(node.name)
        if mine is None:
            old = theirs.get(node)
            if old is not None and _weights_fit(old, node) is None:
                difference.renamed.append((old.name, node.name))
            else:
                difference.fresh.append(node.name)
        elif why := _weights_fit(mine, node):
            difference.clashes.append((node.name, why))
        else:
            difference.fits.append(node.name)
    return difference


def _shown(node: Node) -> str:
    return f"{node.name} ({node.layer.spec.type})"


def _pairs(a: Graph, b: Graph) -> dict[Node, Node]:
    """Pairs layers of equal name and type; then, between those, layers of equal type and settings in order."""
    named = {(n.name, n.layer.spec.type): n for n in b.nodes}
    pairs = {n: named[n.name, n.layer.spec.type] for n in a.nodes if (n.name, n.layer.spec.type) in named}
    taken = set(pairs.values())

    def keys(nodes: list[Node], other: dict | set) -> list:
        return [n.name if n in other else (n.layer.spec.type, _settings(n)) for n in nodes]

    matcher = difflib.SequenceMatcher(None, keys(a.nodes, pairs), keys(b.nodes, taken), autojunk=False)
    for i, j, size in matcher.get_matching_blocks():
        for x, y in zip(a.nodes[i : i + size], b.nodes[j : j + size], strict=True):
            if x not in pairs and y not in taken:
                pairs[x] = y
                taken.add(y)
    return {n: pairs[n] for n in a.nodes if n in pairs}


def _settings(node: Node) -> str:
    return repr(sorted((name, str(value)) for name, value in _fields(node.layer.spec) if name not in WIRING))


def _fields(message: Message) -> Iterator[tuple[str, object]]:
    for descriptor, value in message.ListFields():
        yield descriptor.name, value


def _changes(x: Node, y: Node, pairs: dict[Node, Node]) -> Iterator[str]:
    if x.name != y.name:
        yield f"is called {y.name}"
    if x.layer.spec.type != y.layer.spec.type:
        yield f"type: {x.layer.spec.type} → {y.layer.spec.type}"
    makers = [(pairs.get(u.node), v.node, u, v) for u, v in zip(x.bottoms, y.bottoms, strict=False)]
    if len(x.bottoms) != len(y.bottoms) or any(mine is not theirs or u.top != v.top for mine, theirs, u, v in makers):
        yield f"reads: {_makers(x)} → {_makers(y)}"
    left, right = sliding.window_of(x.layer), sliding.window_of(y.layer)
    if left is not None and right is not None:
        for name, before, after in zip(left._fields, left, right, strict=True):
            if before != after:
                yield f"{name}: {times(before)} → {times(after)}"
    yield from _messages("", x.layer.spec, y.layer.spec, WIRING if left is None or right is None else WIRING + WINDOW)
    for i, (u, v) in enumerate(zip(x.tops, y.tops, strict=False)):
        if u.shape != v.shape:
            yield f"top {i}: {times(u.shape)} → {times(v.shape)}"
    for i, (p, q) in enumerate(zip(x.layer.param_blobs, y.layer.param_blobs, strict=False)):
        if p.shape != q.shape:
            yield f"parameter {i}: {times(p.shape)} → {times(q.shape)}"
    for i in range(max(len(x.layer.spec.param), len(y.layer.spec.param))):
        one, other = (n.layer.spec.param[i] if i < len(n.layer.spec.param) else pb.ParamSpec() for n in (x, y))
        yield from _messages(f"param {i} ", one, other)


def _makers(node: Node) -> str:
    return ", ".join(v.node.name for v in node.bottoms) or "nothing"


def _messages(before: str, x: Message, y: Message, but: tuple[str, ...] = ()) -> Iterator[str]:
    """The fields with different values; a field that is not set counts as its default."""
    for name in sorted({f for m in (x, y) for f, _ in _fields(m)} - set(but)):
        u, v, enum = getattr(x, name), getattr(y, name), x.DESCRIPTOR.fields_by_name[name].enum_type
        names = {value.number: value.name for value in enum.values} if enum else {}
        if isinstance(u, Message):
            yield from _messages(f"{before}{name}.", u, v, but)
        elif (list(u) != list(v)) if not isinstance(u, str | bytes) and hasattr(u, "__len__") else u != v:
            yield f"{before}{name}: {_value(u, names)} → {_value(v, names)}"


def _value(value: Any, names: Mapping[int, str]) -> str:
    """The text of a field's value: of any scalar type, a message, or a repeated field. names: those of its enum, by
    number; empty for other types."""
    if not isinstance(value, str | bytes) and hasattr(value, "__len__"):
        return " ".join(_value(one, names) for one in value) or "none"
    if names:
        return names[value]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Message):
        return "{ " + str(value).replace("\n", " ") + "}"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def _weights_fit(x: Node, y: Node) -> str | None:
    """None if the weights of A's layer fit B's, else the reason. Leading axes of 1 are ignored, as in old
    caffemodels."""
    mine, theirs = ([p.shape for p in n.layer.param_blobs] for n in (x, y))
    if len(mine) != len(theirs):
        return f"{len(mine)} blobs → {len(theirs)}"
    for i, (u, v) in enumerate(zip(mine, theirs, strict=True)):
        if without_leading_ones(u) != without_leading_ones(v):
            return f"blob {i}: {times(u)} → {times(v)}"
    return None


def without_leading_ones(shape: Sequence[int]) -> Sequence[int]:
    """A shape as blobs are compared: old files store every blob with four axes."""
    return shape[next((i for i, d in enumerate(shape) if d != 1), len(shape)) :]


def _totals(a: Graph, b: Graph) -> dict[str, tuple[float, float]]:
    def of(g: Graph) -> tuple[float, ...]:
        parameters = sum(math.prod(p.blob.shape) for p in g.parameters if not p.blob.statistic)
        work = sum(map(counts.multiply_adds, g.nodes)) / max(g.batch_size, 1)
        return len(g.nodes), parameters, work, g.batch_size

    names = ("layers", "parameters", "multiply-adds a sample", "batch")
    return {name: (x, y) for name, x, y in zip(names, of(a), of(b), strict=True)}
