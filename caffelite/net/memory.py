"""Assigns storages to blobs, gradients and what layers save: which share one, and until when each is in use."""

import math
from collections import defaultdict
from collections.abc import Callable

from ..layers import GRADIENT, Layer
from ..layers.activation import ReLU
from ..layers.base.config import SENT
from ..layers.base.feeding import Feeding
from ..layers.base.fusing import FusingProduct
from ..layers.base.state import saved_blobs
from ..layers.batch_norm import BatchNorm
from ..layers.concat_slice import Concat
from ..layers.eltwise import Eltwise
from .fusion import Fusions
from .nodes import Graph, Node, Value, changed
from .packing import Storage, aligned
from .slices import Slice, Slices
from .steps import FOREVER, Lifetimes, Step


class Storages:
    """All storages of the arena. itemsize: bytes of a number by its dtype."""

    def __init__(self, itemsize: Callable[[str | None], int]):
        self.itemsize = itemsize
        self.all: list[Storage] = []

    def size(self, value: Value) -> int:
        """Bytes of a value."""
        return math.prod(value.shape) * self.itemsize(value.dtype)

    def new(self, count: int, time: int) -> Storage:
        """A storage of ``count`` bytes or a few more, first used at ``time``."""
        storage = Storage(aligned(count), time, time)
        self.all.append(storage)
        return storage


class DataMemory:
    """The storages of blobs (``data``, with ``slices`` of those stored in a wider one) and of what layers save
    (``saved``). constant_gradients: losses with gradients that never change."""

    def __init__(
        self,
        storages: Storages,
        lifetimes: Lifetimes,
        in_tops: Slices,
        filled_once: set[Value],
        constant_gradients: set[Value],
    ):
        self.storages, self.lifetimes, self.in_tops = storages, lifetimes, in_tops
        self.filled_once, self.constant_gradients = filled_once, constant_gradients
        self.data: dict[Value, Storage] = {}
        self.slices: dict[Value, Slice] = {}
        self.saved: dict[Node, dict[str, Storage]] = {}
        self.refused_in_place: list[str] = []
        self._stored: dict[Storage, list[Value]] = defaultdict(list)  # values in it that may still be read
        self._joint: dict[Value, Storage] = {}  # of concatenations that store one of their bottoms already

    def store_tops(self, step: Step) -> None:
        """Gives the tops of a forward step, and what its layers compute in between, their storages."""
        node, lifetimes = step.node, self.lifetimes
        for i, top in enumerate(step.tops):
            whole, region = self.in_tops.get(top, (top, None))
            storage = self._joint.get(whole)
            if storage is None and region is None and (node.layer.in_place or not step.fused):
                storage = self._of_bottom(node, i, top)
            if storage is None:
                storage = self.storages.new(self.storages.size(whole), node.index)
            within = [member.tops[0] for member in (node, *step.fused[:-1])] if step.fused else []
            within = [value for value in within if value not in step.inner_tops]
            if region:
                self._joint[whole] = storage
                self.slices |= dict.fromkeys((top, *within), region)
            self._store(top, storage.use(0 if lifetimes.keep or top in self.filled_once else node.index))
            storage.use(min(lifetimes.last_read(top), lifetimes.span))
            for value in within:
                self._store(value, storage)
        for value in step.inner_tops:
            own = self.storages.new(self.storages.size(value), node.index)
            self._store(value, own.use(min(lifetimes.last_read(value), lifetimes.span)))

    def store_saved(self, node: Node, fuse: bool, begin: int) -> None:
        """Assigns storages to the blobs that a layer saves, from the step ``begin`` on. Among them is a gradient that
        forward can compute already only where that never changes."""
        self.saved[node] = {}
        for name, (shape, dtype) in saved_blobs(node.layer).items():
            if name == GRADIENT and not (fuse and self._gradient_is_constant(node)):
                continue
            size = math.prod(shape) * self.storages.itemsize(dtype)
            storage = self.saved[node][name] = self.storages.new(size, begin)
            if name == SENT or (self.lifetimes.keep and node.backward):
                storage.use(0).use(self.lifetimes.span)
            elif node.backward:
                storage.use(self.lifetimes.backward_time(node))

    def _gradient_is_constant(self, node: Node) -> bool:
        return node.backward and node.gradient_to[0] and node.tops[0] in self.constant_gradients

    def _store(self, value: Value, storage: Storage) -> None:
        self.data[value] = storage
        self._stored[storage].append(value)

    def _of_bottom(self, node: Node, i: int, top: Value) -> Storage | None:
        """The bottom's storage, where the top can be stored there. In-place is a request that may be refused, and
        of the first top alone: another one is not computed from the bottom of its number."""
        if i >= len(node.bottoms):
            return None
        bottom = node.bottoms[i]
        storage = self.data[bottom]
        if node.layer.view:
            return storage
        if i or not node.layer.in_place or self.lifetimes.keep or self.storages.size(bottom) != self.storages.size(top):
            return None
        # Views share a storage, so no value in it may still be read, not only the bottom. Values once done stay done.
        last_read = self.lifetimes.last_read
        self._stored[storage] = [v for v in self._stored[storage] if last_read(v) >= node.index]
        if all(self._unread_after(v, node) for v in self._stored[storage]):
            return storage
        if bottom.name == top.name:
            self.refused_in_place.append(node.name)
        return None

    def _unread_after(self, value: Value, node: Node) -> bool:
        """Whether no step reads a value's data after ``node`` has run forward."""
        last = self.lifetimes.last_read(value)
        return last < node.index or (last == node.index and self.lifetimes.read_until(value, node) < node.index)


