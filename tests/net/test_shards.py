"""Layers that the devices of a stage divide: the same numbers as in one piece."""

import math

import numpy as np
import pytest
from parts import assert_same, train_parts, train_whole
from test_stages import FILL, dense
from textnet import build, feed, inputs, wired

from caffelite.errors import CaffeliteError
from caffelite.layers.base.feeding import Feeding
from caffelite.net.partition.partition import partition
from caffelite.net.partition.placement import DevicePosition, Division, LayerPlacement, Placement

OUT, BATCH = LayerPlacement(0, Division.OUTPUTS), LayerPlacement(0, Division.BATCH)
DRAWN = 'filler { type: "uniform" min: 0.5 max: 1.5 }'


def conv(count: int, more: str = "kernel_size: 3 pad: 1") -> str:
    return f"convolution_param {{ num_output: {count} {more} {FILL} }}"


def divided(shards: int = 2, **layers: LayerPlacement) -> Placement:
    return Placement(1, shards, 1, layers)


def feed_images(net, iteration, part):
    rng = np.random.default_rng([iteration, part])
    arrays = {}
    for node in net.graph.feeds:
        (value,) = node.tops
        whole = rng.normal(size=value.shape)
        arrays[value.name] = rng.integers(0, 3, value.shape) if value.name == "label" else whole
    feed(net, **arrays)


def kinds(shards: int, *names: str) -> list[str]:
    """The types of a device's layers from the first one that computes."""
    return [node.layer.spec.type for node in shards.nodes if node.layer.spec.type != "Input"]


# The layers behind a convolution that is divided by outputs, and what a device runs between the two products.
FOLLOWERS = {
    "relu": (wired("ReLU", "c", "c", name="f"), ["ReLU"]),
    "prelu": (wired("PReLU", "c", "f"), ["PReLU"]),
    "shared prelu": (wired("PReLU", "c", "f", "channel_shared: true"), ["AllGather", "PReLU"]),
    "dropout": (wired("Dropout", "c", "f"), ["Dropout"]),
    "pool": (wired("Pooling", "c", "f", "kernel_size: 2 stride: 2"), ["Pooling"]),
    "norm": (wired("BatchNorm", "c", "f"), ["BatchNorm"]),
    "norm and scale": (
        wired("BatchNorm", "c", "c", name="f0")
        + wired("Scale", "c", "f", f"scale_param {{ {DRAWN} bias_term: true }}")
        + wired("ReLU", "f", "f", name="r"),
        ["BatchNorm", "Scale", "ReLU"],
    ),
    "bias": (wired("Bias", "c", "f"), ["Bias"]),
    "one scale": (wired("Scale", "c", "f", "num_axes: 0"), ["AllGather", "Scale"]),
    "lrn": (wired("LRN", "c", "f"), ["AllGather", "LRN"]),
    "lrn within": (wired("LRN", "c", "f", "norm_region: WITHIN_CHANNEL local_size: 3"), ["LRN"]),
    "mvn": (wired("MVN", "c", "f"), ["MVN"]),
    "softmax": (wired("Softmax", "c", "f"), ["AllGather", "Softmax"]),
    "flatten": (wired("Flatten", "c", "f"), ["Flatten"]),
    "two sums": (
        wired("Convolution", "x", "d", conv(4)) + wired("Eltwise", "c d", "f"),
        ["Convolution", "ShardSlice", "Eltwise"],
    ),
    "concat": (wired("Concat", "c c", "f"), ["AllGather", "Concat"]),
    "split": (wired("Split", "c", "s1 s2", name="s") + wired("Eltwise", "s1 s2", "f"), ["Split", "Eltwise"]),
    "slice": (
        wired("Slice", "c", "s1 f", name="s") + wired("Silence", "s1", "", name="q"),
        ["AllGather", "Slice", "Silence"],
    ),
    "scaled by a blob": (wired("Scale", "c t", "f", "axis: 0"), ["AllGather", "Scale"]),
}


@pytest.mark.parametrize("shards", [2, 4])
@pytest.mark.parametrize("name", FOLLOWERS)
def test_what_follows_divided_outputs(name, shards):
    text, expected = FOLLOWERS[name]
    top = "c" if name == "relu" else "f"
    graph = build(
        inputs(x=(4, 3, 6, 6), t=(4,), label=(4,))
        + wired("Convolution", "x", "c", conv(4))
        + text
        + wired("InnerProduct", top, "ip", dense(8))
        + wired("SoftmaxWithLoss", "ip label", "loss")
    )
    placement = divided(shards, c=OUT, ip=OUT)
    types = kinds(partition(graph, placement, DevicePosition(0, 1)))
    between = types[types.index("Convolution") + 1 : types.index("InnerProduct")]
    last = ["SumGradients"] if expected[0] == "AllGather" else ["AllGather"]
    assert between == [*expected, *last]
    whole = train_whole(graph, 3, 1, feed_images)
    assert_same(train_parts(graph, placement, 3, 1, feed_images), whole)


