"""Where backward runs, and which blobs get gradients."""

import pytest
from test_graph import DATA, ip, loss, node
from textnet import build, inputs, layer, mistakes, wired


def flags(graph) -> dict:
    return {n.name: n.gradient_to for n in graph.nodes if n.backward}


FROZEN, STOPS, LEARNS = "param { lr_mult: 0 } param { lr_mult: 0 }", "propagate_down: false", [True, False]
A, B, LOSS = ip("a", "data", "x"), ip("b", "x", "y"), loss("l", "y", "target")
SOFTMAX = wired("SoftmaxWithLoss", "y label", "l p", "loss_weight: 0 loss_weight: 0", name="s")
LABELED = inputs(label=(2,)) + ip("a", "data", "y")
NETS = {
    "between a parameter and a loss": (A + ip("aside", "x", "s") + B + LOSS, {"a": [False], "b": [True], "l": LEARNS}),
    "not in frozen layers below": (ip("a", "data", "x", FROZEN) + B + LOSS, {"b": [False], "l": LEARNS}),
    "nowhere where nothing learns": (layer("ReLU", "target") + LOSS, {}),
    "not below propagate_down": (A + ip("b", "x", "y", STOPS) + LOSS, {"b": [False], "l": LEARNS}),
    "nowhere where propagate_down cuts all off": (A + layer("ReLU", "x", body=STOPS) + LOSS, {}),
    "not by force_backward's absence": (ip("a", "data", "y", FROZEN) + LOSS, {}),
    "not to the probabilities of a loss": (
        LABELED + SOFTMAX + ip("b", "p", "q") + loss("m", "q", "target"),
        {"b": [False], "m": LEARNS},
    ),
    "not for a weight on probabilities": (LABELED + SOFTMAX.replace("0 loss_weight: 0", "0 loss_weight: 1"), {}),
}


@pytest.mark.parametrize("case", NETS)
def test_where_backward_runs(case):
    text, expected = NETS[case]
    assert flags(build(DATA + text)) == expected


def test_param_propagate_down_decides_who_gets_gradients():
    given = "param { lr_mult: 0 param_propagate_down: true } param { param_propagate_down: false }"
    graph = build(DATA + ip("a", "data", "x", given) + B + LOSS)
    assert [p.wanted for p in node(graph, "a").params] == [True, False]
    assert [p.lr_mult for p in graph.parameters[:2]] == [0, None], "weight_decay still acts where lr_mult is 1"


def test_frozen_parameters_are_not_wanted():
    graph = build(DATA + NETS["not in frozen layers below"][0])
    assert [p.wanted for p in node(graph, "a").params] == [False, False]


def test_propagate_down_reaches_an_input():
    reach = ip("b", "data", "y", "propagate_down: true")
    graph = build(DATA + reach + loss("l", "y", "target", "propagate_down: true propagate_down: false"))
    assert flags(graph) == {"b": [True], "l": [True, False]} and graph.values["data"].gradient


def test_force_backward_reaches_the_inputs():
    text = DATA + ip("a", "data", "y", FROZEN) + LOSS
    for phase in ("TRAIN", "TEST"):
        graph = build("force_backward: true\n" + text, phase)
        assert flags(graph) == {"a": [True], "l": [True, True]}
        assert graph.values["data"].gradient and graph.values["target"].gradient


def test_force_backward_leaves_labels_alone():
    text = inputs(data=(2, 3), label=(2,)) + wired("SoftmaxWithLoss", "data label", "l")
    assert flags(build("force_backward: true\n" + text)) == {"l": [True, False]}


def test_test_nets_run_no_backward():
    assert flags(build(DATA + ip("a", "data", "y") + LOSS, "TEST")) == {}


def test_a_weight_on_probabilities_gives_no_gradient():
    asked = ip("b", "p", "q", "propagate_down: true") + loss("m", "q", "target")
    for head in ("", "force_backward: true\n"):
        graph = build(head + DATA + NETS["not for a weight on probabilities"][0] + asked)
        assert not node(graph, "s").backward and node(graph, "b").gradient_to == [False]


@pytest.mark.parametrize(("between", "learns"), [("Flatten", False), ("ReLU", True)])
def test_a_parameter_that_only_a_flatten_reads_learns_nothing(between, learns):
    text = wired("Parameter", "", "p", "shape { dim: 2 dim: 3 }") + wired(between, "p", "f")
    graph = build(DATA + text + loss("l", "f", "target"))
    assert node(graph, "p").params[0].wanted is learns
    note = 'layer "p" learns nothing, as in Caffe: its only reader, "f", takes its gradient over'
    assert graph.notes == ([] if learns else [note])


def test_labels_that_are_learned():
    text = DATA + ip("a", "data", "x") + ip("b", "data", "t")
    what = (
        'layer "l" (SigmoidCrossEntropyLoss): can give its bottom "t" no gradient; propagate_down: false for bottom 1'
    )

    def sigmoid(body: str = "") -> str:
        return wired("SigmoidCrossEntropyLoss", "x t", "l", body)

    mistakes(text + "@" + sigmoid(), what)
    mistakes(text + sigmoid("propagate_down: true propagate_down: @true"), 'can give its bottom "t" no gradient')
    build(text + sigmoid("propagate_down: true propagate_down: false"))
    build(text + sigmoid("loss_weight: 0"))


def test_loss_weight_without_gradient():
    text = DATA + LABELED + wired("Accuracy", "y label", "s", "loss_weight: @1")
    mistakes(text, 'layer "s" (Accuracy): has a loss_weight, but no gradient; drop loss_weight')
