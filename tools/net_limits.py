"""Times the passes of a net's layers in training on a CPU, each beside its limit: its products at the speed of a large
product, or its bytes at that of a large copy, whichever takes longer.

Products are those of the cheapest algorithm that a convolution may take, bytes the fewest that a pass can move.
"""

import argparse
import itertools
import math
import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import bench_inputs
import bench_train

from caffelite.devices import Window, algorithms
from caffelite.inspection import counts, timing

ROOT = Path(__file__).resolve().parent.parent
FORWARD, DATA, WEIGHTS, OTHER = "forward", "data", "weights", "backward"


class Row(NamedTuple):
    """A pass of a layer, or of several of a net with the same shape: milliseconds that it takes, and at least; bound:
    by products or bytes."""

    net: str
    layer: str
    what: str
    of: str
    algorithm: str
    bound: str
    ms: float
    limit: float

    @property
    def loss(self) -> float:
        return self.ms - self.limit


class Need(NamedTuple):
    """What a pass needs: multiply-adds and bytes."""

    products: float
    moved: float


class Split:
    """A product of a layer whose passes are timed one by one; ``laps``: seconds by pass."""

    def __init__(self, op: Any, laps: dict[str, float]):
        self._op, self._laps = op, laps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._op, name)

    def _timed(self, of: str, run, *arguments) -> None:
        begin = time.perf_counter()
        run(*arguments)
        self._laps[of] += time.perf_counter() - begin

    def forward(self, *arguments) -> None:
        self._timed(FORWARD, self._op.forward, *arguments)

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        if dw is not None or db is not None:
            self._timed(WEIGHTS, self._op.backward, x, w, dy, None, dw, db, add_w, add_b)
        if dx is not None:
            self._timed(DATA, self._op.backward, x, w, dy, dx, None, None)


