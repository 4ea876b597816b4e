"""Random nets with random placements: every part ends, and together they compute the numbers of the whole net."""

import os
import random

import numpy as np
import pytest
from parts import assert_same, train_parts, train_whole
from test_stages import FILL
from textnet import build, feed, inputs, wired

from caffelite.errors import CaffeliteError
from caffelite.layers.base.compilation import includes
from caffelite.layers.base.division import divides_outputs
from caffelite.net.graph import Graph
from caffelite.net.partition.analysis import Analysis
from caffelite.net.partition.placement import Division, LayerPlacement, Placement

IMAGE, ROW = (4, 4, 4, 4), (4, 16)
# Nets, of which EACH are one test; CAFFELITE_RANDOM_NETS=540 tries more of them.
NETS, EACH = int(os.environ.get("CAFFELITE_RANDOM_NETS", "60")), 20
ANY = "ReLU Dropout TanH Eltwise Eltwise Split Concat Slice Softmax InnerProduct Flatten".split()
IMAGES = ["Convolution", "Convolution", "Convolution", "Pooling", "BatchNorm", "Scale", "PReLU", "LRN", "MVN"]
PARAMS = {
    "InnerProduct": f"inner_product_param {{ num_output: 16 {FILL} }}",
    "Pooling": "pooling_param { kernel_size: 3 stride: 1 pad: 1 }",
    "Scale": 'scale_param { bias_term: true filler { type: "uniform" min: 0.5 max: 1.5 } }',
    "LRN": "lrn_param { local_size: 3 }",
}