class GradientMemory:
    """The storages of gradients (``diff``, with ``slices`` of those stored in a wider one), and the backward ``steps``.

    Every value with a gradient gets a storage; the first reader in backward order writes it, the others add; where
    ``sums``, the parts that several readers contribute are summed at once. fuse: gradients may share storages.
    """

    def __init__(
        self, graph: Graph, storages: Storages, lifetimes: Lifetimes, data: DataMemory, fuse: bool, sums: bool
    ):
        self.graph, self.storages, self.lifetimes, self.data = graph, storages, lifetimes, data
        self.fusions: Fusions = lifetimes.fusions
        self.fuse, self.sums = fuse, sums
        self.diff: dict[Value, Storage] = {}
        self.slices: dict[Value, Slice] = {}
        self.steps: list[Step] = []
        self.starts: list[tuple[Value, float]] = []  # gradients that are filled before each backward pass
        self.constants: list[tuple[Value, float]] = []  # gradients that are filled once
        # The parts that sum to a value's gradient; only the first one where gradients are added as they are computed.
        self._parts: dict[Value, list[Storage]] = {}
        self._first: dict[Value, tuple[Step, int]] = {}  # the step that contributes the first part, and its bottom
        self._holders: dict[Storage, list[Value]] = {}  # by storage, the values with a gradient or a part of one in it
        self._pending = {v: sum(r.gradient_to[i] for r, i in v.readers) for node in graph.nodes for v in node.tops}

    def store(self) -> None:
        """Assigns all storages."""
        for value, weight in self.graph.loss_starts:
            if value in self.data.constant_gradients:
                storage = Storage(aligned(self.storages.size(value)), 0, self.lifetimes.span, constant=True)
                self.constants.append((value, weight))
            else:
                storage = self.storages.new(self.storages.size(value), self.lifetimes.count)
                self.starts.append((value, weight))
            self._add_part(value, storage)
        for node in reversed(self.graph.nodes):
            if node.backward and node not in self.fusions.backward_in:
                self.steps.append(self._step(node))
        for value, storage in self.diff.items():
            if self.lifetimes.keep:
                storage.use(0).use(self.lifetimes.span)
            elif isinstance(value.node.layer, Feeding):  # only the user reads gradients of fed blobs
                storage.use(self.lifetimes.span)

    def _add_part(self, value: Value, storage: Storage) -> None:
        """Records a storage that has the value's gradient, or a part of it."""
        self.diff.setdefault(value, storage)
        self._parts.setdefault(value, []).append(storage)
        self._holders.setdefault(storage, []).append(value)

    def _step(self, node: Node) -> Step:
        time, step = self.lifetimes.backward_time(node), Step(node)
        if any(member in self.fusions.backward_in for member in self.fusions.chains.get(node, ())):
            step.fused, step.summand = self.fusions.chains[node], self.fusions.summands.get(node)
        for top in step.tops:
            if top.gradient:
                self.diff[top].use(time)
        if self.sums and step.tops and len(parts := self._parts.get(step.tops[0], ())) > 1:
            step.parts = [storage.use(time) for storage in parts]
        bottoms = [(i, bottom) for i, (bottom, wanted) in enumerate(step.bottoms) if wanted and bottom.gradient]
        # A summand comes first: its gradient may be stored where the top's is.
        in_top = [i for i, bottom in (bottoms[::-1] if step.summand else bottoms) if self._contribute(step, i, bottom)]
        if in_top:
            node.layer = changed(node.layer, stored_gradients=frozenset(in_top))
        for bottom in dict.fromkeys(bottom for _, bottom in bottoms):
            self._complete(step, bottom, time)
        return step

    def _contribute(self, step: Step, i: int, bottom: Value) -> bool:
        """Decides where a step writes a bottom's gradient. Returns whether that is in the top's."""
        time, in_top = self.lifetimes.backward_time(step.node), False
        first = bottom not in self._parts
        if first or self.sums:
            if in_top := bottom in self.data.in_tops and self._stores_slices(step, time):
                self.slices[bottom] = self.data.in_tops[bottom][1]
                storage = self.diff[step.tops[0]].use(time)
            else:
                storage = self._storage(step, i, bottom, time)
            self._add_part(bottom, storage)
        elif step.node.layer.view and i < len(step.node.tops):
            storage = self.diff[step.node.tops[i]]
        else:
            storage = self.storages.new(self.storages.size(bottom), time)
        if first:
            self._first[bottom] = step, i
        else:
            step.partial[i] = storage
        self._pending[bottom] -= 1
        return in_top

    def _complete(self, step: Step, bottom: Value, time: int) -> None:
        """Lets a step sum a bottom's gradient where it has several parts, all of them are computed, and the step that
        reads it does not take them as they are."""
        parts = self._parts[bottom]
        maker = self.fusions.runner(bottom.node)
        most = _most_parts(maker.layer) if maker.backward and len(bottom.node.tops) == 1 else 1
        if not self.sums or self._pending[bottom] or len(parts) <= most:
            return
        step.sums[bottom] = [storage.use(time) for storage in parts]
        free = (storage for storage in parts if self._can_overwrite(storage, bottom, time))
        target = next(free, None) or self.storages.new(self.storages.size(bottom), time)
        if target is not parts[0]:
            first, i = self._first[bottom]
            first.partial[i] = parts[0]
        del self.diff[bottom], self._parts[bottom]
        self._add_part(bottom, target)

    def _storage(self, step: Step, i: int, bottom: Value, time: int) -> Storage:
        """Where a bottom's gradient is stored. It may share or overwrite the gradient of the top:
        no step reads that one later, unless it is another value's too."""
        node, summand = step.node, step.summand is not None and i == len(step.node.bottoms)
        if summand:
            passes = not isinstance(step.fused[-1].layer, ReLU) and not step.parts
        else:
            passes = isinstance(node.layer, Eltwise) and node.layer.passes_gradient(i)
        passes = self.fuse and passes
        top = step.tops[0] if summand or passes else step.tops[i] if i < len(step.tops) else None
        if i == 0 and (early := self.data.saved.get(node, {}).get(GRADIENT)):
            return early.use(time)
        if top is None or top in self.slices or not top.gradient or top in self.data.constant_gradients:
            return self.storages.new(self.storages.size(bottom), time)
        parts = step.parts or [self.diff[top]]
        if node.layer.view or (passes and not step.overwrites_gradient and self._can_share(parts[0], bottom, time)):
            return parts[0].use(time)
        free = next((storage for storage in parts if self._can_overwrite(storage, top, time)), None)
        if free and node.layer.in_place and not self.lifetimes.keep and (summand or i < len(step.tops)):
            step.overwrites_gradient = True
            return free.use(time)
        return self.storages.new(self.storages.size(bottom), time)

    def _stores_slices(self, step: Step, time: int) -> bool:
        """Whether the gradients of a concatenation's bottoms can be stored in its top's: one storage, which no other
        step reads later."""
        top = step.tops[0]
        if top in self.data.constant_gradients or step.parts:
            return False
        in_tops, read = self.data.in_tops, self.lifetimes.gradient_read
        holders = self._holders[self.diff[top]]
        return all(v is top or in_tops.get(v, (None,))[0] is top or read(v) <= time for v in holders)

    def _can_overwrite(self, storage: Storage, value: Value, time: int) -> bool:
        """Whether a storage has no other value's gradient that is still to be read."""
        read = self.lifetimes.gradient_read
        self._holders[storage] = [v for v in self._holders[storage] if v is value or read(v) > time]
        return all(v is value for v in self._holders[storage])

    def _can_share(self, storage: Storage, bottom: Value, time: int) -> bool:
        """Whether a bottom's gradient can be in the very storage of other values' gradients: nobody may write there
        before all others have read it."""
        read = self.lifetimes.gradient_read
        others = [v for v in self._holders[storage] if v is not bottom and read(v) > time]
        if any(v.node.layer.view for v in (bottom, *others)):
            return not others
        return all(self._next_written(a, time) > read(b) for v in others for a, b in ((bottom, v), (v, bottom)))

    def _next_written(self, value: Value, time: int) -> int:
        """When a value's gradient is next changed in place: a reader adds to it, or its maker multiplies it by a ReLU's
        slope."""
        runner, backward_time = self.fusions.runner, self.lifetimes.backward_time
        times = sorted(backward_time(runner(r)) for r, i in value.readers if r.gradient_to[i])
        times = [] if self.sums else times[1:]  # the first one writes it
        maker = runner(value.node)
        if maker is not value.node and isinstance(maker.layer, FusingProduct):
            times.append(self.lifetimes.gradient_read(value))
        return min((t for t in times if t >= time), default=FOREVER)


def _most_parts(layer: Layer) -> int:
    """In how many arrays, at most, a layer's backward takes its only top's gradient."""
    return layer.most_gradient_parts() if isinstance(layer, BatchNorm | Concat) else 1