def fewest_products(x: tuple, y: tuple, window: Window, groups: int, of: str) -> float:
    """Multiply-adds of a pass of a channels_last convolution by the cheapest algorithm that it may take."""
    direct = algorithms.work(x, y, window, groups)
    if not algorithms.measured(x, y, window, groups):
        return direct
    if of == FORWARD and algorithms.keeps_order(x, y, window, groups):
        return direct
    counts = [float(direct)]
    for name in algorithms.candidates(x, y, window, groups, False):
        outputs = algorithms.WINOGRAD.get(name)
        if outputs and (of != WEIGHTS or outputs == algorithms.EXACT_TILE):
            tile = algorithms.Tile(outputs, window.kernel[0])
            tiles = algorithms.tile_count(x if of == DATA else y, outputs)
            counts.append(tiles * tile.square * x[1] * y[1] // groups)
    return min(counts)


def _of_product(layer, of: str) -> Need:
    """What a pass of a convolution or an inner product needs."""
    weights = 4 * math.prod(layer.param_blobs[0].shape)
    if hasattr(layer, "x_shape"):
        x, y, group = layer.x_shape, layer.y_shape, layer.p.group
        products = fewest_products(x, y, layer.window, group, of)
    else:
        x, y = (layer.m, layer.k), (layer.m, layer.n)
        products = layer.m * layer.k * layer.n
    return Need(products, weights + 4 * (math.prod(x) + math.prod(y)))


def _shape(node) -> str:
    """The type of a layer and the shapes of its bottom and top, as text; nothing for the update."""
    if node is None or not node.bottoms:
        return node.layer.spec.type if node else ""
    (x, *_), y, window = node.bottoms, node.tops[0], getattr(node.layer, "window", None)
    sizes = [x.shape[0], "×".join(map(str, x.shape[1:])), "to", "×".join(map(str, y.shape[1:]))]
    sides = [f"{window.kernel[0]}×{window.kernel[1]}"] if window else []
    return " ".join(map(str, [node.layer.spec.type, *sides, *sizes]))


def by_shape(rows: list[Row]) -> list[Row]:
    """The rows of one shape, pass and algorithm of a net as one, whose layer is their number; the largest loss
    first."""
    groups: dict[tuple, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.net, row.what, row.of, row.algorithm].append(row)
    joined = [
        each[0]._replace(layer=str(len(each)), ms=sum(row.ms for row in each), limit=sum(row.limit for row in each))
        for each in groups.values()
    ]
    return sorted(joined, key=lambda row: -row.loss)


class Timed:
    """A net in training, whose iterations are timed by layer and pass."""

    def __init__(self, name: str, batch: int):
        path = str(ROOT / f"models/{name}/train_val.prototxt")
        shape = bench_inputs.guess_shape(path)
        net, _ = bench_inputs.read(path, batch, shape)
        setting = argparse.Namespace(precision="fp32", device="cpu", forward=False)
        arrays = bench_inputs.random_batch(net, batch, shape)
        self.name, (self._net, self._updater) = name, bench_train.open_net(setting, net, arrays)
        self.device, self._iterations = self._net.dev, itertools.count()
        self._steps = {step.node.name: step for step in self._net.compiled.forward}
        self._nodes = {node.name: node for node in self._net.graph.nodes}
        for _ in range(3):  # chooses algorithms, compiles
            self._iterate()

    def _iterate(self, observe=(None, None)) -> None:
        self._net.clear_loss()
        self._net.forward(iteration := next(self._iterations), observe=observe[0])
        self._net.backward(observe=observe[1])
        self._updater.run(bench_train.RECIPE["base_lr"], iteration)

    def whole(self, count: int) -> float:
        """Milliseconds of an iteration."""
        return statistics.median(self._lap(self._iterate) for _ in range(count))

    @staticmethod
    def _lap(run) -> float:
        begin = time.perf_counter()
        run()
        return 1e3 * (time.perf_counter() - begin)

    def passes(self, count: int) -> dict[tuple[str, str], float]:
        """Milliseconds by layer and pass, medians; the update's layer has no name."""
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        layers = [node.layer for node in self._net.graph.nodes if hasattr(getattr(node.layer, "op", None), "backward")]
        products = [layer for layer in layers if layer.param_blobs and hasattr(layer, "weights")]
        laps = {layer.name: defaultdict(float) for layer in products}
        before = [(layer, layer.op) for layer in products]
        for layer, op in before:
            layer.op = Split(op, laps[layer.name])
        try:
            for _ in range(count):
                self._time_iteration(found, laps)
        finally:
            for layer, op in before:
                layer.op = op
        return {key: statistics.median(times) for key, times in found.items()}

    def _time_iteration(self, found, laps) -> None:
        marks: list[tuple[str, str, float]] = []

        def observe(of: str):
            return lambda node: marks.append((node.name, of, time.perf_counter()))

        for each in laps.values():
            each.clear()
        begin = time.perf_counter()
        self._iterate((observe(FORWARD), observe(OTHER)))
        end = time.perf_counter()
        times: dict[tuple[str, str], float] = defaultdict(float)
        for name, of, now in marks:
            times[name, of] += now - begin
            begin = now
        times["", "update"] = end - begin
        for name, each in laps.items():
            for of, seconds in each.items():
                times[name, OTHER if of != FORWARD else FORWARD] -= seconds
                times[name, of] += seconds
        for key, seconds in times.items():
            found[key].append(1e3 * seconds)

    def needs(self, name: str, of: str) -> Need:
        """What a pass of a layer, or the update, needs at least."""
        params = self._net.params
        if not name:
            fused = sum(params.blobs[i].size for i in params.fused_gradients)
            return Need(0, 20 * (params.data.size - fused) + 16 * fused)
        step = self._steps.get(name)
        if step is None:  # fused forward, by itself backward: reads top and gradient, writes a gradient
            return Need(0, 12 * math.prod(self._nodes[name].tops[0].shape))
        node = step.node
        layer = node.layer
        if hasattr(layer, "weights") and of in (FORWARD, DATA, WEIGHTS):
            return _of_product(layer, of)
        traffic = counts.traffic_of(step)
        if of == FORWARD:
            return Need(counts.multiply_adds(node), traffic.forward_weights + traffic.forward_blobs)
        if hasattr(layer, "weights"):  # the rest: a ReLU's gradient
            rectified = getattr(layer, "slope", None) is not None
            return Need(0, 12 * math.prod(node.tops[0].shape) * rectified)
        backward = counts.multiply_adds(node) * counts.backward_products(node)
        return Need(backward, traffic.backward_weights + traffic.backward_blobs)

    def rows(self, count: int, ceilings: tuple[float, float] | None = None) -> list[Row]:
        """The passes of ``count`` iterations. ceilings: operations and bytes a second, which are measured otherwise."""
        rows, ceilings = [], ceilings or timing.ceilings(self.device)
        for (name, of), ms in self.passes(count).items():
            need = self.needs(name, of)
            products, moved = 2e3 * need.products / ceilings[0], 1e3 * need.moved / ceilings[1]
            node = self._nodes.get(name)
            taken = getattr(getattr(node and node.layer, "op", None), "taken", {})
            algorithm = taken.get({DATA: "data gradient", WEIGHTS: "weight gradient"}.get(of, of), "")
            bound = "products" if products > moved else "bytes"
            rows.append(Row(self.name, name, _shape(node), of, algorithm, bound, ms, max(products, moved)))
        return rows


def show(rows: list[Row]) -> None:
    """Prints a table of passes: how many layers, milliseconds, those lost, and the share of the limit."""
    print(
        f"{'net':13}{'layers':>6}  {'shape':50}{'pass':10}{'algorithm':11}{'ms':>8}{'lost':>8}{'reached':>9}  bound by"
    )
    for row in rows:
        where = f"{row.net:13}{row.layer:>6}  {row.what or 'update':50}{row.of:10}{row.algorithm:11}"
        print(f"{where}{row.ms:8.2f}{row.loss:8.2f}{row.limit / row.ms:9.0%}  {row.bound}")
