"""The placement that `-split` gives."""

import pytest
from random_plans import random_net
from textnet import build, inputs

from caffelite.devices.traits import cpu_traits, cuda_traits
from caffelite.errors import CaffeliteError
from caffelite.net.compile import compile
from caffelite.net.partition.partition import partition
from caffelite.net.partition.placement import DevicePosition, Division
from caffelite.net.partition.resolve import default_placement, parse_split
from caffelite.planner.choice import place

CPU = cpu_traits(onednn=False)
NET = (
    inputs(data=(8, 3, 16, 16), label=(8,))
    + """
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 8 kernel_size: 3 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "fc1" type: "InnerProduct" bottom: "conv" top: "fc1" inner_product_param { num_output: 256 } }
layer { name: "fc2" type: "InnerProduct" bottom: "fc1" top: "fc2" inner_product_param { num_output: 10 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc2" bottom: "label" top: "loss" }
"""
)


def test_split_of_two_devices():
    graph = build(NET)
    actual = place(graph, parse_split("2"), 2, CPU)
    assert actual.devices == 2 and set(actual.layers) == {n.name for n in graph.nodes}
    assert place(graph, parse_split("2"), 4, CPU) == place(graph, parse_split("2"), 4, CPU)


def test_stages_and_micro_batches_as_asked_for():
    actual = place(build(NET), parse_split("stages=2,micro_batches=4"), 2, CPU)
    assert (actual.stages, actual.shards, actual.micro_batches) == (2, 1, 4)
    assert sorted({p.stage for p in actual.layers.values()}) == [0, 1]


def test_hybrid_divides_samples_then_outputs():
    actual = place(build(NET), parse_split("hybrid=2"), 2, CPU)
    divisions = {name: p.division for name, p in actual.layers.items()}
    assert divisions["conv"] is Division.BATCH and divisions["fc1"] is divisions["fc2"] is Division.OUTPUTS
    assert (actual.stages, actual.shards, actual.micro_batches) == (1, 2, 1)


class Samples:
    shapes = [(8, 3, 16, 16), (8,)]


def test_hybrid_reads_the_samples_of_each_device_alone():
    data = 'layer { name: "data" type: "Data" top: "data" top: "label" }'
    text = NET.replace(inputs(data=(8, 3, 16, 16), label=(8,)), data)
    graph = build(text, open_source=lambda *_: Samples())
    for actual in (place(graph, parse_split("hybrid=2"), 2, CPU), default_placement(graph, parse_split("hybrid=2"))):
        assert actual.layers["data"].division is Division.BATCH
        part = partition(graph, actual, DevicePosition(0, 1))
        assert part.values["data"].shape == (4, 3, 16, 16)
        assert [node.name for node in part.nodes][:2] == ["data", "conv"]
    both = text + 'layer { name: "all" type: "Silence" bottom: "data" }'
    actual = default_placement(build(both, open_source=lambda *_: Samples()), parse_split("hybrid=2"))
    assert actual.layers["data"].division is Division.WHOLE


def test_auto_divides_where_one_device_lacks_the_memory():
    graph = build(NET.replace("num_output: 256", "num_output: 8").replace("dim: 8 ", "dim: 64 "))
    assert place(graph, parse_split("auto"), 2, CPU).devices == 1
    one = compile(graph, CPU).arena
    assert place(graph, parse_split("auto"), 2, CPU, memory=0.9 * one).devices == 2


def test_impossible_split_is_an_error():
    with pytest.raises(CaffeliteError, match="fits into the memory"):
        place(build(NET), parse_split("auto"), 2, CPU, memory=1000)
    with pytest.raises(CaffeliteError, match="no arrangement of 3 devices is possible"):
        place(build(NET), parse_split("hybrid=3"), 3, CPU)


@pytest.mark.parametrize("seed", range(25))
def test_stages_of_random_nets_can_be_compiled(seed):
    graph = build(random_net(seed))
    try:
        actual = place(graph, parse_split("stages=2"), 2, cuda_traits())
    except CaffeliteError as error:
        assert "stages" in str(error)
        return
    parts = [partition(graph, actual, DevicePosition(stage)) for stage in range(2)]
    assert all(compile(part, CPU).forward for part in parts)
    own = [{n.name for n in part.nodes if n.layer_index >= 0} for part in parts]
    assert own[0] | own[1] == {n.name for n in graph.nodes} and not own[0] & own[1]
