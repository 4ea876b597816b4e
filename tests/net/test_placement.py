"""Placements from the layers' messages and from -split."""

import pytest
from parts import assert_same, train_parts, train_whole
from random_plans import random_net
from test_shards import CONVOLUTIONS, deep, feed_images
from test_stages import dense
from textnet import build, inputs, wired

from caffelite.errors import CaffeliteError
from caffelite.net.micro_batches import check_micro_batches
from caffelite.net.partition.analysis import Analysis
from caffelite.net.partition.partition import partition
from caffelite.net.partition.placement import DevicePosition, Division, LayerPlacement
from caffelite.net.partition.resolve import (
    SplitRequest,
    cut_stages,
    default_placement,
    extend,
    parse_split,
    resolve,
)


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("2", SplitRequest(devices=2)),
        ("2,micro_batches=4", SplitRequest(devices=2, micro_batches=4)),
        ("stages=2, shards=3", SplitRequest(stages=2, shards=3)),
        ("shards=2,micro_batches=8", SplitRequest(shards=2, micro_batches=8)),
        ("hybrid=4", SplitRequest(shards=4, hybrid=True)),
    ],
)
def test_split_option(text, request_):
    assert parse_split(text) == request_


@pytest.mark.parametrize(
    "text",
    ["", "x", "0", "-1", "2.5", "stages", "stages=", "stages=0", "stages=2,stages=2", "hybrid=2,shards=2", "2,shards=2"]
    + ["auto", "auto,stages=2", "stages=2,auto", "stages=2;shards=2", "hybrid=2,stages=2", "stages=99999999999"],
)
def test_split_options_that_are_mistakes(text):
    with pytest.raises(CaffeliteError, match="-split"):
        parse_split(text)


def placed(a: str = "", r: str = "", b: str = "", c: str = "") -> str:
    text = deep()
    for name, more in dict(a=a, r=r, b=b, c=c).items():
        text = text.replace(f'layer {{ name: "{name}" ', f'layer {{ name: "{name}" placement {{ {more} }} ')
    return text


def test_messages_place_layers_and_those_behind_them():
    graph = build(placed("shards: 2", "", "stage: 1 shards: 2"))
    placement = resolve(graph, None)
    assert (placement.stages, placement.shards, placement.micro_batches) == (2, 2, 1)
    assert placement.layers["a"] == LayerPlacement(0, Division.OUTPUTS)
    assert placement.layers["b"] == LayerPlacement(1, Division.OUTPUTS)
    assert placement.layers["c"] == placement.layers["loss"] == LayerPlacement(1)
    assert_same(train_parts(graph, placement, 2, 1, feed_images), train_whole(graph, 2, 1, feed_images))


def test_messages_divide_by_samples():
    graph = build(placed("shards: 2 division: BATCH", "", "shards: 2"))
    placement = resolve(graph, None)
    assert placement.layers["a"].division is Division.BATCH
    assert [p.sums_gradients for p in Analysis(graph, placement).parameters] == [True, True, *[False] * 4]


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (dict(a="stage: 1", b="stage: 3"), "is on stage 3, but no layer is on stage 2"),
        (dict(a="shards: 2", b="shards: 4"), '4 devices divide it, but 2 divide layer "a"'),
        (dict(a="shards: 0"), "a bad placement; expected the number of devices that divide the layer, found 0"),
        (dict(a="division: BATCH"), "a bad placement; expected the number of devices"),
    ],
)
def test_messages_that_are_mistakes(places, message):
    with pytest.raises(CaffeliteError) as caught:
        resolve(build(placed(**places)), None)
    assert message in str(caught.value) and str(caught.value).startswith("net.prototxt:")


def test_a_message_names_an_earlier_stage_than_a_bottoms():
    graph = build(placed(a="stage: 1", b="stage: 0"))
    with pytest.raises(CaffeliteError, match='"b".*runs on stage 0, but its bottom "a" is computed on stage 1'):
        Analysis(graph, resolve(graph, None))


def test_a_net_without_messages_is_not_divided_by_default():
    assert resolve(build(deep()), None) is None


def test_stages_have_about_equal_work():
    graph = build(deep())
    work = [0, 0, 5, 1, 4, 3, 0]
    assert cut_stages(graph, work, 2) == [0, 0, 0, 0, 1, 1, 1]
    cuts = cut_stages(graph, work, 3)
    assert cuts == sorted(cuts) and set(cuts) == {0, 1, 2}
    assert max(sum(w for w, c in zip(work, cuts, strict=True) if c == i) for i in range(3)) == 5
    assert cut_stages(graph, work, 1) == [0] * 7
    with pytest.raises(CaffeliteError, match="cannot be cut into 6 stages; expected at most 5 stages"):
        cut_stages(graph, work, 6)


def test_layers_that_share_parameters_stay_together():
    shared = 'param { name: "w" } param { name: "b" }'
    text = inputs(x=(4, 6)) + wired("InnerProduct", "x", "a", dense(6) + shared) + wired("ReLU", "a", "r")
    text += wired("InnerProduct", "r", "b", dense(6) + shared) + wired("InnerProduct", "b", "c", dense(6))
    assert cut_stages(build(text), [0, 1, 1, 1, 1], 2) == [0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    "text", ["2", "3,micro_batches=2", "shards=2", "hybrid=2", "stages=2,shards=2,micro_batches=2"]
)
def test_default_placements_compute_the_whole_net(text):
    large = CONVOLUTIONS.replace("num_output: 8", "num_output: 64")
    graph = build(large)
    placement = resolve(graph, parse_split(text))
    assert_same(train_parts(graph, placement, 2, 2, feed_images), train_whole(graph, 2, 2, feed_images))


class Samples:
    shapes = [(8, 3, 16, 16), (8,)]


