"""Repeats one iteration layer by layer and records statistics of every array, so that the first NaN or infinity can be
found."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np

from ...layers.base.feeding import Feeding
from ...net.graph import Node
from ..iteration import Passes


@dataclass
class TracedArray:
    """Statistics of an array just after a layer wrote it, over its finite values.

    micro_batch: its number. direction: forward or backward. what: 'top "conv1"', 'gradient of "data"', 'parameter 0' …
    rows: indices on axis 0 with values that are not finite.
    """

    micro_batch: int
    direction: str
    layer: str
    type: str
    what: str
    shape: list[int]
    least: float
    greatest: float
    mean_abs: float
    nans: int
    infinities: int
    rows: list[int] = field(default_factory=list)

    @property
    def bad(self) -> bool:
        return bool(self.nans or self.infinities)

    def record(self) -> dict[str, object]:
        return asdict(self)


def statistics(micro_batch: int, direction: str, node: Node, what: str, array: np.ndarray) -> TracedArray:
    """The statistics of a host array."""
    finite = np.isfinite(array)
    good = array[finite].astype(np.float64)
    nans = int(np.isnan(array).sum())
    rows = np.flatnonzero(~finite.reshape(len(array), -1).all(1)).tolist() if array.ndim and not finite.all() else []
    least, greatest, mean = (good.min(), good.max(), np.abs(good).mean()) if good.size else (np.nan,) * 3
    values = float(least), float(greatest), float(mean), nans, int(array.size - good.size) - nans
    return TracedArray(micro_batch, direction, node.name, node.layer.spec.type, what, list(array.shape), *values, rows)


class Tracer:
    """Records the arrays of a pass, in the order in which layers write them: ``forward`` and ``backward`` are called
    after each layer.

    Parameters come before the tops that are made from them, gradients of parameters after those of bottoms. received:
    called with a micro-batch, a feeding layer and what it read.
    """

    def __init__(self, passes: Passes, received: Callable[[int, Node, list[np.ndarray]], None] | None):
        self._passes, self._received = passes, received
        self._steps = {step.node: step for net in passes.pipeline.nets for step in net.compiled.forward}
        self.traced: list[TracedArray] = []

    def _record(self, direction: str, node: Node, what: str, array: np.ndarray) -> None:
        self.traced.append(statistics(self._passes.micro_batch, direction, node, what, array))

    def forward(self, node: Node) -> None:
        net, step = self._passes.running, self._steps[node]
        download = net.dev.download
        arrays = [download(net.shown(net.data[v], v)) for v in step.tops]
        if self._received and isinstance(node.layer, Feeding):
            self._received(self._passes.micro_batch, node, arrays)
        for one in (node, *step.fused) if not self._passes.micro_batch else ():
            for i, param in enumerate(one.layer.params):
                self._record("forward", one, f"parameter {i}", download(param.data))
        for value, array in zip(step.tops, arrays, strict=True):
            self._record("forward", node, f'top "{value.name}"', array)

    def backward(self, node: Node) -> None:
        net, download = self._passes.running, self._passes.running.dev.download
        for i, value in enumerate(node.bottoms):
            if (gradient := net.gradient(node, i)) is not None:
                self._record("backward", node, f'gradient of "{value.name}"', download(net.shown(gradient, value)))
        for i, param in enumerate(node.layer.params):
            if param.wanted:
                gradient = net.params.gradient(node.params[i].owner) if param.diff is None else param.diff
                self._record("backward", node, f"gradient of parameter {i}", download(gradient))


def trace(
    passes: Passes, iteration: int, received: Callable[[int, Node, list[np.ndarray]], None] | None = None
) -> list[TracedArray]:
    """Repeats the passes of an iteration in this process alone; the arrays that layers wrote, in order."""
    tracer = Tracer(passes, received)
    passes.net.clear_loss()
    passes.forward_backward(iteration, forward=[tracer.forward], backward=[tracer.backward], reduce=False)
    return tracer.traced
