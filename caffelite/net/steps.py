"""The steps of a compiled net: what runs, in which order, on which storages; and when each blob is read."""

from collections.abc import Collection
from dataclasses import dataclass, field

from .fusion import Fusions
from .nodes import Graph, Node, Value
from .packing import Storage
from .sealing import Sealable

FOREVER = 1 << 60
ITEMSIZES = {"uint8": 1, "bfloat16": 2, "float16": 2, "int32": 4}


@dataclass(eq=False)
class Step(Sealable):
    """One run of a node, forward or backward. ``fused``: nodes that run as part of it; the last one's top is its top
    then. ``summand``: the other bottom of a fused sum, the step's last bottom.

    Backward: ``partial``: by bottom, the storage of a gradient that is only a part of the value's. Either it is then
    added to what other readers contributed; or ``sums`` has the values with gradients that this step completes,
    each with the parts that are to be summed into its own; or the step that computed the value takes them as they are:
    its ``parts``. ``overwrites_gradient``: a bottom's gradient overwrites the top's."""

    node: Node
    fused: tuple[Node, ...] = ()
    summand: Value | None = None
    partial: dict[int, Storage] = field(default_factory=dict)
    sums: dict[Value, list[Storage]] = field(default_factory=dict)
    parts: list[Storage] = field(default_factory=list)
    overwrites_gradient: bool = False

    @property
    def tops(self) -> list[Value]:
        return (self.fused[-1] if self.fused else self.node).tops

    @property
    def inner_tops(self) -> list[Value]:
        """What its layers compute before its top in memory of their own, because the top has another shape."""
        members = (self.node, *self.fused[:-1]) if self.fused else ()
        return [member.tops[0] for member in members if member.tops[0].shape != self.tops[0].shape]

    @property
    def bottoms(self) -> list[tuple[Value, bool]]:
        """Each with whether its gradient is wanted."""
        bottoms = list(zip(self.node.bottoms, self.node.gradient_to, strict=True))
        return [*bottoms, (self.summand, self.node.backward)] if self.summand else bottoms


class Lifetimes:
    """When values are read. Time counts steps: forward step i of node i at time i, its backward step at 2L - 1 - i (L
    nodes). keep: all blobs, and what layers save for backward, stay as they are between passes too, so that any layers
    can run again; retained: these values stay to the end of the pass."""

    def __init__(self, graph: Graph, fusions: Fusions, keep: bool, retained: Collection[Value]):
        self.fusions, self.keep, self.retained = fusions, keep, retained
        self.count = len(graph.nodes)
        self.span = 2 * self.count
        self._last_reads: dict[Value, int] = {}

    def backward_time(self, node: Node) -> int:
        return self.span - 1 - node.index

    def last_read(self, value: Value) -> int:
        """When a value's data is read for the last time."""
        if value not in self._last_reads:
            self._last_reads[value] = self.read_until(value)
        return self._last_reads[value]

    def read_until(self, value: Value, but: Node | None = None) -> int:
        """When a value's data is read for the last time, by layers other than ``but``'s forward step."""
        if value in self.retained or self.keep:
            return FOREVER
        times = [reader.index for reader, _ in value.readers if reader is not but]
        times += [self.backward_time(reader) for reader, i in value.readers if reader.reads_bottom(i)]
        maker = self.fusions.runner(value.node)
        if maker.reads_top(value.top):
            times.append(self.backward_time(maker))
        if value.node.loss_weights[value.top]:  # losses are summed when all layers have run
            times.append(self.count - 1)
        return max(times, default=value.node.index)

    def gradient_read(self, value: Value) -> int:
        """When a value's gradient is read for the last time."""
        maker = self.fusions.runner(value.node)
        return self.backward_time(maker) if maker.backward else self.span
