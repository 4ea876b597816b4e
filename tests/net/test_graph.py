"""The graph: which layers a phase keeps, how blobs are wired, what gets a gradient; every mistake with its place."""

import pytest
from textnet import build, inputs, layer, mistakes, wired

from caffelite.errors import CaffeliteError

IP = 'inner_product_param { num_output: 3 weight_filler { type: "xavier" } }'


def ip(name: str, bottom: str, top: str, more: str = "") -> str:
    return wired("InnerProduct", bottom, top, f"{IP} {more}", name)


def loss(name: str, a: str, b: str, more: str = "") -> str:
    return wired("EuclideanLoss", f"{a} {b}", name, more)


def node(graph, name):
    return next(n for n in graph.nodes if n.name == name)


DATA = inputs(data=(2, 4), target=(2, 3))


# which layers belong


def kept(rules: str, phase="TRAIN", level=0, stages=()) -> bool:
    graph = build(inputs(x=(1, 1)) + layer("Silence", "x", body=rules, tops="", name="s"), phase, level, stages)
    return any(n.name == "s" for n in graph.nodes)


@pytest.mark.parametrize(
    ("rules", "state", "belongs"),
    [
        ("", {}, True),
        ("include { phase: TRAIN }", {}, True),
        ("include { phase: TEST }", {}, False),
        ("include { }", {"phase": "TEST"}, True),
        ("include { min_level: 2 }", {"level": 1}, False),
        ("include { min_level: 2 }", {"level": 2}, True),
        ("include { max_level: 2 }", {"level": 3}, False),
        ("include { max_level: 2 }", {"level": 2}, True),
        ('include { stage: "a" stage: "b" }', {"stages": ("a",)}, False),
        ('include { stage: "a" stage: "b" }', {"stages": ("b", "a", "c")}, True),
        ('include { not_stage: "a" not_stage: "b" }', {"stages": ("b",)}, False),
        ('include { not_stage: "a" }', {"stages": ("c",)}, True),
        ('include { phase: TEST } include { stage: "a" }', {"stages": ("a",)}, True),
        ('include { phase: TEST stage: "a" }', {"stages": ("a",)}, False),
        ("exclude { phase: TRAIN }", {}, False),
        ("exclude { phase: TEST }", {}, True),
        ('exclude { phase: TEST } exclude { stage: "a" }', {"stages": ("a",)}, False),
        ('exclude { phase: TRAIN stage: "a" }', {}, True),
    ],
)
def test_rules(rules, state, belongs):
    assert kept(rules, **state) is belongs


def test_reasons_of_layers_left_out():
    rules = {
        "a": "include { phase: TEST }",
        "b": 'include { min_level: 3 } include { stage: "s" }',
        "c": 'include { max_level: -1 } include { not_stage: "u" }',
        "d": "exclude { phase: TRAIN }",
    }
    silent = [layer("Silence", "x", body=body, tops="", name=name) for name, body in rules.items()]
    graph = build(inputs(x=(1, 1)) + "".join(silent), stages=("u",))
    assert graph.dropped == [
        ("a", "phase is TRAIN, the rule wants TEST"),
        ("b", 'level 0 is below min_level 3; stage "s" is not set'),
        ("c", 'level 0 is above max_level -1; stage "u" is set'),
        ("d", "an exclude rule holds"),
    ]
    assert [n.index for n in graph.nodes] == [0]


# wiring


def test_in_place_makes_versions_and_fan_out_counts_readers():
    text = DATA + ip("a", "data", "h") + ip("before", "h", "b")
    text += wired("ReLU", "h", "h", name="r") + ip("after", "h", "c")
    graph = build(text)
    first, second = node(graph, "a").tops[0], node(graph, "r").tops[0]
    assert first is not second and first.name == second.name == "h"
    assert [(r.name, i) for r, i in first.readers] == [("before", 0), ("r", 0)]
    assert [(r.name, i) for r, i in second.readers] == [("after", 0)]
    assert graph.values["h"] is second


def test_one_blob_twice_below_a_layer():
    graph = build(DATA + loss("l", "target", "target"))
    assert [i for _, i in graph.values["target"].readers] == [0, 1]


def test_outputs_are_unread_and_in_alphabetical_order():
    text = inputs(m=(2, 3), z=(1,)) + ip("i", "m", "b") + ip("j", "m", "a") + loss("l", "b", "b")
    assert [v.name for v in build(text).outputs] == ["a", "l", "z"]


def test_loss_without_a_top_counts_but_is_no_output():
    losses = [layer("EuclideanLoss", "y", "target", tops="", name=name) for name in "lm"]
    graph = build(DATA + ip("i", "data", "y") + "".join(losses))
    assert [(v.name, w) for v, w in graph.losses] == [("(automatic)", 1.0)] * 2
    assert graph.outputs == []
    assert node(graph, "i").backward


