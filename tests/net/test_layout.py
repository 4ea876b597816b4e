"""Layouts and dtypes of compiled nets: where copies are inserted, and what they cost."""

import math
from dataclasses import replace

import pytest
from textnet import build, inputs, wired

from caffelite.devices.traits import DeviceTraits, cpu_traits
from caffelite.layers import Format
from caffelite.net import layout as inserted
from caffelite.net.compile import Options, compile

FILL = 'weight_filler { type: "gaussian" std: 0.3 } bias_filler { type: "gaussian" std: 0.3 }'
DATA = (2, 6, 9, 7)


def convolution(bottom: str, top: str, body: str = "kernel_size: 3 pad: 1", outputs: int = 8) -> str:
    return wired("Convolution", bottom, top, f"num_output: {outputs} {body} {FILL}")


def pooling(bottom: str, top: str, body: str) -> str:
    return wired("Pooling", bottom, top, body)


def dense(bottom: str, top: str) -> str:
    return wired("InnerProduct", bottom, top, f"num_output: 5 {FILL}")


# Where transpositions go


CHANNELS_LAST = cpu_traits()  # convolutions prefer channels_last
BFLOAT16 = cpu_traits("bf16")  # images are of bfloat16 numbers besides
PLAIN = cpu_traits(onednn=False)


def compiled(text: str, traits: DeviceTraits = CHANNELS_LAST, phase: str = "TRAIN"):
    """The graph of a compiled net."""
    return compile(build(text, phase), traits).graph


def copies(graph) -> list[str]:
    """Which blobs are copied into the other layout, in order; ↑ to channels last, ↓ back."""
    nodes = [n for n in graph.nodes if isinstance(n.layer, inserted.Transposition) and not n.layer.view]
    return [("↑" if n.layer.forth else "↓") + n.bottoms[0].name for n in nodes]


POOL = pooling("c1", "p1", "kernel_size: 2 stride: 2")
CHAIN = inputs(data=DATA) + convolution("data", "c1") + POOL + wired("LRN", "p1", "n1") + convolution("n1", "c2")


def test_a_chain_of_layers_is_copied_only_at_both_ends():
    graph = compiled(CHAIN + dense("c2", "scores"))
    assert copies(graph) == ["↑data", "↓c2"]
    assert all(
        v.channels_last == (v.name not in ("data", "scores")) for n in graph.nodes if n.layer_index >= 0 for v in n.tops
    )