def deep(second: str = "", more: str = "") -> str:
    return (
        inputs(x=(4, 8), label=(4,))
        + wired("InnerProduct", "x", "a", dense(8))
        + wired("ReLU", "a", "a", name="r")
        + wired("InnerProduct", "a", "b", dense(8) + second)
        + more
        + wired("InnerProduct", "b", "c", dense(4))
        + wired("SoftmaxWithLoss", "c label", "loss")
    )


@pytest.mark.parametrize("layers", ["a", "b", "c", "a b", "b c", "a c", "a b c"])
def test_each_choice_of_divided_products(layers):
    graph = build(deep())
    placement = divided(2, **dict.fromkeys(layers.split(), OUT))
    assert_same(train_parts(graph, placement, 3, 2, feed_images), train_whole(graph, 3, 2, feed_images))


def test_gradients_are_scattered_where_all_readers_divide():
    graph = build(deep())
    both = partition(graph, divided(2, a=OUT, b=OUT), DevicePosition(0, 0))
    gather = next(node for node in both.nodes if node.layer.spec.type == "AllGather")
    assert gather.layer.partial and gather.bottoms[0].shape == (4, 4) and gather.tops[0].shape == (4, 8)
    graph = build(deep(more=wired("Softmax", "b", "l")))
    mixed = partition(graph, divided(2, b=OUT, c=OUT), DevicePosition(0, 0))
    types = kinds(mixed)
    assert types.count("AllGather") == 2 and types.count("SumGradients") == 2
    assert not any(node.layer.partial for node in mixed.nodes if node.layer.spec.type == "AllGather")


def test_a_part_has_a_part_of_each_parameter():
    graph = build(deep('param { name: "w" lr_mult: 2 }'))
    part = partition(graph, divided(4, b=OUT), DevicePosition(0, 3))
    spec = next(p.blob for p in part.parameters if p.node.name == "b" and p.index == 0)
    assert spec.shape == (2, 8) and (spec.shard.axis, spec.shard.start, spec.shard.whole) == (0, 6, (8, 8))
    assert math.prod(next(p.blob.shape for p in part.parameters if p.node.name == "c")) == 32


def test_losses_and_outputs_of_divided_layers_are_whole():
    text = inputs(x=(4, 8), label=(4,)) + wired("InnerProduct", "x", "a", dense(8) + "loss_weight: 0.25")
    text += wired("ReLU", "a", "r") + wired("InnerProduct", "r", "out", dense(4))
    text += wired("InnerProduct", "r", "c", dense(4)) + wired("SoftmaxWithLoss", "c label", "loss")
    graph = build(text)
    placement = divided(2, a=OUT, out=OUT)
    assert_same(train_parts(graph, placement, 3, 1, feed_images), train_whole(graph, 3, 1, feed_images))
    part = partition(graph, placement, DevicePosition(0, 1))
    assert [(v.name, v.shape) for v in part.outputs] == [("a", (4, 8)), ("loss", ()), ("out", (4, 4))]


GROUPED = (
    inputs(x=(2, 3, 6, 6), label=(2,))
    + wired("Convolution", "x", "c1", conv(8))
    + wired("ReLU", "c1", "c1", name="r1")
    + wired("Convolution", "c1", "c2", conv(8, "kernel_size: 3 group: 4"))
    + wired("Convolution", "c2", "c3", conv(4, "kernel_size: 3 group: 2"))
    + wired("InnerProduct", "c3", "ip", dense(4))
    + wired("SoftmaxWithLoss", "ip label", "loss")
)


@pytest.mark.parametrize("layers", ["c1 c2 c3 ip", "c2 c3", "c2", "c1 c3"])
def test_groups_run_on_their_own_channels(layers):
    graph = build(GROUPED)
    placement = divided(2, **dict.fromkeys(layers.split(), OUT))
    assert_same(train_parts(graph, placement, 3, 1, feed_images), train_whole(graph, 3, 1, feed_images))
    if layers == "c1 c2 c3 ip":
        types = kinds(partition(graph, placement, DevicePosition(0, 0)))
        assert types.count("AllGather") == 2  # before and behind the inner product
        assert "ShardSlice" not in types


@pytest.mark.parametrize("group", [1, 2])
def test_deconvolutions(group):
    text = (
        inputs(x=(2, 4, 4, 4), t=(2, 4, 8, 8))
        + wired("Convolution", "x", "c", conv(4, "kernel_size: 3 pad: 1"))
        + wired("Deconvolution", "c", "d", conv(4, f"kernel_size: 2 stride: 2 group: {group}"))
        + wired("EuclideanLoss", "d t", "loss")
    )
    graph = build(text)
    for layers in (dict(c=OUT, d=OUT), dict(d=OUT)):
        placement = divided(2, **layers)
        assert_same(train_parts(graph, placement, 3, 1, feed_images), train_whole(graph, 3, 1, feed_images))


