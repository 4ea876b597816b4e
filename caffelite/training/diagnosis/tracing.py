"""One iteration run again layer by layer: what each blob and gradient holds, and which of them is the first with a NaN
or an infinity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

import numpy as np

from ...net.graph import Node
from ...net.net import Net


@dataclass
class Seen:
    """An array just after a layer wrote it. direction: forward or backward; what: 'top "conv1"', 'gradient of "data"',
    'parameter 0' …; rows: places on axis 0 that are not finite. Numbers are over the finite values."""

    part: int
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

    def record(self) -> dict:
        return asdict(self)


def look(part: int, direction: str, node: Node, what: str, array: np.ndarray) -> Seen:
    finite = np.isfinite(array)
    good = array[finite].astype(np.float64)
    nans = int(np.isnan(array).sum())
    rows = np.flatnonzero(~finite.reshape(len(array), -1).all(1)).tolist() if array.ndim and not finite.all() else []
    least, greatest, mean = (good.min(), good.max(), np.abs(good).mean()) if good.size else (np.nan,) * 3
    numbers = float(least), float(greatest), float(mean), nans, int(array.size - good.size) - nans
    return Seen(part, direction, node.name, node.layer.spec.type, what, list(array.shape), *numbers, rows)


def trace(
    net: Net, iteration: int, parts: int, rank: int = 0, size: int = 1, fed: Callable | None = None
) -> Iterator[Seen]:
    """Runs the micro-batches of an iteration and yields what layers wrote, in order. fed(part, node, arrays) gets what
    feeding layers read.

    Parameters come before the tops that are made from them; gradients of parameters after those of bottoms.
    """
    found: list[Seen] = []
    steps = {step.node: step for step in net.compiled.forward}
    down = net.dev.download
    part = 0

    def forward(node: Node) -> None:
        arrays = [down(net.shown(net.data[v], v)) for v in steps[node].tops]
        if fed and node.layer.feeds:
            fed(part, node, arrays)
        if not part:
            for one in (node, *steps[node].fused):
                found.extend(
                    look(part, "forward", one, f"parameter {i}", down(p.data)) for i, p in enumerate(one.layer.params)
                )
        found.extend(
            look(part, "forward", node, f'top "{v.name}"', array)
            for v, array in zip(steps[node].tops, arrays, strict=True)
        )

    def backward(node: Node) -> None:
        for i, value in enumerate(node.bottoms):
            if (gradient := net.gradient(node, i)) is not None:
                array = down(net.shown(gradient, value))
                found.append(look(part, "backward", node, f'gradient of "{value.name}"', array))
        for i, param in enumerate(node.layer.params):
            if param.wanted:
                found.append(look(part, "backward", node, f"gradient of parameter {i}", down(param.diff)))

    net.clear_loss()
    for part in range(parts):  # noqa: B007
        net.forward(iteration, part * size + rank, forward)
        yield from found
        found.clear()
        net.backward(add=part > 0, watch=backward)
        yield from found
        found.clear()
