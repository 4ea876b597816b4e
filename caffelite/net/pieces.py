"""Passes of nets with layers that need the host: the steps between those are captured in graphs."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..devices.context import ExecutionContext
from ..devices.protocol import Device
from ..devices.types import Array
from ..layers.base.feeding import Feeding, feeding
from .nodes import Node

Call = tuple[Node, Callable]
FEWEST = 2  # steps that a graph is worth


class Pieces:
    """Runs ``steps`` in order: those in a row that graphs can capture as one, the others by themselves.

    fused: the nodes that run as part of another one. built: how often the operations of each node were made.
    """

    def __init__(
        self,
        dev: Device,
        context: ExecutionContext,
        steps: list[Call],
        fused: Mapping[Node, Sequence[Node]],
        built: Mapping[Node, int],
    ):
        self._steps, self._pieces = steps, dict[int, _Piece]()
        indices = itertools.groupby(range(len(steps)), key=lambda i: steps[i][0].layer.requires_host)
        for needs_host, group in indices:
            first, *others = group
            if not needs_host and 1 + len(others) >= FEWEST:
                stop = first + 1 + len(others)
                nodes = [n for node, _ in steps[first:stop] for n in (node, *fused.get(node, ()))]
                self._pieces[first] = _Piece(dev, context, steps, first, stop, list(dict.fromkeys(nodes)), built)

    def run(self, *key: object) -> None:
        """key: what the steps depend on besides their arrays."""
        at = 0
        while at < len(self._steps):
            if at in self._pieces:
                self._pieces[at].run(*key)
                at = self._pieces[at].stop
            else:
                self._steps[at][1]()
                at += 1


class _Piece:
    """Steps from ``first`` to ``stop`` - 1. A graph of them is void once a blob or an operation of theirs is another:
    then the next pass runs eagerly, so that shapes that change each time are never captured."""

    def __init__(
        self,
        dev: Device,
        context: ExecutionContext,
        steps: list[Call],
        first: int,
        stop: int,
        nodes: list[Node],
        built: Mapping[Node, int],
    ):
        self._dev, self._context, self._steps, self._built = dev, context, steps, built
        self._first, self.stop, self._nodes = first, stop, nodes
        self._calls: list[Callable] = []
        self._made: list[int] = []

    def run(self, *key: object) -> None:
        calls, made = [call for _, call in self._steps[self._first : self.stop]], [self._built[n] for n in self._nodes]
        if made != self._made or not all(map(_same, calls, self._calls)):
            self._graph = self._dev.capture(self._queue, self._context, self._signature)
        self._calls, self._made = calls, made
        self._graph(*key)

    def _queue(self, *key: object) -> None:
        for _, call in self._steps[self._first : self.stop]:
            call()

    def _signature(self) -> tuple:
        return tuple(feeding(node.layer).signature() for node in self._nodes if isinstance(node.layer, Feeding))


def _same(call: Callable, other: Callable) -> bool:
    """Whether two calls of a step queue the same."""
    if call is other:
        return True
    if not (isinstance(call, functools.partial) and isinstance(other, functools.partial)):
        return False
    mine, others = list(_arrays(call)), list(_arrays(other))
    return call.func == other.func and len(mine) == len(others) and all(map(_is, mine, others))


def _is(one: object, other: object) -> bool:
    return one is other


def _arrays(call: functools.partial) -> Iterator[Array]:
    for argument in call.args:
        yield from argument if isinstance(argument, list) else [argument]