class RandomNet:
    """A net of up to 16 layers with branches, joins, layers in place, shared parameters and several losses."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.text = inputs(x=IMAGE, y=IMAGE, t4=IMAGE, t2=ROW, label=(4,))
        self.blobs = {"x": 4, "y": 4}  # by name: axes
        for i in range(self.rng.randint(4, 16)):
            self.add(i)
        for i in range(self.rng.randint(1, 3)):
            self.add_loss(i)

    def pick(self, axes: int | None = None) -> str:
        """One of the last blobs, sometimes any."""
        names = [name for name, actual in self.blobs.items() if axes in (None, actual)]
        return self.rng.choice(names[-4:] if self.rng.random() < 0.8 else names)

    def add(self, i: int) -> None:
        rng, bottom = self.rng, self.pick()
        axes = self.blobs[bottom]
        kind = rng.choice(ANY + (IMAGES if axes == 4 else [])) if i else "Convolution"
        more, bottoms, tops = PARAMS.get(kind, ""), [bottom], [f"b{i}"]
        if (
            kind in ("ReLU", "Dropout", "TanH", "BatchNorm", "Scale", "PReLU")
            and bottom not in "xy"
            and rng.random() < 0.6
        ):
            tops = [bottom]
        if kind == "Convolution":
            group = rng.choice([1, 1, 2, 4])
            more = f"convolution_param {{ num_output: 4 kernel_size: 3 pad: 1 group: {group} {FILL} }}"
            if group == 1 and rng.random() < 0.2:
                more += ' param { name: "w" } param { name: "b" }'
        elif kind == "Eltwise":
            bottoms += [self.pick(axes) for _ in range(rng.randint(1, 2))]
        elif kind == "Split":
            tops += [f"s{i}"]
        elif kind == "Concat":
            bottoms += [self.pick(axes)]
            self.text += wired("Concat", " ".join(bottoms), f"j{i}", name=f"join{i}")
            kind, bottoms = "Slice", [f"j{i}"]
            tops += [f"s{i}"]
        elif kind == "Slice":
            self.text += wired("Tile", bottom, f"j{i}", "tiles: 2", name=f"twice{i}")
            bottoms, tops = [f"j{i}"], [*tops, f"s{i}"]
        if kind in ("Convolution", "InnerProduct", "ReLU", "Eltwise", "Pooling") and rng.random() < 0.1:
            more += " loss_weight: 0.125"
        self.text += wired(kind, " ".join(bottoms), " ".join(tops), more, name=f"l{i}")
        if kind == "Flatten":  # 64 numbers a sample: back to 16
            self.text += wired("InnerProduct", f"b{i}", f"p{i}", PARAMS["InnerProduct"])
            tops, axes = [f"p{i}"], 2
        self.blobs |= dict.fromkeys(tops, 2 if kind == "InnerProduct" else axes)

    def add_loss(self, i: int) -> None:
        name = self.pick()
        axes, weight = self.blobs[name], self.rng.choice(["", "loss_weight: 0.5"])
        if axes == 2 and self.rng.random() < 0.6:
            self.text += wired("SoftmaxWithLoss", f"{name} label", f"loss{i}", weight)
        else:
            self.text += wired("EuclideanLoss", f"{name} t{axes}", f"loss{i}", "loss_weight: 0.1")

    def placement(self, graph: Graph) -> Placement:
        """A random placement that the net allows."""
        for attempt in range(20):
            stages, shards = self.rng.randint(1, 4), self.rng.choice([1, 2, 2, 4])
            if stages * shards == 1:
                continue
            likely = self.rng.random() * (1 - attempt / 20)
            layers = self._divide(graph, stages, likely)
            placement = Placement(stages, shards, 1, layers)
            try:
                Analysis(graph, placement)
            except CaffeliteError:
                continue
            return placement
        return Placement(1, 2, 1, {node.name: LayerPlacement() for node in graph.nodes})

    def _divide(self, graph: Graph, stages: int, likely: float) -> dict[str, LayerPlacement]:
        layers: dict[str, LayerPlacement] = {}
        shared: LayerPlacement | None = None
        for node in graph.nodes:
            stage = max((layers[b.node.name].stage for b in node.bottoms), default=0)
            if self.rng.random() < 0.3:
                stage = min(stage + self.rng.randint(1, 2), stages - 1)
            division = Division.WHOLE
            if node.bottoms and self.rng.random() < likely:
                by_samples = not node.layer.couples_samples and self.rng.random() < 0.4
                by_outputs = Division.OUTPUTS if divides_outputs(node.layer) else Division.WHOLE
                division = Division.BATCH if by_samples and includes(node.layer.divisible_axes, 0) else by_outputs
            layers[node.name] = LayerPlacement(stage, division)
            if node.layer.spec.param:
                shared = shared or layers[node.name]
                layers[node.name] = shared if shared.stage >= stage else layers[node.name]
        return layers


def feed_all(net, iteration, part):
    rng = np.random.default_rng([iteration, part])
    arrays = {name: rng.normal(size=IMAGE) for name in ("x", "y", "t4")}
    feed(net, **arrays, t2=rng.normal(size=ROW), label=rng.integers(0, 16, 4))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, NETS, EACH))
def test_random_nets_with_random_placements(first):
    for seed in range(first, first + EACH):
        net = RandomNet(seed)
        graph = build(net.text)
        placement, count = net.placement(graph), net.rng.randint(1, 3)
        try:
            whole = train_whole(graph, 2, count, feed_all)
            assert_same(train_parts(graph, placement, 2, count, feed_all), whole, 1e-9)
        except BaseException as error:
            error.add_note(f"seed {seed}, {count} micro-batches, {placement}")
            raise


def test_random_placements_are_of_every_kind():
    actual: dict[str, int] = {}
    for seed in range(200):
        net = RandomNet(seed)
        graph = build(net.text)
        placement = net.placement(graph)
        divisions = {p.division.value for p in placement.layers.values()} if placement.shards > 1 else set()
        for what in (f"{placement.stages} stages", f"{placement.shards} shards", *divisions):
            actual[what] = actual.get(what, 0) + 1
    kinds = [f"{n} stages" for n in (1, 2, 3, 4)] + [f"{n} shards" for n in (1, 2, 4)] + ["outputs", "batch"]
    assert min(actual.get(kind, 0) for kind in kinds) >= 20, actual
