"""The plan: in which order a graph runs, where every blob and gradient lies in memory, and what is fused. No arrays
here.

Time counts steps: forward step i of node i at time i, its backward step at 2L - 1 - i (L nodes). Everything that a step
writes is a Storage with a first and a last time; storages whose times do not overlap share bytes of one arena.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from . import slices
from .graph import Graph, Node, Value
from .packing import Storage, aligned, pack
from .slices import Slice

FOREVER = 1 << 60


@dataclass(eq=False)
class Step:
    """One node's run. ``fused``: nodes that run as part of it; the last one's top is its own then. ``beside``: the
    other bottom of a sum among these, the step's last bottom. Backward: the gradient of a bottom in ``spare`` goes
    there. Either it is then added to what other readers brought; or ``sums`` names the values whose gradients are
    complete with this step, with the parts that are to be summed into the value's own; or the value's maker takes them
    as they are: ``parts``, of its top's gradient. ``spoils``: a bottom's gradient overwrites the top's."""

    node: Node
    fused: tuple[Node, ...] = ()
    spare: dict[int, Storage] = field(default_factory=dict)
    beside: Value | None = None
    sums: dict[Value, list[Storage]] = field(default_factory=dict)
    parts: list[Storage] = field(default_factory=list)
    spoils: bool = False

    @property
    def tops(self) -> list[Value]:
        return (self.fused[-1] if self.fused else self.node).tops

    @property
    def bottoms(self) -> list[tuple[Value, bool]]:
        """Each with whether its gradient is wanted."""
        found = list(zip(self.node.bottoms, self.node.gradient_to, strict=True))
        return [*found, (self.beside, self.node.backward)] if self.beside else found


@dataclass(eq=False)
class Plan:
    """``data`` and ``diff`` map values to storages, ``saved`` nodes to {name: storage}; ``seeds`` are (value, weight)
    filled before each backward pass, ``constants`` those filled once; ``undone`` names in-place wishes that would have
    spoilt a gradient; ``data_slices`` and ``diff_slices`` tell of values that lie in another one's storage, or its
    gradient's, where."""

    graph: Graph
    forward: list[Step]
    backward: list[Step]
    data: dict[Value, Storage]
    diff: dict[Value, Storage]
    saved: dict[Node, dict[str, Storage]]
    seeds: list[tuple[Value, float]]
    constants: list[tuple[Value, float]]
    undone: list[str]
    data_slices: dict[Value, Slice]
    diff_slices: dict[Value, Slice]
    adds: bool = True  # whether gradients of one value are added as they come
    arena: int = 0
    constant_bytes: int = 0


def make(graph: Graph, itemsize: int = 4, keep: bool = False, fuse: bool = True, sums: bool = False) -> Plan:
    """Plans a graph for blobs of ``itemsize`` bytes a number.

    keep: every blob and gradient keeps its own memory, so that it can be looked at after the pass (and nothing is
    fused). A view has that of its bottom. sums: gradients that several readers bring are summed at once, when all are
    there, and not one by one.
    """
    return _Planner(graph, itemsize, keep, fuse and not keep, sums).plan()


