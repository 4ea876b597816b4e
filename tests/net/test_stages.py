"""A net over several stages: the same numbers as in one piece."""

import sys

import numpy as np
import pytest
from parts import assert_same, train_parts, train_whole
from textnet import build, feed, inputs, wired

from caffelite import user_modules
from caffelite.devices.traits import cpu_traits
from caffelite.errors import CaffeliteError
from caffelite.net.compile import compile
from caffelite.net.partition.analysis import Analysis
from caffelite.net.partition.partition import partition
from caffelite.net.partition.placement import DevicePosition, LayerPlacement, Placement

FILL = 'weight_filler { type: "xavier" } bias_filler { type: "uniform" min: -0.5 max: 0.5 }'


def dense(count: int) -> str:
    return f"inner_product_param {{ num_output: {count} {FILL} }}"


NET = (
    inputs(x=(4, 6), label=(4,))
    + wired("InnerProduct", "x", "a", dense(8))
    + wired("ReLU", "a", "a", name="relu")
    + wired("Dropout", "a", "a", name="drop")
    + wired("InnerProduct", "a", "b", dense(8))
    + wired("Eltwise", "a b", "sum")
    + wired("SoftmaxWithLoss", "b label", "early", "loss_weight: 0.3")
    + wired("InnerProduct", "sum", "c", dense(3))
    + wired("SoftmaxWithLoss", "c label", "loss")
)


def feed_random(net, iteration, part):
    rng = np.random.default_rng([iteration, part])
    feed(net, x=rng.normal(size=(4, 6)), label=rng.integers(0, 3, 4))


def staged(**stages: int) -> Placement:
    """The placement of layers on stages, by name."""
    layers = {name: LayerPlacement(stage) for name, stage in stages.items()}
    return Placement(max(stages.values()) + 1, 1, 1, layers)


CUTS = [
    dict(a=0, relu=0, drop=0, b=0, sum=1, early=1, c=1, loss=1),
    dict(a=0, relu=1, drop=1, b=1, sum=1, early=1, c=1, loss=1),
    dict(a=0, relu=0, drop=1, b=1, sum=2, early=2, c=2, loss=2),
    dict(a=0, relu=0, drop=0, b=1, sum=3, early=2, c=3, loss=3),
    dict(a=1, relu=1, drop=2, b=2, sum=2, early=3, c=3, loss=3),
]


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("cut", CUTS)
def test_stages_compute_the_numbers_of_the_whole_net(cut, count):
    graph = build(NET)
    whole = train_whole(graph, 3, count, feed_random)
    assert_same(train_parts(graph, staged(**cut), 3, count, feed_random), whole, 1e-13)


SCALED = """
import numpy as np

class Scaled(object):
    made = 0

    def setup(self, bottom, top):
        Scaled.made += 1
        self.blobs.add_blob(1)
        self.blobs[0].data[0] = Scaled.made

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        self.seen = bottom[0].data.copy()
        top[0].data[...] = self.blobs[0].data[0] * self.seen ** 2

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[0] = np.sum(top[0].diff * self.seen ** 2)
        bottom[0].diff[...] = 2 * self.blobs[0].data[0] * bottom[0].data * top[0].diff
"""


def test_a_python_layer_keeps_micro_batches_apart(tmp_path):
    (tmp_path / "user_scaled.py").write_text(SCALED)
    user_modules.permit([tmp_path])
    code = wired("Python", "a", "p", 'python_param { module: "user_scaled" layer: "Scaled" }')
    text = NET.replace(wired("Dropout", "a", "a", name="drop"), code).replace(
        'bottom: "a" top: "b"', 'bottom: "p" top: "b"'
    )
    cut = {"p" if name == "drop" else name: stage for name, stage in CUTS[0].items()}
    whole = train_whole(build(text), 3, 3, feed_random)
    sys.modules["user_scaled"].Scaled.made = 0
    assert_same(train_parts(build(text), staged(**cut), 3, 3, feed_random), whole, 1e-13)


def test_a_test_net_runs_in_stages():
    graph = build(NET, "TEST")
    whole = train_whole(graph, 3, 2, feed_random)
    parts = train_parts(graph, staged(**CUTS[3]), 3, 2, feed_random)
    assert parts.losses == whole.losses


def test_a_part_has_only_its_layers_and_parameters():
    graph = build(NET)
    parts = [partition(graph, staged(**CUTS[0]), DevicePosition(stage)) for stage in (0, 1)]
    names = [[node.name for node in part.nodes] for part in parts]
    assert names[0] == ["x", "label", "label sent", "a", "relu", "drop", "a sent", "b", "b sent"]
    assert names[1] == ["label received", "a received", "b received", "sum", "early", "c", "loss"]
    assert [p.label for p in parts[0].parameters] == ["a[0]", "a[1]", "b[0]", "b[1]"]
    assert [p.label for p in parts[1].parameters] == ["c[0]", "c[1]"]
    arenas = [compile(part, cpu_traits()).arena for part in (graph, *parts)]
    assert max(arenas[1:]) < arenas[0]


def test_a_value_is_sent_once_to_each_stage_that_reads_it():
    graph = build(NET)
    actual = Analysis(graph, staged(**CUTS[3])).transfers
    moved = [(t.value.name, t.value.node.name, t.stage, t.gradient) for t in actual]
    assert moved == [
        ("label", "label", 2, False),
        ("label", "label", 3, False),
        ("a", "drop", 1, True),
        ("a", "drop", 3, True),
        ("b", "b", 2, True),
        ("b", "b", 3, True),
    ]


def test_a_layer_on_an_earlier_stage_than_its_bottom_is_an_error():
    with pytest.raises(CaffeliteError, match=r'net.prototxt:6:.*"b" .*runs on stage 0, but its bottom "a".*stage 1'):
        partition(build(NET), staged(a=1, relu=1, drop=1, b=0), DevicePosition())


def test_a_parameter_shared_over_stages_is_an_error():
    shared = 'param { name: "w" } param { name: "b" }'
    text = inputs(x=(4, 6)) + wired("InnerProduct", "x", "a", dense(6) + shared)
    text += wired("InnerProduct", "a", "b", dense(6) + shared)
    with pytest.raises(CaffeliteError, match=r'"b" on stage 1 shares parameter "w" with layer "a" on stage 0'):
        partition(build(text), staged(a=0, b=1), DevicePosition())