def test_small_nets_stay_as_caffe_has_them():
    graph = compiled(CHAIN)
    outputs = [math.prod(graph.values[name].shape) for name in ("c1", "c2")]
    inputs_of_each = [math.prod(p.blob.shape[1:]) for p in graph.parameters if len(p.blob.shape) == 4]
    work = sum(a * b for a, b in zip(outputs, inputs_of_each, strict=True))
    assert copies(compiled(CHAIN, replace(CHANNELS_LAST, little_work=work // 2))) == ["↑data", "↓c2"]
    assert not copies(compiled(CHAIN, replace(CHANNELS_LAST, little_work=work // 2 + 1)))


def test_one_channel_or_one_place_needs_no_copy():
    text = inputs(data=(2, 1, 9, 7)) + convolution("data", "c1") + pooling("c1", "p1", "pool: AVE global_pooling: true")
    graph = compiled(text + dense("p1", "scores"))
    assert copies(graph) == []
    views = [n for n in graph.nodes if isinstance(n.layer, inserted.Transposition)]
    assert len(views) == 2 and all(n.layer.view for n in views)


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        (CHAIN, PLAIN),
        (inputs(data=DATA) + pooling("data", "p", "kernel_size: 2") + dense("p", "scores"), CHANNELS_LAST),
        (inputs(data=(2, 6, 9)) + convolution("data", "c"), CHANNELS_LAST),  # no images, but rows
        (inputs(data=DATA) + convolution("data", "c", "kernel_size: 3 axis: 2"), CHANNELS_LAST),
        (
            inputs(data=DATA, chosen=(2, 1))
            + convolution("data", "c")
            + wired("Filter", "c chosen", "f")
            + convolution("f", "c2"),
            CHANNELS_LAST,
        ),
    ],
    ids=["not wanted", "no convolution", "rows", "channels elsewhere", "varying"],
)
def test_left_as_it_is(text, traits):
    before, after = build(text), compiled(text, traits)
    assert [n.name for n in after.nodes] == [n.name for n in before.nodes]
    assert not any(v.channels_last for n in after.nodes for v in n.tops)


def test_readers_that_want_the_same_share_a_copy():
    text = inputs(data=DATA) + convolution("data", "c1") + dense("c1", "a") + POOL + wired("Softmax", "c1", "b")
    text += dense("c1", "c")
    graph = compiled(text + convolution("data", "c2"))
    assert copies(graph) == ["↑data", "↓c1", "↓c2", "↓p1"]  # the last two are outputs
    (twin,) = [n for n in graph.nodes if isinstance(n.layer, inserted.Transposition) and n.bottoms[0].name == "c1"]
    assert [reader.name for reader, _ in twin.tops[0].readers] == ["a", "b", "c"]
    assert twin.index < next(n.index for n in graph.nodes if n.name == "a")


def test_a_layer_takes_the_layout_of_its_first_blob():
    text = inputs(data=DATA) + convolution("data", "c1", outputs=6)
    assert copies(compiled(text + wired("Eltwise", "c1 data", "e") + convolution("e", "c2") + dense("c2", "s"))) == [
        "↑data",
        "↓c2",
    ]
    assert (
        copies(compiled(text + wired("Eltwise", "data c1", "e") + convolution("e", "c2") + dense("c2", "s")))
        == "↑data ↓c1 ↑e ↓c2".split()
    )


def test_order_wiring_and_gradients_hold():
    text = inputs(data=DATA) + convolution("data", "c1") + dense("c1", "a") + POOL + dense("p1", "b")
    text += wired("EuclideanLoss", "a b", "loss")
    graph = compiled(text)
    for index, node in enumerate(graph.nodes):
        assert node.index == index
        assert all(value.node.index < index and (node, i) in value.readers for i, value in enumerate(node.bottoms))
        assert all(
            value.node is node and all(reader.bottoms[i] is value for reader, i in value.readers) for value in node.tops
        )
    gradients = {n.bottoms[0].name: n.backward for n in graph.nodes if isinstance(n.layer, inserted.Transposition)}
    assert gradients == {"data": False, "c1": True, "p1": True}


# Which blobs are of bfloat16 numbers


def roundings(graph) -> list[str]:
    """Which blobs are rounded, in order; ↑ to bfloat16, ↓ back."""
    return [
        ("↑" if n.layer.forth else "↓") + n.bottoms[0].name
        for n in graph.nodes
        if isinstance(n.layer, inserted.Rounding)
    ]


LOSSY = convolution("data", "c1").replace("convolution_param", "loss_weight: 2 convolution_param")


@pytest.mark.parametrize("traits", [CHANNELS_LAST, PLAIN], ids=["channels last", "plain"])
@pytest.mark.parametrize(
    "over, last",
    [
        ("Sigmoid", wired("Reshape", "c1", "flat", "shape { dim: 0 dim: -1 }")),
        ("Softmax", ""),  # in Caffe's layout
    ],
)
def test_outputs_of_one_name_keep_their_order(traits, over, last):
    """A blob with a loss weight that a layer overwrites is an output beside what is written over it."""
    text = inputs(data=DATA) + LOSSY + wired(over, "c1", "c1", "loss_weight: 1", name="over") + last
    graph = compiled(text, traits)
    outputs = [value for value in graph.outputs if value.name == "c1"]
    assert [value.source.name for value in outputs] == ["c1", "over"]
    assert graph.values["c1"].source.name == "over"


def test_a_chain_is_rounded_once_on_the_way_in():
    graph = compiled(CHAIN + wired("BatchNorm", "c2", "b2") + dense("b2", "scores"), BFLOAT16)
    assert roundings(graph) == ["↑data", "↓b2"] and copies(graph) == ["↑data", "↓b2"]
    assert {n.name: n.tops[0].dtype for n in graph.nodes if n.layer_index >= 0} == {
        "data": None,
        **dict.fromkeys(("c1", "p1", "n1", "c2", "b2"), "bfloat16"),
        "scores": None,
    }


def test_a_float32_layer_reads_float32_in_the_same_layout():
    graph = compiled(
        inputs(data=DATA) + convolution("data", "c1") + wired("PReLU", "c1", "r") + convolution("r", "c2"), BFLOAT16
    )
    assert roundings(graph) == ["↑data", "↓c1", "↑r", "↓c2"] and copies(graph) == ["↑data", "↓c2"]
    (knows,) = [n for n in graph.nodes if n.name == "r"]
    assert [v.format for v in (*knows.bottoms, *knows.tops)] == [Format(channels_last=True)] * 2


def test_a_blob_with_a_loss_is_added_up_in_float32():
    """As the output that it is; the convolution stores it in bfloat16."""
    text = inputs(data=DATA) + convolution("data", "c1").replace('top: "c1"', 'top: "c1" loss_weight: 0.5')
    text += dense("c1", "s")
    text += wired("EuclideanLoss", "s s2", "loss")
    graph = compiled(inputs(s2=(2, 5)) + text, BFLOAT16)
    assert sorted((v.name, v.dtype, v.channels_last, w) for v, w in graph.losses) == [
        ("c1", None, False, 0.5),
        ("loss", None, False, 1.0),
    ]
    assert [(v.name, v.dtype) for v in graph.outputs] == [("c1", None), ("loss", None)]
    assert [n.tops[0].dtype for n in graph.nodes if n.name == "c1"] == ["bfloat16"]
    assert {v.name: v.gradient for v, _ in graph.losses} == {"loss": True, "c1": True}


def test_narrow_blobs_take_half_the_memory():
    wide, narrow = (
        compile(build("force_backward: true\n" + CHAIN), traits, Options(keep=True))
        for traits in (CHANNELS_LAST, BFLOAT16)
    )
    sizes = [
        {value.name: storage.bytes for value, storage in actual.items() if value.node.layer_index >= 0}
        for plan in (wide, narrow)
        for actual in (plan.data, plan.diff)
    ]
    for plain, half in zip(sizes[:2], sizes[2:], strict=True):
        assert plain["data"] == half["data"] and plain["c1"] == 4 * 2 * 8 * 9 * 7
        assert plain["c1"] / 2 <= half["c1"] < plain["c1"] / 2 + 64