class _Planner:
    def __init__(self, graph: Graph, itemsize: int, keep: bool, fuse: bool, sums: bool):
        self.graph, self.itemsize, self.keep, self.fuse, self.sums = graph, itemsize, keep, fuse, sums and fuse
        self.span = 2 * len(graph.nodes)
        self.storages: list[Storage] = []
        self.residents: dict[Storage, list[Value]] = defaultdict(list)  # values in it that may still be read
        self.last_reads: dict[Value, int] = {}
        self.data: dict[Value, Storage] = {}
        self.diff: dict[Value, Storage] = {}
        self.data_slices, self.diff_slices = {}, {}
        self.saved: dict[Node, dict[str, Storage]] = {}
        self.undone: list[str] = []
        self.held = {
            v for n in graph.feeds for v in n.tops if n.layer.filled_once
        }  # what stands from one pass to the next
        self.kept = self.held | set(graph.outputs)
        seeded = {v for v, _ in graph.seeds if not v.node.layer.view}
        self.standing = {
            v for v in seeded if not any(r.gradient_to[i] for r, i in v.readers)
        }  # whose gradients are constants

    def plan(self) -> Plan:
        self._fuse()
        self._cut()
        forward = []
        for node in self.graph.nodes:
            if node not in self.swallowed:
                step = Step(node, self.chains.get(node, ()), beside=self.beside.get(node))
                self._place_tops(step)
                forward.append(step)
        backward, seeds, constants = self._gradients()
        tables = self.data, self.diff, self.saved, seeds, constants, self.undone, self.data_slices, self.diff_slices
        plan = Plan(self.graph, forward, backward, *tables, not self.sums)
        plan.constant_bytes = sum(aligned(self.diff[v].bytes) for v, _ in constants)
        plan.arena = pack(self.storages)
        return plan

    def _backward_time(self, node: Node) -> int:
        return self.span - 1 - node.index

    def _bytes(self, value: Value) -> int:
        return math.prod(value.shape) * self._itemsize(value.dtype)

    def _itemsize(self, dtype: str | None) -> int:
        return {"uint8": 1, "uint16": 2, "int32": 4, None: self.itemsize}[dtype]

    def _new(self, count: int, time: int) -> Storage:
        storage = Storage(aligned(count), time, time)
        self.storages.append(storage)
        return storage

    # forward

    def _fuse(self) -> None:
        """Finds the chains of nodes that run as one, forward, and those that run as one backward too."""
        self.chains: dict[Node, tuple[Node, ...]] = {}
        self.whole: dict[Node, Node] = {}  # a node whose backward is part of another's: that one
        self.beside: dict[Node, Value] = {}  # of a node that a sum is fused into: the other bottom of that
        for node in self.graph.nodes:
            layer, chain = node.layer, []
            layer.fused_layer, layer.joined, layer.placed, layer.handed = None, False, set(), set()
            if not self.fuse or node in self.whole:
                continue
            scale = self._only_reader(node)
            if scale and layer.can_fuse(scale.layer) and scale.gradient_to[0] == scale.backward:
                layer.fused_layer = scale.layer
                chain.append(scale)
            if join := self._join(node, chain):
                layer.joined = True
                chain.append(join)
            relu = self._only_reader(chain[-1] if chain else node)
            if relu and layer.can_fuse_relu and _plain_relu(relu) and (chain or not layer.backward_reads_top(0)):
                chain.append(relu)
            if chain:
                self.chains[node] = tuple(chain)
                if layer.fused_layer or layer.can_fuse_relu_backward:
                    self.whole |= dict.fromkeys(chain, node)
        self.swallowed = {part for chain in self.chains.values() for part in chain}

    def _cut(self) -> None:
        """Finds the values that are made, and whose gradients are read, where a concatenation has them in its top."""
        self.tops: dict[Value, Storage] = {}  # of such concatenations, as soon as one of its bottoms is made
        self.cuts = slices.find(self.graph.nodes, self._may_cut) if self.fuse else {}  # the top, and where in it
        for value in self.cuts:
            reader, i = value.readers[0]
            reader.layer.placed.add(i)

    def _may_cut(self, bottom: Value, reader: Node, place: Slice) -> bool:
        if bottom in self.kept or (slices.wished(reader.tops[0]) and self._last_read(bottom) > reader.index):
            return False
        maker = self.whole.get(bottom.node, bottom.node)
        whole = (self.chains.get(maker) or (maker,))[
            -1
        ] is bottom.node  # all that runs with the maker does so backward too
        return slices.fits(
            bottom, reader.tops[0], place, self._itemsize(bottom.dtype), whole and maker.layer.takes_slices
        )

    def _join(self, node: Node, chain: list[Node]) -> Node | None:
        """The sum of what a chain makes and of another blob that was made before, where the node can do that too."""
        last = chain[-1] if chain else node
        join = self._only_reader(last)
        if not join or not node.layer.can_fuse_sum(join.layer):
            return None
        other = join.bottoms[join.bottoms[0] is last.tops[0]]
        wanted = all(join.gradient_to) if join.backward else not node.backward
        if not wanted or other.node.index > node.index:
            return None
        self.beside[node] = other
        return join

    @staticmethod
    def _only_reader(node: Node) -> Node | None:
        """The node that alone reads a node's one top."""
        if len(node.tops) != 1 or len(node.tops[0].readers) != 1 or any(node.loss_weights):
            return None
        return node.tops[0].readers[0][0]

    def _last_read(self, value: Value) -> int:
        """When a value's data is read for the last time."""
        if value not in self.last_reads:
            self.last_reads[value] = self._read_until(value)
        return self.last_reads[value]

    def _read_until(self, value: Value, but: Node | None = None) -> int:
        """When a value's data is read for the last time, by layers other than ``but``'s forward step."""
        if value in self.kept or self.keep:
            return FOREVER
        times = [reader.index for reader, _ in value.readers if reader is not but]
        times += [self._backward_time(r) for r, i in value.readers if r.backward and r.layer.backward_reads_bottom(i)]
        maker = self.whole.get(value.node, value.node)
        reads = maker.layer.backward_reads_top(value.top) or (
            maker is not value.node and (maker.layer.fuses_relu_backward or maker.layer.joined)
        )
        if maker.backward and reads:
            times.append(self._backward_time(maker))
        if value.node.loss_weights[value.top]:  # the loss is added up when all have run
            times.append(len(self.graph.nodes) - 1)
        return max(times, default=value.node.index)

    def _place_tops(self, step: Step) -> None:
        node = step.node
        for i, top in enumerate(step.tops):
            whole, place = self.cuts.get(top, (top, None))
            storage = self.tops.get(whole)
            if storage is None and place is None:
                storage = self._shared(node, i, top) if node.layer.in_place or not step.fused else None
            if storage is None:
                storage = self._new(self._bytes(whole), node.index)
            within = [part.tops[0] for part in (node, *step.fused[:-1])] if step.fused else []
            if place:
                self.tops[whole] = storage
                self.data_slices |= dict.fromkeys((top, *within), place)
            self._put(top, storage.use(0 if top in self.held else node.index))
            storage.use(min(self._last_read(top), self.span))
            for value in within:
                self._put(value, storage)
        self.saved[node] = {}
        for name, (shape, dtype) in node.layer.saved_shapes.items():
            if name == node.layer.ahead and not (
                self.fuse and node.backward and node.gradient_to[0] and node.tops[0] in self.standing
            ):
                continue
            storage = self.saved[node][name] = self._new(math.prod(shape) * self._itemsize(dtype), node.index)
            if node.backward:
                storage.use(self._backward_time(node))

    def _put(self, value: Value, storage: Storage) -> None:
        self.data[value] = storage
        self.residents[storage].append(value)

    def _shared(self, node: Node, i: int, top: Value) -> Storage | None:
        """The bottom's storage, where the top may lie there."""
        if i >= len(node.bottoms):
            return None
        bottom = node.bottoms[i]
        storage = self.data[bottom]
        if node.layer.view:
            return storage
        wish = bottom.name == top.name
        if not node.layer.in_place or self._bytes(bottom) != self._bytes(top) or self.keep:
            return None
        # Views share a storage, so all values there must be done with, not only the bottom. What is done with stays so.
        self.residents[storage] = [v for v in self.residents[storage] if self._last_read(v) >= node.index]
        if all(self._free(v, node) for v in self.residents[storage]):
            return storage
        if wish:
            self.undone.append(node.name)
        return None

    def _free(self, value: Value, node: Node) -> bool:
        """Whether nobody reads a value's data once ``node`` has run forward."""
        last = self._last_read(value)
        return last < node.index or (last == node.index and self._read_until(value, node) < node.index)

    # backward

    def _gradients(self) -> tuple[list[Step], list[tuple[Value, float]], list[tuple[Value, float]]]:
        """Every value with a gradient gets a storage; the first reader in backward order writes it, the others add."""
        seeds, constants, steps = [], [], []
        self.pieces: dict[
            Value, list[Storage]
        ] = {}  # of a value's gradient: what it is the sum of, or what further ones are added to
        self.firsts: dict[Value, tuple[Step, int]] = {}  # the step that brings the first piece, of which bottom of its
        self.holders: dict[Storage, list[Value]] = {}  # the values whose gradients, or parts of them, lie in a storage
        self.left = {v: sum(r.gradient_to[i] for r, i in v.readers) for node in self.graph.nodes for v in node.tops}
        for value, weight in self.graph.seeds:
            if value in self.standing:
                storage = Storage(aligned(self._bytes(value)), 0, self.span)
                constants.append((value, weight))
            else:
                storage = self._new(self._bytes(value), len(self.graph.nodes))
                seeds.append((value, weight))
            self._give(value, storage)
        for node in reversed(self.graph.nodes):
            if node.backward and node not in self.whole:
                steps.append(self._backward_step(node))
        for value, storage in self.diff.items():
            if self.keep or value.node.layer.feeds:  # nobody but the user asked for the gradient of what is fed
                storage.use(self.span)
        return steps, seeds, constants

    def _give(self, value: Value, storage: Storage) -> None:
        """Notes a storage that has the value's gradient, or a part of it."""
        self.diff.setdefault(value, storage)
        self.pieces.setdefault(value, []).append(storage)
        self.holders.setdefault(storage, []).append(value)

    def _backward_step(self, node: Node) -> Step:
        time, step = self._backward_time(node), Step(node)
        if any(part in self.whole for part in self.chains.get(node, ())):
            step.fused, step.beside = self.chains[node], self.beside.get(node)
        for top in step.tops:
            if top.gradient:
                self.diff[top].use(time)
        if self.sums and len(parts := self.pieces.get(step.tops[0], ())) > 1:
            step.parts = [part.use(time) for part in parts]
        bottoms = [(i, bottom) for i, (bottom, wanted) in enumerate(step.bottoms) if wanted and bottom.gradient]
        for i, bottom in bottoms[::-1] if step.beside else bottoms:  # what goes beside may lie on the top's gradient
            self._contribute(step, i, bottom, time)
        for bottom in dict.fromkeys(bottom for _, bottom in bottoms):
            self._complete(step, bottom, time)
        return step

    def _contribute(self, step: Step, i: int, bottom: Value, time: int) -> None:
        """Decides where a step writes a bottom's gradient."""
        first = bottom not in self.pieces
        if first or self.sums:
            storage = self._bottom_diff(step, i, bottom, time)
            self._give(bottom, storage)
        else:
            storage = self.diff[step.node.tops[i]] if step.node.layer.view else self._new(self._bytes(bottom), time)
        if first:
            self.firsts[bottom] = step, i
        else:
            step.spare[i] = storage
            self.diff[bottom].use(time)
        self.left[bottom] -= 1

    def _complete(self, step: Step, bottom: Value, time: int) -> None:
        """Has a bottom's gradient summed where it lies in parts, all of them are there, and its maker wants it
        whole."""
        parts = self.pieces[bottom]
        maker = self.whole.get(bottom.node, bottom.node)
        takes = maker.layer.most_parts if maker.backward and len(bottom.node.tops) == 1 else 1
        if not self.sums or self.left[bottom] or len(parts) <= takes:
            return
        step.sums[bottom] = [part.use(time) for part in parts]
        free = (part for part in parts if self._free_to_write(part, bottom, time))
        target = next(free, None) or self._new(self._bytes(bottom), time)
        if target is not parts[0]:
            first, i = self.firsts[bottom]
            first.spare[i] = parts[0]
        del self.diff[bottom], self.pieces[bottom]
        self._give(bottom, target)

    def _bottom_diff(self, step: Step, i: int, bottom: Value, time: int) -> Storage:
        """Where a bottom's gradient goes. It may be that of the top it comes from, or overwrite it: nobody reads that
        one later, unless it is another value's too."""
        node, beside = step.node, step.beside is not None and i == len(step.node.bottoms)
        passes = self.fuse and (
            step.fused[-1].layer.spec.type != "ReLU" and not step.parts if beside else node.layer.passes_gradient(i)
        )
        top = step.tops[0] if beside or passes else step.tops[i] if i < len(step.tops) else None
        if bottom in self.cuts and self._hands_slices(step, time):
            self.diff_slices[bottom] = self.cuts[bottom][1]
            node.layer.handed.add(i)
            return self.diff[step.tops[0]].use(time)
        if top in self.diff_slices:
            top = None
        if i == 0 and node.layer.ahead in self.saved.get(node, ()):
            return self.saved[node][node.layer.ahead].use(time)
        if top is not None and top.gradient and top not in self.standing:
            parts = step.parts or [self.diff[top]]
            if node.layer.view or (passes and not step.spoils and self._may_share(parts[0], bottom, time)):
                return parts[0].use(time)
            free = next((part for part in parts if self._free_to_write(part, top, time)), None)
            if node.layer.in_place and not self.keep and (beside or i < len(step.tops)) and free:
                step.spoils = True
                return free.use(time)
        return self._new(self._bytes(bottom), time)

    def _hands_slices(self, step: Step, time: int) -> bool:
        """Whether a concatenation's bottoms may have their gradients in its top's: one storage, which nobody else reads
        later."""
        top = step.tops[0]
        if top in self.standing or step.parts:
            return False
        return all(
            v is top or self.cuts.get(v, (None,))[0] is top or self._done(v) <= time
            for v in self.holders[self.diff[top]]
        )

    def _done(self, value: Value) -> int:
        """When a value's gradient is read for the last time."""
        maker = self.whole.get(value.node, value.node)
        return self._backward_time(maker) if maker.backward else self.span

    def _free_to_write(self, storage: Storage, value: Value, time: int) -> bool:
        """Whether no other value's gradient that is still to be read lies there."""
        self.holders[storage] = [
            v for v in self.holders[storage] if v is value or self._done(v) > time
        ]  # what is read stays so
        return all(v is value for v in self.holders[storage])

    def _may_share(self, storage: Storage, bottom: Value, time: int) -> bool:
        """Whether a bottom's gradient may be the very storage that other values have theirs in: nobody may write there
        before all others have read it."""
        others = [v for v in self.holders[storage] if v is not bottom and self._done(v) > time]
        if any(v.node.layer.view for v in (bottom, *others)):
            return not others
        return all(self._next_written(a, time) > self._done(b) for v in others for a, b in ((bottom, v), (v, bottom)))

    def _next_written(self, value: Value, time: int) -> int:
        """When a value's gradient is next changed where it lies: a reader adds to it, or its maker multiplies it by a
        ReLU's slope."""
        times = sorted(self._backward_time(self.whole.get(r, r)) for r, i in value.readers if r.gradient_to[i])
        times = [] if self.sums else times[1:]  # the first one writes it
        maker = self.whole.get(value.node, value.node)
        if maker is not value.node and maker.layer.fuses_relu_backward:
            times.append(self._done(value))
        return min((t for t in times if t >= time), default=FOREVER)


def _plain_relu(node: Node) -> bool:
    """Whether a node is a ReLU whose gradient follows from its top and may overwrite that top's."""
    return node.layer.spec.type == "ReLU" and not node.layer.backward_reads_bottom(0) and not any(node.loss_weights)