def test_loss_weights():
    text = DATA + ip("i", "data", "y", "loss_weight: 0.5") + loss("l", "y", "target", "loss_weight: 2")
    graph = build(text + loss("m", "y", "target"))
    assert [(v.name, w) for v, w in graph.losses] == [("y", 0.5), ("l", 2.0), ("m", 1.0)]


# sharing

SHARED = 'param {{ name: "w" {} }}'


def shared(first="", second="", bottom="data") -> str:
    text = inputs(data=(2, 4), other=(2, 2, 2)) + ip("a", "data", "x", SHARED.format(first))
    return text + ip("b", bottom, "y", SHARED.format(second))


def test_sharing_by_name():
    graph = build(shared("lr_mult: 2", "decay_mult: 3"))
    assert [[p.owner for p in node(graph, n).params] for n in "ab"] == [[0, 1], [0, 2]]
    first = graph.parameters[0]
    assert (first.label, first.lr_mult, first.decay_mult, first.node.name) == ("w", 2.0, 3.0, "a")
    assert [q.label for q in graph.parameters] == ["w", "a[1]", "b[1]"]


def test_sharing_shapes():
    transposed = IP.replace("num_output: 3", "num_output: 3 transpose: true")
    text = shared().replace(IP, transposed, 1)
    strict = text.replace(SHARED.format(""), 'param { name: @"w" }').replace('@"w"', '"w"', 1)
    what = 'layer "b": shared parameter "w" does not fit that of layer "a"; expected shape [4, 3], found [3, 4]'
    mistakes(strict, what)
    assert len(build(text.replace(SHARED.format(""), SHARED.format("share_mode: PERMISSIVE"))).parameters) == 3
    few = shared(bottom="other").replace("dim: 2 dim: 2 dim: 2", "dim: 2 dim: 5")
    few = few.replace(SHARED.format(""), 'param { share_mode: PERMISSIVE name: @"w" }').replace('@"w"', '"w"', 1)
    mistakes(few, "expected shape [3, 4], found [3, 5]")


# mistakes of wiring


def mark(text: str, part: str) -> str:
    """The text with a mark before the last place where the part stands."""
    head, actual, tail = text.rpartition(part)
    assert actual
    return f"{head}@{part}{tail}"


ONLY_TEST = inputs(x=(2, 2)).replace("input_param", "include { phase: TEST } input_param")
LOSS_4 = layer("SoftmaxWithLoss", "data", "target", tops="a b c @d")
WIDE = layer("Convolution", "a", body="num_output: 1 kernel_size: 1 pad: 1000000000", tops="@c")
RULES = layer("Silence", "data", body="include { phase: TEST } @exclude { phase: TEST }", tops="", name="s")
LATE, LEFT_OUT = mark(ip("a", "late", "x"), '"late"'), mark(ip("a", "x", "y"), '"x"')
BIG = mark(ip("a2", "a", "x"), "inner_product_param").replace("output: 3", "output: 100000")
DIFFERS = 'layer "b": shared parameter "w" has another {} than in layer "a"; expected 1, found 2'