FED = (
    wired("Data", "", "data label")
    + wired("Convolution", "data", "conv", "num_output: 8 kernel_size: 3")
    + wired("InnerProduct", "conv", "fc1", "num_output: 256")
    + wired("InnerProduct", "fc1", "fc2", "num_output: 10")
    + wired("SoftmaxWithLoss", "fc2 label", "loss")
)


def fed(text: str = FED):
    return build(text, open_source=lambda *_: Samples())


def test_hybrid_reads_the_samples_of_each_device_alone():
    graph = fed()
    placement = default_placement(graph, parse_split("hybrid=2"))
    divisions = [placement.layers[name].division for name in ("data", "conv", "fc1", "fc2")]
    assert divisions == [Division.BATCH, Division.BATCH, Division.OUTPUTS, Division.WHOLE]
    part = partition(graph, placement, DevicePosition(0, 1))
    assert part.values["data"].shape == (4, 3, 16, 16)
    assert [node.name for node in part.nodes][:2] == ["data", "conv"]
    placement = default_placement(fed(FED + wired("Silence", "data", "", name="all")), parse_split("hybrid=2"))
    assert placement.layers["data"].division is Division.WHOLE


@pytest.mark.parametrize(
    ("text", "split", "expected"),
    [
        (FED, "2", "hybrid=2"),
        (FED, "1", "stages=1"),
        (FED, "2,micro_batches=2", "stages=2,micro_batches=2"),
        (FED + wired("BatchNorm", "conv", "normal"), "2", "shards=2"),
        (FED.replace("num_output: 256", "num_output: 255"), "2", "stages=2"),
    ],
)
def test_a_number_of_devices_takes_the_first_that_fits(text, split, expected):
    graph = fed(text)
    assert default_placement(graph, parse_split(split)) == default_placement(graph, parse_split(expected))


def test_shards_divide_large_layers_or_all_where_none_is():
    large = FED.replace("num_output: 8 kernel_size: 3", "num_output: 64 kernel_size: 3")
    small = FED.replace("num_output: 256", "num_output: 2")
    for text, expected in ((FED, {"fc1"}), (large, {"conv", "fc1"}), (small, {"conv", "fc1", "fc2"})):
        placement = default_placement(fed(text), parse_split("shards=2"))
        assert {name for name, layer in placement.layers.items() if layer.division is Division.OUTPUTS} == expected


@pytest.mark.parametrize("seed", range(8))
def test_stages_of_random_nets_have_all_layers(seed):
    graph = build(random_net(seed))
    try:
        placement = default_placement(graph, parse_split("stages=2"))
    except CaffeliteError as error:
        assert "cannot be cut" in str(error)
        return
    names = [
        {node.name for node in partition(graph, placement, DevicePosition(stage)).nodes if node.layer_index >= 0}
        for stage in range(2)
    ]
    assert names[0] | names[1] == {node.name for node in graph.nodes} and not names[0] & names[1]


def test_hybrid_refuses_layers_that_couple_samples():
    text = CONVOLUTIONS.replace("num_output: 8", "num_output: 64").replace('type: "LRN"', 'type: "BatchNorm"')
    with pytest.raises(CaffeliteError, match=r'"n1" \(BatchNorm\): hybrid divides the samples'):
        default_placement(build(text), parse_split("hybrid=2"))


def test_split_that_differs_from_the_messages():
    with pytest.raises(CaffeliteError, match="-split asks for 3 devices, but the placements of the layers are for 2"):
        resolve(build(placed(b="stage: 1")), parse_split("3"))


def test_no_layer_can_be_divided():
    with pytest.raises(CaffeliteError, match="7 devices can divide no layer of the net by outputs"):
        resolve(build(deep()), parse_split("shards=7"))


def test_micro_batches_need_independent_samples():
    graph = build(deep().replace('type: "ReLU"', 'type: "BatchNorm"'))
    with pytest.raises(CaffeliteError, match=r'"r" \(BatchNorm\): its samples depend on each other.*4 micro-batches'):
        check_micro_batches(graph, 4)
    check_micro_batches(graph, 1)
    check_micro_batches(build(deep()), 4)
    kinds = ["normalization: NONE", "ignore_label: 1", "normalization: VALID"]
    for kind, couples in zip(kinds, (True, True, False), strict=True):
        one = build(deep().replace('top: "loss"', f'top: "loss" loss_param {{ {kind} }}'))
        assert one.nodes[-1].layer.couples_samples == couples
        check_micro_batches(one, 4)
    read = deep().replace('top: "loss"', 'top: "loss" loss_param { ignore_label: 1 }')
    read = build(read + 'layer { name: "half" type: "Power" bottom: "loss" top: "half" loss_weight: 1 }')
    with pytest.raises(CaffeliteError, match='divisor is counted in 4 micro-batches, but layer "half" reads the loss'):
        check_micro_batches(read, 4)


def test_a_test_net_has_the_placement_of_its_train_net():
    text = deep(more=wired("Accuracy", "b label", "score", "include { phase: TEST }"))
    graph = build(text)
    placement = resolve(graph, parse_split("3"))
    test = build(text, "TEST")
    extended = extend(placement, test)
    assert extended.layers["score"].stage == placement.layers["b"].stage
    assert_same(train_parts(test, extended, 2, 2, feed_images), train_whole(test, 2, 2, feed_images))


def test_a_layer_with_varying_shapes_is_refused():
    text = inputs(x=(4, 6), s=(4,)) + wired("Filter", "x s", "f") + wired("InnerProduct", "x", "a", dense(6))
    graph = build(text)
    with pytest.raises(CaffeliteError, match='"f".*its shapes depend on the data; train without -split'):
        Analysis(graph, default_placement(graph, parse_split("2")))
