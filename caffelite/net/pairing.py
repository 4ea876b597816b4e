"""Keeps data layers in step whose samples meet in a loss one by one: an image of one layer and its label of another."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from ..layers.base.facets import Compares
from ..layers.base.feeding import feeding
from .nodes import Node, Value

Feeds = frozenset[Node]


def share_orders(nodes: Sequence[Node]) -> list[str]:
    """Gives data layers that shuffle, whose samples meet in a loss, the order of the first of them, so that pairs stay
    pairs; says where they cannot stay together: one shuffles and the other does not, or they differ in length."""
    notes = []
    pairs = {(first, other): loss for loss, feeds in meetings(nodes) for first, *others in [feeds] for other in others}
    for (first, other), loss in pairs.items():
        if what := _fault(first, other):
            names = f'the samples of layers "{first.name}" and "{other.name}" meet in "{loss.name}"'
            notes.append(f"{other.layer.locate()}: {names}, but {what}")
        elif _shuffles(first):
            feeding(other.layer).source.order = copy.copy(_order(first))
    return notes


def _order(node: Node) -> Any:
    return getattr(feeding(node.layer).source, "order", None)


def _shuffles(node: Node) -> bool:
    return bool(getattr(node.layer.p, "shuffle", False) or getattr(node.layer.p, "rand_skip", 0))


def _fault(first: Node, other: Node) -> str | None:
    """Why two layers cannot read their samples in one order; None where they can."""
    lengths = [feeding(node.layer).source.length for node in (first, other)]
    if lengths[0] != lengths[1]:
        return f"they have {lengths[0]} and {lengths[1]} of them, and so drift apart after the first epoch"
    if _shuffles(first) != _shuffles(other):
        which = first if _shuffles(first) else other
        return f'"{which.name}" alone shuffles or skips: set shuffle or rand_skip in both, or in none'
    plain = {type(_order(node)).__name__ for node in (first, other)} == {"Order"}
    if _shuffles(first) and not plain:
        return "they shuffle apart: put both into one data set, or set shuffle in none"
    return None


def meetings(nodes: Sequence[Node]) -> Iterator[tuple[Node, list[Node]]]:
    """The losses and scores that compare samples one by one, each with the data layers, two or more, whose samples it
    compares: sample i of a top is made of sample i of each."""
    made: dict[Value, Feeds] = {}
    for node in nodes:
        source: Any = feeding(node.layer).source
        compares = Compares.of(node.layer.spec.type)
        if getattr(source, "length", None) and node.tops:
            made |= {top: Feeds([node]) for top in node.tops if top.shape[:1] == node.tops[0].shape[:1]}
        elif compares.classes or compares.probability or compares.values or compares.pairs:
            feeds = Feeds().union(*(made.get(bottom, Feeds()) for bottom in node.bottoms))
            if len(feeds) > 1:
                yield node, sorted(feeds, key=lambda each: each.layer_index)
        else:
            for top in node.tops:
                alike = [made.get(bottom, Feeds()) for bottom in node.bottoms if bottom.shape[:1] == top.shape[:1]]
                made[top] = Feeds().union(*alike)
