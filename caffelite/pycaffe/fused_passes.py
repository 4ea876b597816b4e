"""Complete forward passes of a net for Python by a fused plan, which stores few blobs; the others are computed when a
program reads them.

A net of pycaffe has every blob after a pass, so that its own plan can fuse nothing. Most programs read the outputs
alone. So complete passes run a second net with the same parameters, compiled for inference: batch norms folded, ReLUs
and sums fused, weights packed once. It stores the outputs and the blobs that the program has asked for.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..layers.base.state import carried, varies, writes
from ..layers.data import Input
from ..net.net import Net
from ..net.nodes import Graph, Value

Shapes = dict[str, tuple[int, ...]]  # of the inputs, by name
PARAMETERS: Any = object()  # in place of a blob's name
MOST_BLOBS = 8  # that a fused plan stores besides the outputs; for more the net's own plan is as fast


class _Memory:
    """The base of an array that was handed out. NumPy lets views of views refer to the last array before a base that is
    no array, so that this lives as long as anything that a program made of the array."""

    def __init__(self, array: np.ndarray):
        self.__array_interface__ = array.__array_interface__
        self._array = array


class FusedPasses:
    """The fused plan of ``net``, which has every blob (``compile.Options.keep``).

    open: returns the fused net for shapes of the inputs, with these blobs stored. run: a pass of ``net`` itself.
    Where blobs are older than the last pass, ``stale``, a read of one runs ``net`` on the inputs of that pass.
    """

    def __init__(self, net: Net, open: Callable[[Shapes, frozenset[str]], Net], run: Callable[[int], None]):
        self._net, self._open, self._run = net, open, run
        self._inputs = net.graph.inputs
        self._always = {*self._inputs, *(value.name for value in net.graph.outputs)}
        self._results: list[tuple[Value, Value]] = []  # what the fused net stores, and where the program sees it
        self._fused: Net | None = None
        self._stored: frozenset[str] = frozenset()  # blobs of the fused net besides the outputs
        self._shapes: Shapes = {}  # of the fused net's inputs
        self._next: Shapes = {}  # of the last pass, where they were others
        self._read: set[Any] = set()  # blobs that were read since the last pass
        self._held: dict[Any, list[weakref.ref[_Memory]]] = defaultdict(list)
        self._iteration = 0
        self.stale = False

    def watches(self, name: str) -> bool:
        """Whether reads of a blob matter: its values may be older than the last pass."""
        return name not in self._always

    def handed_out(self, name: str, array: np.ndarray) -> np.ndarray:
        """The array of a blob, or of a parameter (``PARAMETERS``), for the program: it may keep it, and write to it."""
        self._read.add(name)
        if self.stale and name not in self._stored:
            self.refresh()
        memory, held = _Memory(array), self._held[name]
        held[:] = [one for one in held if one() is not None]
        held.append(weakref.ref(memory))
        return np.asarray(memory)

    def forward(self, iteration: int, names: Sequence[str]) -> bool:
        """Runs a complete pass, after which the blobs ``names`` have their values. Returns False where the net's own
        plan is to run instead: the program uses many blobs or parameters, or the inputs have other shapes than at the
        pass before."""
        wanted = self._wanted(names)
        shapes = {name: tuple(self._net.data[value].shape) for name, value in self._inputs.items()}
        if PARAMETERS in wanted:
            self.parameters_change()
        if PARAMETERS in wanted or len(wanted) > MOST_BLOBS or not self._ready(shapes, wanted):
            self.stale = False
            return False
        assert self._fused
        net, fused = self._net, self._fused
        fused.set_inputs(**{name: net.data[value] for name, value in self._inputs.items()})
        fused.clear_loss()
        fused.forward(iteration)
        if fused.inference:
            fused.inference.fixed = True
        fused.check_faults()
        for value, own in self._results:
            np.copyto(net.shown(net.data[own], own), fused.shown(fused.data[value], value))
        self._iteration, self.stale = iteration, True
        return True

    def _wanted(self, names: Sequence[str]) -> set[str]:
        """The blobs that the program uses: those of the call, those read since the last pass, and those of which it
        holds an array."""
        held = {name for name, memories in self._held.items() if any(memory() is not None for memory in memories)}
        wanted = (self._read | held | set(names)) - self._always
        self._read = set()
        return wanted

    def _ready(self, shapes: Shapes, wanted: Collection[str]) -> bool:
        """Whether the fused net fits; opens it where that pays."""
        if self._fused and shapes != self._shapes and shapes != self._next:
            self._next = shapes  # pays from the second pass on
            return False
        if not self._fused or shapes != self._shapes or not self._stored.issuperset(wanted):
            stored = self._stored.union(wanted)
            stored = stored if len(stored) <= MOST_BLOBS else frozenset(wanted)
            self._fused, self._shapes, self._stored = self._open(shapes, stored), shapes, stored
            own, fused = self._net.graph.values, self._fused.graph
            names = {*stored, *(value.name for value in fused.outputs)}
            self._results = [(fused.values[name], own[name]) for name in names]
        self._next = shapes
        return True

    def parameters_change(self) -> None:
        """The next fused pass compares the parameters with those of the pass before."""
        if self._fused and self._fused.inference:
            self._fused.inference.fixed = False

    def refresh(self) -> None:
        """Gives all blobs but the stored ones the values of the last pass. The inputs stay as they are now."""
        if not self.stale:
            return
        net, fused = self._net, self._fused
        assert fused
        with net.dev.lock:
            self.stale = False
            names = {*self._always, *self._stored}
            arrays: dict[str, np.ndarray] = {name: net.blobs[name] for name in names}
            now = {name: array.copy() for name, array in arrays.items()}
            for name, value in fused.graph.inputs.items():
                np.copyto(arrays[name], fused.data[value])
            self._run(self._iteration)
            for name, array in arrays.items():
                np.copyto(array, now[name])


def can_fuse(graph: Graph) -> bool:
    """Whether a second net can run the passes of a graph: the program alone feeds it, and no layer writes over an
    input, has a state, writes files, runs a user's code or gives its tops other shapes by the data."""
    if graph.phase != pb.TEST or graph.message.force_backward or graph.scheduled or not graph.feeds:
        return False
    fed = all(isinstance(node.layer, Input) for node in graph.feeds)
    own = [carried(n.layer) or varies(n.layer) or writes(n.layer) or n.layer.requires_host for n in graph.nodes]
    return fed and not any(own) and all(graph.values[name] is value for name, value in graph.inputs.items())
