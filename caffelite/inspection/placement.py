"""Layered layout of a directed graph from top to bottom, with few crossings and straight long edges.

After Sugiyama, Tagawa and Toda 1981: ranks by the longest path, an edge over several ranks becomes a chain of points,
the order within a rank follows the neighbors' mean positions. Horizontal positions solve a linear program, as in
Gansner, Koutsofios, North and Vo 1993.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

GAP_X, GAP_Y, LANE = 28.0, 46.0, 14.0  # between boxes, between ranks, the width that a passing edge takes
SWEEPS = 24
Key = TypeVar("Key")


@dataclass(eq=False)
class Vertex:
    """A box of a size, or a point where an edge passes (key None). x: its center, y: its upper end."""

    key: object
    width: float
    height: float
    rank: int = 0
    x: float = 0.0
    y: float = 0.0
    up: list[Vertex] = field(default_factory=list)
    down: list[Vertex] = field(default_factory=list)


@dataclass
class Layout:
    """Boxes by key, and for each edge (its number in the list given) the points that it passes between its ends."""

    boxes: dict[object, Vertex]
    bends: list[list[Vertex]]
    width: float
    height: float


def lay_out(sizes: Mapping[Key, tuple[float, float]], edges: Sequence[tuple[Key, Key, object]]) -> Layout:
    """sizes: (width, height) by key, in an order in which edges lead forward. edges: (from, to, bundle); one bundle's
    share points."""
    boxes: dict[object, Vertex] = {key: Vertex(key, *size) for key, size in sizes.items()}
    pairs = [(boxes[a], boxes[b]) for a, b, _ in edges]
    _rank(boxes, pairs)
    points: dict[tuple, Vertex] = {}
    bends = [_chain(a, b, bundle, points) for (a, b), (_, _, bundle) in zip(pairs, edges, strict=True)]
    ranks: list[list[Vertex]] = [[] for _ in range(1 + max((v.rank for v in boxes.values()), default=0))]
    for vertex in [*boxes.values(), *points.values()]:
        ranks[vertex.rank].append(vertex)
    ranks = _ordered(ranks)
    _across(ranks)
    height = _down(ranks)
    left = min((v.x - v.width / 2 for rank in ranks for v in rank), default=0)
    for rank in ranks:
        for vertex in rank:
            vertex.x -= left
    return Layout(boxes, bends, max((v.x + v.width / 2 for rank in ranks for v in rank), default=0), height)


def _rank(boxes: dict[object, Vertex], pairs: list[tuple[Vertex, Vertex]]) -> None:
    """The longest path from above; then what has nothing above it moves down to its first reader."""
    below: dict[Vertex, list[Vertex]] = {v: [] for v in boxes.values()}
    fed = set()
    for a, b in pairs:
        below[a].append(b)
        fed.add(b)
    for vertex in boxes.values():
        for other in below[vertex]:
            other.rank = max(other.rank, vertex.rank + 1)
    for vertex in boxes.values():
        if vertex not in fed and below[vertex]:
            vertex.rank = min(other.rank for other in below[vertex]) - 1


def _chain(a: Vertex, b: Vertex, bundle: object, points: dict[tuple, Vertex]) -> list[Vertex]:
    """The points of an edge; those of its bundle that are there already are shared."""
    chain, last = [], a
    for rank in range(a.rank + 1, b.rank):
        key = (a, bundle, rank)
        if key not in points:
            points[key] = Vertex(None, LANE, 0, rank)
            last.down.append(points[key])
            points[key].up.append(last)
        last = points[key]
        chain.append(last)
    last.down.append(b)
    b.up.append(last)
    return chain


def _ordered(ranks: list[list[Vertex]]) -> list[list[Vertex]]:
    """The best of several sweeps by mean positions, down and up in turn."""
    best, least = [list(rank) for rank in ranks], _crossings(ranks)
    for sweep in range(SWEEPS):
        if not least:
            break
        down = sweep % 2 == 0
        for rank in ranks if down else reversed(ranks):
            positions = {v: i for other in ranks for i, v in enumerate(other)}
            target = {}
            for i, vertex in enumerate(rank):
                near = [positions[n] for n in (vertex.up if down else vertex.down)]
                target[vertex] = sum(near) / len(near) if near else i
            rank.sort(key=target.__getitem__)
        count = _crossings(ranks)
        if count < least:
            best, least = [list(rank) for rank in ranks], count
    return best


def _crossings(ranks: list[list[Vertex]]) -> int:
    total = 0
    for upper, lower in zip(ranks, ranks[1:], strict=False):
        position = {v: i for i, v in enumerate(lower)}
        ends = [position[n] for v in upper for n in sorted(v.down, key=lambda n: position.get(n, 0)) if n in position]
        total += sum(ends[i] > ends[j] for i in range(len(ends)) for j in range(i + 1, len(ends)))
    return total


def _across(ranks: list[list[Vertex]]) -> None:
    """x of every vertex: edges as upright as can be (the least sum of their weighted widths), then what is still free
    in the middle."""
    import numpy as np
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    number = {v: i for i, v in enumerate(v for rank in ranks for v in rank)}
    edges = [(v, other) for v in number for other in v.down]
    adjacent = [(a, b) for rank in ranks for a, b in zip(rank, rank[1:], strict=False)]
    rows = [((a, 1), (b, -1), (None, -1)) for a, b in edges] + [((a, -1), (b, 1), (None, -1)) for a, b in edges]
    positions, values = [], []
    for row, terms in enumerate(rows + [((a, 1), (b, -1)) for a, b in adjacent]):
        for vertex, value in terms:
            positions.append((row, number[vertex] if vertex else len(number) + row % len(edges)))
            values.append(value)
    limits = np.array([0.0] * len(rows) + [-_gap(a, b) for a, b in adjacent])
    cost = np.array([1e-4] * len(number) + [_pull(a, b) for a, b in edges])
    if len(limits):
        matrix = csr_array((values, np.array(positions).T), (len(limits), len(cost)))
        for vertex, x in zip(number, linprog(cost, matrix, limits).x, strict=False):
            vertex.x = float(x)
    _center(ranks, edges)


def _gap(a: Vertex, b: Vertex) -> float:
    return (a.width + b.width) / 2 + GAP_X


def _pull(a: Vertex, b: Vertex) -> float:
    """The weight of an edge in the linear program: highest inside long edges, lowest where they end at a box."""
    points = (a.key is None) + (b.key is None)
    return (4.0, 1.0, 6.0)[points]


def _center(ranks: list[list[Vertex]], edges: list[tuple[Vertex, Vertex]]) -> None:
    """Moves each column of vertices with one x to the middle of the range in which its edges are as short."""
    root = {v: v for rank in ranks for v in rank}

    def find(v: Vertex) -> Vertex:
        while root[v] is not v:
            v = root[v]
        return v

    for a, b in edges:
        if (
            abs(a.x - b.x) < 0.5
            and _only(a.down) in (b, None)
            and _only(b.up) in (a, None)
            and (a.key is None) == (b.key is None)
        ):
            root[find(b)] = find(a)
    columns: dict[Vertex, list[Vertex]] = {}
    for vertex in root:
        columns.setdefault(find(vertex), []).append(vertex)
    ends: dict[Vertex, tuple[Vertex | None, Vertex | None]] = {v: (None, None) for v in root}
    for rank in ranks:
        for i, vertex in enumerate(rank):
            ends[vertex] = (rank[i - 1] if i else None, rank[i + 1] if i + 1 < len(rank) else None)
    for sweep in range(SWEEPS):
        for column in sorted(columns.values(), key=lambda c: c[0].x, reverse=bool(sweep % 2)):
            x, members = column[0].x, set(column)
            pulls = sorted((n.x, _pull(v, n)) for v in column for n in v.up + v.down if n not in members)
            if not pulls:
                continue
            target = (_median(pulls) - _median([(-at, pull) for at, pull in reversed(pulls)])) / 2
            low = max((one.x + _gap(one, v) for v in column if (one := ends[v][0])), default=target)
            high = min((one.x - _gap(v, one) for v in column if (one := ends[v][1])), default=target)
            for vertex in column:
                vertex.x = max(low, min(target, high)) if low <= high else x


def _only(near: list[Vertex]) -> Vertex | None | bool:
    """The one box among neighbors; None where there are only points, False where there are several boxes."""
    boxes = [v for v in near if v.key is not None]
    return boxes[0] if len(boxes) == 1 else False if boxes else None


def _median(pulls: list[tuple[float, float]]) -> float:
    """The weighted median of (place, weight); of two the first."""
    half, total = sum(weight for _, weight in pulls) / 2, 0.0
    for at, weight in pulls:
        total += weight
        if total >= half:
            return at
    return 0.0


def _down(ranks: list[list[Vertex]]) -> float:
    """y of every vertex; the height of all."""
    y = 0.0
    for rank in ranks:
        height = max((v.height for v in rank), default=0)
        for vertex in rank:
            vertex.y = y
            if vertex.key is None:
                vertex.height = height
        y += height + GAP_Y
    return max(y - GAP_Y, 0)
