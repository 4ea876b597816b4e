"""Fields that a layer does not read are named, with the place where they belong; those that it reads are not."""

import pytest
from google.protobuf import text_format
from layers.layer_row import Source
from layers.layer_rows import ROWS
from textnet import build, inputs, layer

import caffelite
from caffelite import caffelite_pb2 as pb
from caffelite.errors import CaffeliteError
from caffelite.layers.base.unread_fields import without_effect
from caffelite.net import graph

IMAGE, LABELS = (4, 3, 6, 6), (4,)
IGNORE = "loss_param { ignore_label: 0 }"
CASES = [
    (layer("Accuracy", "x", "t", body=IGNORE), ["loss_param; accuracy_param has ignore_label"]),
    (layer("ReLU", "x", body="transform_param { scale: 2 }"), ["transform_param; drop it"]),
    (layer("ReLU", "x", body="image_data_param { shuffle: true }"), ['image_data_param; drop it: type "ImageData"']),
    (layer("TanH", "x", body=IGNORE), ["loss_param; drop it: losses read it"]),
    (layer("SoftmaxWithLoss", "x", "t", body="accuracy_param { ignore_label: 0 }"), ["loss_param has ignore_label"]),
    (layer("Convolution", "x", body="num_output: 2 kernel_size: 3 ") + "", []),
    (layer("EuclideanLoss", "x", "x", body=IGNORE), ["ignore_label of loss_param"]),
    (layer("SmoothL1Loss", "x", "x", body="loss_param { ignore_label: 0 normalization: NONE }"), ["ignore_label of"]),
    (layer("L1Loss", "x", "x", body="loss_param { normalization: NONE }"), ["normalization of loss_param; drop it"]),
    (layer("Pooling", "x", body="kernel_size: 2 kernel_l: 2 stride_l: 2"), ["kernel_l; drop it", "stride_l; drop it"]),
    (layer("Pooling", "x", body="kernel_h: 2 kernel_w: 2 pad_h: 1 stride_h: 1 stride_w: 2"), []),
]


def found(text: str, phase: str = "TRAIN", **options) -> list[str]:
    return [str(one) for node in build(text, phase, **options).nodes for one in without_effect(node.layer)]


@pytest.mark.parametrize("text, expected", CASES)
def test_fields_without_effect_are_named_with_their_place(text, expected):
    fed = inputs(x=IMAGE, t=(4, 6, 6) if "SoftmaxWithLoss" in text or "Accuracy" in text else LABELS)
    actual = found(fed + text)
    assert len(actual) == len(expected)
    for line, part in zip(actual, expected, strict=True):
        assert line.startswith("net.prototxt:3:") and "does not read" in line and part in line, line


CONVERTED = [
    ("Convolution", "convolution_param", f"num_output: 2 kernel_size: 3 {field}")
    for field in ("kernel_depth: 3", "temporal_pad: 1", "pad_l: 1", "hole: 2", "relu: true", "stride_shape { dim: 1 }")
]
CONVERTED += [
    ("Deconvolution", "convolution_param", "num_output: 2 kernel_size: 3 pad_b: 1"),
    ("Im2col", "convolution_param", "kernel_size: 3 pad_r: 1"),
    ("Pooling", "pooling_param", "kernel_size: 2 round_below: true"),
    ("InnerProduct", "inner_product_param", "num_output: 2 relu: true"),
    ("BatchNorm", "batch_norm_param", "relu: true"),
]


@pytest.mark.parametrize("kind, holder, fields", CONVERTED)
def test_fields_that_reading_converts_are_refused_in_messages(kind, holder, fields):
    text = f'layer {{ name: "l" type: "{kind}" bottom: "x" top: "l" {holder} {{ {fields} }} }}'
    net = text_format.Parse(inputs(x=IMAGE) + text, pb.NetParameter())
    with pytest.raises(CaffeliteError, match="does not read .*, which reading a file converts"):
        graph.build(net, pb.NetState(phase=pb.TRAIN))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_fields_that_change_numbers_are_read(row):
    assert found(row.text(), row.phase, open_source=lambda *_: Source(row.source)) == []


def test_a_net_that_a_program_opens_says_what_has_no_effect(tmp_path, caplog):
    (tmp_path / "net.prototxt").write_text(inputs(x=IMAGE) + layer("ReLU", "x", body=IGNORE))
    caffelite.Net(tmp_path / "net.prototxt")
    assert "net.prototxt:2:" in caplog.text and "does not read loss_param" in caplog.text
