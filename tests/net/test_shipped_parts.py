"""The shipped nets, made small, in parts: each kind of division computes the numbers of the whole net."""

from pathlib import Path

import numpy as np
import pytest
from parts import assert_same, train_parts, train_whole
from textnet import feed

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.layers import batch_messages
from caffelite.net import graph
from caffelite.net.partition.analysis import Analysis
from caffelite.net.partition.resolve import parse_split, resolve

MODELS = Path(__file__).parent.parent.parent / "models"
CLASSES = 10
# Shapes of the inputs, and by how much the layers are narrower.
NETS = {
    "lenet": ([(4, 1, 28, 28), (4,)], 1),
    "cifar10_full": ([(4, 3, 32, 32), (4,)], 1),
    "alexnet": ([(4, 3, 67, 67), (4,)], 8),
    "googlenet": ([(2, 3, 96, 96), (2,)], 4),
    "resnet18": ([(4, 3, 64, 64), (4,)], 4),
    "lstm": ([(6, 4), (6, 4), (6, 4)], 1),
}
SPLITS = ["stages=2", "stages=4", "shards=2", "shards=4", "stages=2,shards=2", "hybrid=2"]
COUPLED = ("resnet18", "lstm")  # their samples depend on each other


def small(name: str) -> graph.Graph:
    """The TRAIN net with Input layers, fewer outputs and CLASSES classes."""
    shapes, narrower = NETS[name]
    message = prototxt.read_net(MODELS / name / "train_val.prototxt").message
    layers = []
    for layer in message.layer:
        if any(layer.HasField(field) for field in batch_messages()):
            for top, shape in zip(layer.top, shapes, strict=True) if layer.include[0].phase == pb.TRAIN else ():
                layers.append(pb.LayerParameter(name=top, type="Input", top=[top]))
                layers[-1].input_param.shape.add().dim.extend(shape)
            continue
        for field in ("convolution_param", "inner_product_param", "embed_param", "recurrent_param"):
            param = getattr(layer, field)
            if not layer.HasField(field):
                continue
            if param.num_output in (10, 1000):
                param.num_output = 2 * CLASSES  # a multiple of 4
            else:
                param.num_output //= narrower * (8 if param.num_output == 4096 else 1)
        layers.append(layer)
    del message.layer[:]
    message.layer.extend(layers)
    return graph.build(message, pb.NetState(phase=pb.TRAIN))


def feed_samples(net, iteration, part):
    rng = np.random.default_rng([iteration, part])
    arrays = {}
    for node in net.graph.feeds:
        (value,) = node.tops
        if value.name in ("label", "target", "code"):
            arrays[value.name] = rng.integers(0, CLASSES, value.shape)
        elif value.name == "cont":
            arrays[value.name] = rng.random(value.shape) < 0.8
        else:
            arrays[value.name] = rng.normal(size=value.shape)
    feed(net, **arrays)


CASES = [*((name, "float64") for name in NETS), ("lenet", "float32")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_shipped_nets_in_parts(name, dtype):
    net = small(name)
    whole = train_whole(net, 3, 2, feed_samples, dtype, rate=0.001)
    for split in SPLITS:
        if split.startswith("hybrid") and name in COUPLED:
            continue
        placement = resolve(net, parse_split(split))
        parts = train_parts(net, placement, 3, 2, feed_samples, dtype, rate=0.001)
        assert_same(parts, whole, 1e-10 if dtype == "float64" else 1e-5)
        assert all(moved > 0 for moved in parts.bytes.values())
        divided = [p for p in Analysis(net, placement).parameters if p.axis is not None]
        assert bool(divided) == (placement.shards > 1)