def test_embedding_and_products_over_a_later_axis():
    text = (
        inputs(words=(3, 4), label=(3, 4))
        + wired("Embed", "words", "e", f"num_output: 6 input_dim: 3 {FILL}")
        + wired("TanH", "e", "e", name="r")
        + wired("InnerProduct", "e", "p", f"num_output: 4 axis: 2 {FILL}")
        + wired("SoftmaxWithLoss", "p label", "loss", "axis: 2")
    )
    graph = build(text)

    def words(net, iteration, part):
        rng = np.random.default_rng(iteration)
        feed(net, words=rng.integers(0, 3, (3, 4)), label=rng.integers(0, 3, (3, 4)))

    placement = divided(2, e=OUT, p=OUT)
    assert_same(train_parts(graph, placement, 3, 1, words), train_whole(graph, 3, 1, words))


def test_transposed_weights_and_shared_parameters():
    shared = 'param { name: "w" } param { name: "b" }'
    square = f"inner_product_param {{ num_output: 8 transpose: true {FILL} }}"
    text = inputs(x=(4, 8), label=(4,)) + wired("InnerProduct", "x", "a", square + shared)
    text += wired("InnerProduct", "a", "b", square + shared)
    text += wired("SoftmaxWithLoss", "b label", "loss")
    graph = build(text)
    assert_same(train_parts(graph, divided(2, a=OUT, b=OUT), 3, 1, feed_images), train_whole(graph, 3, 1, feed_images))
    with pytest.raises(CaffeliteError, match='"b".*divides parameter "w" differently than layer "a"'):
        partition(graph, divided(2, a=OUT), DevicePosition())


@pytest.mark.parametrize(
    ("text", "placement", "message"),
    [
        (deep(), divided(3, a=OUT), r"3 devices cannot divide its outputs.*expected a multiple of 3, as 6 or 9"),
        (deep(), divided(2, r=OUT), r'"r" \(ReLU\): 2 devices cannot divide its outputs'),
        (GROUPED, divided(4, c3=OUT), r'"c3".*4 devices cannot divide its groups; expected 1, or a multiple of 4'),
        (deep(), divided(3, a=BATCH), r"3 devices cannot divide its samples.*multiple of 3 samples"),
        (
            inputs(x=(4, 8), label=(4,)) + wired("BatchNorm", "x", "n"),
            divided(2, n=BATCH),
            r'"n" \(BatchNorm\): 2 devices cannot divide its samples: they depend on each other',
        ),
    ],
)
def test_impossible_divisions_are_errors(text, placement, message):
    with pytest.raises(CaffeliteError, match=message):
        partition(build(text), placement, DevicePosition())


CONVOLUTIONS = (
    inputs(x=(4, 3, 8, 8), label=(4,))
    + wired("Convolution", "x", "c1", conv(4))
    + wired("ReLU", "c1", "c1", name="r1")
    + wired("LRN", "c1", "n1")
    + wired("Pooling", "n1", "p1", "kernel_size: 2 stride: 2")
    + wired("Dropout", "p1", "p1", name="d1")
    + wired("Convolution", "p1", "c2", conv(4))
    + wired("InnerProduct", "c2", "f1", dense(8))
    + wired("ReLU", "f1", "f1", name="r2")
    + wired("Dropout", "f1", "f1", name="d2")
    + wired("InnerProduct", "f1", "f2", dense(4))
    + wired("SoftmaxWithLoss", "f2 label", "loss")
)


@pytest.mark.parametrize("shards", [2, 4])
@pytest.mark.parametrize("count", [1, 2])
def test_convolutions_by_samples_and_products_by_outputs(shards, count):
    graph = build(CONVOLUTIONS)
    placement = divided(shards, c1=BATCH, r1=BATCH, n1=BATCH, p1=BATCH, c2=BATCH, f1=OUT, f2=OUT)
    assert_same(train_parts(graph, placement, 3, count, feed_images), train_whole(graph, 3, count, feed_images))
    types = kinds(partition(graph, placement, DevicePosition(0, 0)))
    assert types.count("AllGather") == 3 and types.count("ShardSlice") == 1


def test_stages_of_shards():
    graph = build(CONVOLUTIONS)
    names = [node.name for node in graph.nodes if not isinstance(node.layer, Feeding)]
    for cut in (3, 6, 8):
        layers = {name: LayerPlacement(i >= cut, Division.WHOLE) for i, name in enumerate(names)}
        for name in ("c1", "c2", "f1", "f2"):
            layers[name] = LayerPlacement(layers[name].stage, Division.OUTPUTS)
        placement = Placement(2, 2, 1, layers)
        assert_same(train_parts(graph, placement, 2, 3, feed_images), train_whole(graph, 2, 3, feed_images))
