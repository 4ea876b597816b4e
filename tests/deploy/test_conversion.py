"""Train nets become deploy nets: what stays, what goes, what takes a loss's place."""

from pathlib import Path

import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.deploy.convert import convert
from caffelite.errors import CaffeliteError
from caffelite.net import graph

MODELS = Path(__file__).parent.parent.parent / "models"
SHIPPED = sorted(path.parent.name for path in MODELS.glob("*/deploy.prototxt"))
NET = """
layer {{ name: "d" type: "DummyData" top: "data" top: "label" dummy_data_param {{
  shape {{ dim: 8 dim: 3 dim: 4 dim: 4 }} shape {{ dim: 8 }} }} }}
layer {{ name: "ip" type: "InnerProduct" bottom: "data" top: "ip" param {{ lr_mult: 2 }} param {{ lr_mult: 0 }}
  inner_product_param {{ num_output: 5 weight_filler {{ type: "xavier" }} }} }}
{}
"""


def built(message: pb.NetParameter) -> graph.Graph:
    return graph.build(message, pb.NetState(phase=pb.TEST))


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "cifar10_resnet"])  # which has test-time flips
def test_shipped_deploy_nets_come_out(name, test_graph):
    """What is made of each train_val.prototxt is the deploy.prototxt next to it: layers, shapes, weights,
    probabilities."""
    made = convert(test_graph(f"{name}/train_val.prototxt"))
    theirs = prototxt.read_net(MODELS / name / "deploy.prototxt").message
    mine = built(made.message)
    for layer in theirs.layer:
        if layer.type == "Input":
            layer.input_param.shape[0].dim[0] = 1
    theirs = built(theirs)
    assert [n.layer.spec.type for n in mine.nodes] == [n.layer.spec.type for n in theirs.nodes]
    shapes = [{n.name: [v.shape for v in n.tops] for n in g.nodes if n.params} for g in (mine, theirs)]
    assert shapes[0] == shapes[1]
    assert [v.shape for v in mine.outputs] == [v.shape for v in theirs.outputs] and made.outputs == ["prob"]


def test_test_time_flips_stay(test_graph):
    layers = convert(test_graph("cifar10_resnet/train_val.prototxt")).message.layer
    names = ["mirrored", "views", "mean_score"]
    assert [layer.name for layer in layers if layer.name in names] == names
    assert list(layers[0].top) == ["image"] and list(layers[-1].bottom) == ["mean_score"]


def test_only_training_s_fields_go(test_graph):
    layers = convert(test_graph("lenet/train_val.prototxt")).message.layer
    text = "".join(str(layer) for layer in layers)
    assert not any(word in text for word in ("include", "filler", "lr_mult", "phase", "source"))
    assert layers[0].transform_param.scale == pytest.approx(1 / 256)
    assert layers[0].input_param.shape[0].dim == [1, 1, 28, 28]


def test_chance_goes_and_the_rest_of_the_transform_stays(test_graph):
    actual = convert(test_graph("alexnet/train_val.prototxt")).message.layer[0].transform_param
    assert {f.name for f, _ in actual.ListFields()} == {"crop_size", "mean_value"}


def test_a_region_detector_keeps_the_transform_of_its_images(test_graph):
    data = convert(test_graph("faster_rcnn_shapes/train_val.prototxt")).message.layer[0]
    assert list(data.top) == ["data", "im_info"] and not data.transform_param.mirror
    assert list(data.transform_param.mean_value) == [128] and data.transform_param.scale == pytest.approx(0.0156)


def test_of_several_losses_the_heaviest_counts(test_graph):
    early, last = (
        f'layer {{ name: "{n}" type: "InnerProduct" bottom: "ip" top: "{n}" inner_product_param {{ num_output: 2 }} }}'
        f'layer {{ name: "{n}_loss" type: "SoftmaxWithLoss" bottom: "{n}" bottom: "label" top: "{n}_loss" '
        f"loss_weight: {w} }}"
        for n, w in (("early", 0.3), ("last", 1))
    )
    made = convert(test_graph(NET.format(early + last)))
    assert made.notes == ['loss "early_loss" of weight 0.3 is left out, with what only it needs']
    assert [layer.name for layer in made.message.layer] == ["d", "ip", "last", "prob"] and list(made.scores) == ["last"]


def test_what_judges_a_target_keeps_what_was_learned(test_graph):
    assert convert(test_graph("mnist_autoencoder/train_val.prototxt", stages=("test-on-test",))).outputs == ["image"]
    assert convert(test_graph("siamese/train_val.prototxt", pair=(2, 28, 28))).outputs == [
        "feature_left",
        "feature_right",
    ]


@pytest.mark.parametrize(
    ("judge", "layers", "outputs"),
    [
        ('layer { name: "l" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "l" }', ["Softmax"], ["prob"]),
        (
            'layer { name: "l" type: "SigmoidCrossEntropyLoss" bottom: "ip" bottom: "ip" top: "l" }',
            ["Sigmoid"],
            ["prob"],
        ),
        ('layer { name: "l" type: "HingeLoss" bottom: "ip" bottom: "label" top: "l" }', [], ["ip"]),
        ('layer { name: "a" type: "Accuracy" bottom: "ip" bottom: "label" top: "a" }', [], ["ip"]),
        ('layer { name: "r" type: "ReLU" bottom: "ip" top: "r" }', ["ReLU"], ["label", "r"]),
        (
            'layer { name: "s" type: "Softmax" bottom: "ip" top: "s" }'
            'layer { name: "l" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "l" }',
            ["Softmax"],
            ["s"],
        ),
        (
            'layer { name: "prob" type: "ReLU" bottom: "ip" top: "prob" }'
            'layer { name: "l" type: "SoftmaxWithLoss" bottom: "prob" bottom: "label" top: "l" }',
            ["ReLU", "Softmax"],
            ["l_prob"],
        ),
        (
            'layer { name: "l" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "l" softmax_param { axis: '
            "-1 } }",
            ["Softmax"],
            ["prob"],
        ),
    ],
)
def test_in_a_loss_s_place(judge, layers, outputs, test_graph):
    made = convert(test_graph(NET.format(judge)))
    assert [layer.type for layer in made.message.layer][2:] == layers
    assert [o for o in made.outputs if o != "label"] == outputs[-1:]
    if "axis" in judge:
        assert made.message.layer[-1].softmax_param.axis == -1
    built(made.message)


def test_wanted_outputs_and_batch(test_graph):
    made = convert(test_graph("lenet/train_val.prototxt"), ["ip1"], batch=7)
    assert made.outputs == ["ip1"] and built(made.message).values["ip1"].shape == (7, 500)
    with pytest.raises(CaffeliteError, match='no blob "ip3".*did you mean "ip'):
        convert(test_graph("lenet/train_val.prototxt"), ["ip3"])


def test_shared_weights_stay_shared(test_graph):
    made = built(convert(test_graph("siamese/train_val.prototxt", pair=(2, 28, 28))).message)
    assert (
        len(made.parameters)
        == len({p.owner for n in made.nodes for p in n.params})
        < sum(len(n.params) for n in made.nodes)
    )


def test_recurrent_nets_keep_their_time_axis(test_graph):
    made = convert(test_graph("lstm/train_val.prototxt", code=(20,), cont=(20,), target=(20,)))
    assert built(made.message).values
