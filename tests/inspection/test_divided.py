"""`summary -split` and `draw -split`."""

import pytest
from textnet import inputs

from caffelite import caffelite_pb2 as pb
from caffelite.errors import CaffeliteError
from caffelite.inspection import nets, scene, split
from caffelite.inspection.picture import DIVIDED, STAGES, picture
from caffelite.net.partition.placement import Division, LayerPlacement, Placement

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


@pytest.fixture
def subject(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    return nets.inspected_net(str(path), None, {})


def stages(first: set[str], micro_batches: int, graph) -> Placement:
    layers = {n.name: LayerPlacement(0 if n.name in first else 1) for n in graph.nodes}
    return Placement(2, 1, micro_batches, layers)


def test_memory_of_stages_has_their_parameters(subject):
    graph, _ = subject.graph(pb.TRAIN)
    placement = stages({"data", "label", "conv", "relu"}, 2, graph)
    one, two = split.memory(subject, pb.TRAIN, 8, placement)
    assert (one.stage, two.stage) == (0, 1) and (one.flights, two.flights) == (2, 1)
    assert one.layers == ["data", "label", "conv", "relu"] and two.layers == ["fc1", "fc2", "loss"]
    assert one.memory.weights == 4 * (8 * 3 * 9 + 8) == one.memory.gradients
    assert two.memory.weights == 4 * (256 * 8 * 14 * 14 + 256 + 2560 + 10)
    whole = split.memory(subject, pb.TRAIN, 8, Placement(layers={n.name: LayerPlacement() for n in graph.nodes}))
    assert whole[0].memory.weights == one.memory.weights + two.memory.weights


def test_micro_batches_in_flight_take_their_own_memory(subject):
    graph, _ = subject.graph(pb.TRAIN)
    first = {"data", "label", "conv", "relu"}
    arenas = [split.memory(subject, pb.TRAIN, 8, stages(first, m, graph))[0].memory.arena for m in (1, 2, 4)]
    assert arenas[1] == pytest.approx(arenas[0], rel=0.02) and arenas[2] == pytest.approx(arenas[0] / 2, rel=0.02)
    with pytest.raises(CaffeliteError, match="cannot be divided into 3 micro-batches"):
        split.memory(subject, pb.TRAIN, 8, stages(first, 3, graph))
    subject.message.layer[-1].loss_param.ignore_label = 1
    assert [one.flights for one in split.memory(subject, pb.TRAIN, 8, stages(first, 4, graph))] == [4, 4]


def test_picture_colors_stages_and_marks_divided_layers(subject):
    graph, _ = subject.graph(pb.TRAIN)
    layers = {n.name: LayerPlacement(int(n.name in ("fc2", "loss"))) for n in graph.nodes}
    layers["fc1"] = LayerPlacement(0, Division.OUTPUTS)
    drawn = picture(graph, Placement(2, 2, 4, layers))
    boxes = [s for s in drawn.shapes if isinstance(s, scene.Box)]
    rows = {s.text: s for s in drawn.shapes if isinstance(s, scene.Text)}

    def colors(name: str) -> set[str]:
        row = rows[name]
        return {b.fill for b in boxes if b.y <= row.y <= b.y + b.height and b.x <= row.x <= b.x + b.width}

    assert STAGES[0] in colors("conv") & colors("fc1") and STAGES[1] in colors("fc2")
    assert sum(b.fill == DIVIDED for b in boxes) == 2, "the layer's and the legend's"
    assert "InnerProduct → 256  [outputs / 2]" in rows and {"stage 0", "stage 1", "divided"} <= rows.keys()
    assert any("2 stages, 2 shards, 4 micro-batches" in text for text in rows)
