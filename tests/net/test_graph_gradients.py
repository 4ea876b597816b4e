"""Where backward runs, and which blobs get gradients."""

import pytest
from test_graph import DATA, ip, loss, node
from textnet import build, inputs, layer, mistakes, over


def flags(graph) -> dict:
    return {n.name: n.gradient_to for n in graph.nodes if n.backward}


def test_backward_runs_between_a_parameter_and_a_loss():
    text = DATA + ip("a", "data", "x") + ip("aside", "x", "s") + ip("b", "x", "y") + loss("l", "y", "target")
    assert flags(build(text)) == {"a": [False], "b": [True], "l": [True, False]}


def test_frozen_layers_below_need_no_backward():
    frozen = "param { lr_mult: 0 } param { lr_mult: 0 }"
    graph = build(DATA + ip("a", "data", "x", frozen) + ip("b", "x", "y") + loss("l", "y", "target"))
    assert flags(graph) == {"b": [False], "l": [True, False]}
    assert [p.wanted for p in node(graph, "a").params] == [False, False]


def test_nothing_learns_nothing_runs_backward():
    assert flags(build(DATA + layer("ReLU", "target") + loss("l", "y", "target"))) == {}


def test_propagate_down():
    stop = ip("b", "x", "y", "propagate_down: false")
    graph = build(DATA + ip("a", "data", "x") + stop + loss("l", "y", "target"))
    assert flags(graph) == {"b": [False], "l": [True, False]}
    relu = 'layer { name: "r" type: "ReLU" bottom: "x" top: "y" propagate_down: false }'
    assert flags(build(DATA + ip("a", "data", "x") + relu + loss("l", "y", "target"))) == {}
    reach = ip("b", "data", "y", "propagate_down: true")
    graph = build(DATA + reach + loss("l", "y", "target", "propagate_down: true propagate_down: false"))
    assert flags(graph) == {"b": [True], "l": [True, False]} and graph.values["data"].gradient


def test_force_backward_reaches_the_inputs():
    text = DATA + ip("a", "data", "y", "param { lr_mult: 0 } param { lr_mult: 0 }") + loss("l", "y", "target")
    for phase in ("TRAIN", "TEST"):
        graph = build("force_backward: true\n" + text, phase)
        assert flags(graph) == {"a": [True], "l": [True, True]}
        assert graph.values["data"].gradient and graph.values["target"].gradient
    assert flags(build(text)) == {}


def test_force_backward_leaves_labels_alone():
    text = over("SoftmaxWithLoss", data=(2, 3), label=(2,)).replace('"layer"', '"l"')
    assert flags(build("force_backward: true\n" + text)) == {"l": [True, False]}


def test_test_nets_run_no_backward():
    assert flags(build(DATA + ip("a", "data", "y") + loss("l", "y", "target"), "TEST")) == {}


def test_probabilities_of_a_loss_have_no_gradient():
    softmax = layer("SoftmaxWithLoss", "y", "label", tops="l p", body="loss_weight: 0 loss_weight: 0", name="s")
    text = DATA + inputs(label=(2,)) + ip("a", "data", "y") + softmax + ip("b", "p", "q") + loss("m", "q", "target")
    assert flags(build(text)) == {"b": [False], "m": [True, False]}


def test_a_weight_on_probabilities_gives_no_gradient():
    softmax = layer("SoftmaxWithLoss", "y", "label", tops="l p", body="loss_weight: 0 loss_weight: 1", name="s")
    assert flags(build(DATA + inputs(label=(2,)) + ip("a", "data", "y") + softmax)) == {}
    asked = ip("b", "p", "q", "propagate_down: true") + loss("m", "q", "target")
    for head in ("", "force_backward: true\n"):
        graph = build(head + DATA + inputs(label=(2,)) + ip("a", "data", "y") + softmax + asked)
        assert not node(graph, "s").backward and node(graph, "b").gradient_to == [False]


@pytest.mark.parametrize(("between", "learns"), [("Flatten", False), ("ReLU", True)])
def test_a_parameter_that_only_a_flatten_reads_learns_nothing(between, learns):
    text = 'layer { name: "p" type: "Parameter" top: "p" parameter_param { shape { dim: 2 dim: 3 } } }\n'
    text += f'layer {{ name: "f" type: "{between}" bottom: "p" top: "f" }}\n'
    graph = build(DATA + text + loss("l", "f", "target"))
    assert node(graph, "p").params[0].wanted is learns
    assert graph.notes == (
        [] if learns else ['layer "p" learns nothing, as in Caffe: its only reader, "f", takes its gradient over']
    )


def test_labels_that_are_learned():
    text = DATA + ip("a", "data", "x") + ip("b", "data", "t")
    sigmoid = '@layer { name: "l" type: "SigmoidCrossEntropyLoss" bottom: "x" bottom: "t" top: "l" }'
    mistakes(
        text + sigmoid,
        'layer "l" (SigmoidCrossEntropyLoss): can give its bottom "t" no gradient; propagate_down: false for bottom 1',
    )
    asked = sigmoid[1:].replace('top: "l"', 'top: "l" propagate_down: true propagate_down: @true')
    mistakes(text + asked, 'can give its bottom "t" no gradient')
    build(text + asked.replace("@true", "false"))
    build(text + sigmoid[1:].replace('top: "l"', 'top: "l" loss_weight: 0'))


def test_loss_weight_without_gradient():
    accuracy = 'layer { name: "s" type: "Accuracy" bottom: "y" bottom: "label" top: "s" loss_weight: @1 }'
    text = DATA + inputs(label=(2,)) + ip("a", "data", "y") + accuracy
    mistakes(text, 'layer "s" (Accuracy): has a loss_weight, but no gradient; drop loss_weight')