MISTAKES = [
    (DATA + RULES, 'layer "s" has include and exclude rules'),
    (shared("lr_mult: 1", "lr_mult: @2"), DIFFERS.format("lr_mult")),
    (shared("decay_mult: 1", "decay_mult: @2"), DIFFERS.format("decay_mult")),
    (
        DATA + ip("a", "data", "x", "param { } param { } @param { }"),
        'layer "a" (InnerProduct): 3 param messages; expected at most 2',
    ),
    ('layer { name: "a" type: @"Convolutoin" }', 'unknown type "Convolutoin"; expected one of '),
    ('layer { name: "a" type: @"Convolutoin" }', 'did you mean "Convolution"?'),
    ('layer { name: "a" type: @"Conv" }', 'did you mean "Convolution"?'),
    ('@layer { name: "a" }', 'layer "a" has no type'),
    (DATA + mark(ip("a", "dato", "x"), '"dato"'), 'unknown bottom "dato"; did you mean "data"?'),
    (mark(ip("a", "x", "x"), '"x" top'), 'unknown bottom "x"'),
    (LATE + inputs(late=(2, 2)), 'layer "late" makes it further down: move that layer up'),
    (ONLY_TEST + LEFT_OUT, 'layer "x" makes it, but is left out: phase is TRAIN, the rule wants TEST'),
    (LEFT_OUT + ONLY_TEST, 'layer "x" makes it further down, but is left out: phase is TRAIN, the rule wants TEST'),
    (DATA + mark(ip("a", "data", "target"), '"target"'), 'a second top "target"; layer "target" makes it already'),
    (inputs(a=(2,)).replace('top: "a"', 'top: "a" top: @"a"'), 'a second top "a"; give it a name of its own'),
    (DATA + wired("Sigmoid", "data @target", "s"), 'layer "s" (Sigmoid): has 2 bottom blobs; expected 1'),
    (DATA + "@" + layer("Sigmoid", "data", tops=""), "has 0 top blobs; expected 1"),
    ('@layer { name: "s" type: "Silence" }', "has 0 bottom blobs; expected 1 or more"),
    (DATA + LOSS_4, "has 4 top blobs; expected 1 to 3"),
    (
        DATA + ip("a", "data", "x", "loss_weight: 1 loss_weight: @1"),
        "has 2 loss_weight for 1 tops; expected none, or 1",
    ),
    (
        DATA + ip("a", "data", "x", "propagate_down: true propagate_down: @true"),
        "has 2 propagate_down for 1 bottoms; expected none, or 1",
    ),
    (mark(inputs(a=(0,)), "0"), "a bad dimension; expected 1 or more, found 0"),
    (mark(inputs(a=(3, -4)), "-4"), "a bad dimension; expected 1 or more, found -4"),
    (
        mark(inputs(a=(2**16, 2**15)), '"a" input'),
        'top "a" is too large; expected at most 2147483647 numbers, found 2147483648',
    ),
    (DATA + mark(ip("a", "data", "x"), '"x"').replace("output: 3", "output: 4000000000"), 'top "x" is too large'),
    (
        inputs(a=(1, 100000)) + BIG,
        "parameter 0 is too large; expected at most 2147483647 numbers, found 10000000000 [100000, 100000]",
    ),
    (inputs(a=(1, 1, 8, 8)) + WIDE, 'top "c" is too large'),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_mistakes(text, message):
    mistakes(text, message)


@pytest.mark.parametrize("name", ["MyThing", "Finder", "FC", "Blend", "Scribble"])
def test_no_type_is_suggested_that_is_not_near(name):
    with pytest.raises(CaffeliteError, match=f'unknown type "{name}"; expected one of') as error:
        build(f'layer {{ name: "a" type: "{name}" }}')
    assert "did you mean" not in str(error.value)


def test_too_many_tops_are_refused_at_once():
    tops = " ".join(f'top: "t{i}"' for i in range(16385))
    with pytest.raises(CaffeliteError, match='layer "in" has too many top blobs; expected at most 16384, found 16385'):
        build(f'layer {{ name: "in" type: "Input" {tops} input_param {{ shape {{ dim: 1 }} }} }}')


def test_a_net_without_layers():
    with pytest.raises(CaffeliteError, match="^net.prototxt: the net has no layers; write layer "):
        build("")


def test_largest_blob_is_fine():
    assert build(inputs(a=(2**31 - 1,))).values["a"].shape == (2**31 - 1,)


def test_all_mistakes_in_one_pass_and_no_follow_ons():
    text = DATA + 'layer { name: "a" type: @"Relu6" bottom: "data" top: "x" }\n' + ip("b", "x", "y")
    text += layer("ReLU", "@datta", tops="z", name="c") + layer("ReLU", "data", tops="@target", name="e")
    text += wired("Dropout", "data", "w", "dropout_ratio: @2", name="d")
    messages = ['unknown type "Relu6"', 'unknown bottom "datta"', 'a second top "target"', "a bad dropout_ratio"]
    mistakes(text, *messages)


def test_layers_of_one_name_are_built_and_named():
    graph = build(inputs(data=(2, 3)) + ip("same", "data", "a") + ip("same", "a", "b"))
    assert [node.name for node in graph.nodes][-2:] == ["same", "same"]
    assert len(graph.notes) == 1 and "both read and write the same weights" in graph.notes[0]


def test_a_layer_without_gradient_in_a_learned_path_is_named():
    text = DATA + ip("a", "data", "a") + wired("Threshold", "a", "b", name="cut") + ip("c", "b", "c")
    (note,) = build(text + loss("l", "c", "target")).notes
    assert 'layer "cut" (Threshold) passes no gradient on' in note


def test_sources_are_closed_when_the_graph_fails():
    class Source:
        shapes, closed = [(2, 4)], False

        def close(self):
            self.closed = True

    source = Source()
    text = 'layer { name: "d" type: "Data" top: "data" }\n' + ip("a", "nowhere", "x")
    with pytest.raises(CaffeliteError, match="nowhere"):
        build(text, open_source=lambda spec, phase, locate: source)
    assert source.closed
