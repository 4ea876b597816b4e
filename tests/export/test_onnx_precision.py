"""ONNX files in float16 and int8: they answer as in float32, are smaller, and take the same pixels."""

import logging
import re
from contextlib import closing

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner

from caffelite import caffelite_pb2 as pb, devices, prototxt
from caffelite.cli import caffelite
from caffelite.errors import CaffeliteError
from caffelite.export import onnx, precision
from caffelite.net import graph
from caffelite.net.net import Net
from caffelite.report.collect import head
from caffelite.runs.open_net import load_weights, open_net
from caffelite.zoo import trained

DATA = """
layer {{ name: "data" type: "ImageData" top: "data" top: "label" transform_param {{ scale: 0.00390625 }}
  image_data_param {{ source: "{list}" batch_size: 4 is_color: false new_height: 28 new_width: 28 }} }}
"""


def net_of(name: str) -> tuple[graph.Graph, bytes]:
    one = trained.find(name)
    document = prototxt.read_net(one.deploy)
    plain, bound = (graph.build(document.message, pb.NetState(phase=pb.TEST), document.locate) for _ in range(2))
    net = Net.of(bound, devices.open_device(), keep=True)
    load_weights(net, [str(one.folder / f"{name}.caffemodel")])
    return plain, onnx.encode(plain, net)


def with_data(folder, top: str = "data"):
    """A net of the digits' pictures, with Accuracy, as a file."""
    one = trained.find("digits")
    pictures = [path for path in one.pictures if path.parent.name.isdecimal()] or one.pictures
    rows = [f"{path} {i % 10}" for i, path in enumerate(pictures[:8])]
    (folder / "list.txt").write_text("\n".join(rows) + "\n")
    layers = prototxt.read_net(one.deploy).message
    del layers.layer[0]
    layers.ClearField("deploy_param")
    accuracy = 'layer { name: "a" type: "Accuracy" bottom: "prob" bottom: "label" top: "a" }'
    body = DATA.format(list=folder / "list.txt").replace('top: "data"', f'top: "{top}"')
    text = body + prototxt.write(layers).replace('bottom: "data"', f'bottom: "{top}"') + accuracy
    (folder / "net.prototxt").write_text(text)
    return folder / "net.prototxt"


def random_batches(plain: graph.Graph, count: int, seed: int) -> list[precision.Batch]:
    rng = np.random.default_rng(seed)
    shapes = {name: (4, *value.shape[1:]) for name, value in plain.inputs.items()}
    return [
        precision.Batch({name: rng.uniform(0, 255, s).astype(np.float32) for name, s in shapes.items()}, None)
        for _ in range(count)
    ]


@pytest.mark.parametrize("kind", ["fp16", "int8"])
def test_classifier(kind, seed):
    plain, body = net_of("lenet_mnist")
    data = random_batches(plain, 6, seed)
    made = precision.half(body) if kind == "fp16" else precision.quantized(body, data)
    assert len(made) < len(body) * (0.6 if kind == "fp16" else 0.4)
    sessions = [onnxruntime.InferenceSession(one, providers=["CPUExecutionProvider"]) for one in (body, made)]
    assert sessions[1].get_inputs()[0].type == sessions[1].get_outputs()[0].type == "tensor(float)"
    exact, near = (np.concatenate([s.run(None, b.inputs)[0] for b in data]) for s in sessions)
    assert np.abs(exact - near).max() < (0.01 if kind == "fp16" else 0.2)
    assert 0 < np.abs(exact - near).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ssd_shapes", "faster_rcnn_shapes", "segnet_shapes", "ctc_words", "flow_shapes"])
def test_half_of_other_nets_runs(name, seed):
    plain, body = net_of(name)
    made = onnxruntime.InferenceSession(precision.half(body), providers=["CPUExecutionProvider"])
    inputs = random_batches(plain, 1, seed)[0].inputs
    if "im_info" in inputs:
        inputs = {"data": inputs["data"][:1], "im_info": np.array([[128, 128, 1]], np.float32)}
    (answer,) = made.run(None, inputs)
    assert np.isfinite(answer).all() and answer.size


def test_batches_are_the_pixels_and_labels_of_the_data(tmp_path):
    plain, body = net_of("digits")
    read = prototxt.read_net(with_data(tmp_path))
    with closing(open_net(read, devices.open_device(), pb.TEST, keep=True)) as validation:
        load_weights(validation, [str(trained.find("digits").folder / "digits.caffemodel")])
        labels = head(validation.graph).labels
        data = list(precision.batches(validation, plain.inputs, onnx.pixel_transforms(plain), 8, labels))
    assert len(data) == 2 and [batch.labels.tolist() for batch in data] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    pixels = data[0].inputs["data"]
    transform = onnx.pixel_transforms(plain).get("data")
    assert pixels.max() > 100 or transform is None
    np.testing.assert_allclose(pixels, np.rint(pixels), atol=1e-3 if transform else 1)
    assert 0 <= precision.accuracy(body, data) <= 1


@pytest.mark.parametrize("wanted, counts", [(100, [4, 4]), (8, [4, 4]), (6, [4, 2]), (3, [3])])
def test_no_sample_comes_twice(wanted, counts, tmp_path):
    """Of 8 pictures in batches of 4."""
    plain, _ = net_of("digits")
    with closing(open_net(prototxt.read_net(with_data(tmp_path)), devices.open_device(), pb.TEST, keep=True)) as net:
        labels = head(net.graph).labels
        data = list(precision.batches(net, plain.inputs, {}, wanted, labels))
    assert [len(batch) for batch in data] == counts
    assert [label for batch in data for label in batch.labels] == list(range(min(wanted, 8)))


@pytest.mark.parametrize("sizes", [[8], [4, 4], [3, 3, 2], [1, 7], [1]])
def test_each_fourth_sample_gives_the_ranges(sizes):
    rows = iter(np.arange(sum(sizes)))
    data = [precision.Batch({"x": np.array([next(rows) for _ in range(size)])}, None) for size in sizes]
    chosen, others = ([x for batch in part for x in batch.inputs["x"]] for part in precision.split(data))
    assert (chosen, others) == (([0], [0]) if sizes == [1] else ([0, 4], [1, 2, 3, 5, 6, 7]))


def test_data_of_another_net(tmp_path):
    plain, _ = net_of("digits")
    read = prototxt.read_net(with_data(tmp_path, "other"))
    with closing(open_net(read, devices.open_device(), pb.TEST, keep=True)) as validation:
        with pytest.raises(CaffeliteError, match='the net of -data has no data in "data"'):
            next(precision.batches(validation, plain.inputs, {}, 8, None))


def test_command(tmp_path, caplog):
    net, out = trained.find("digits"), tmp_path / "net.onnx"
    words = ["export", "--model", net.deploy, "--weights", net.folder / "digits.caffemodel", "--out", out]
    done = CliRunner().invoke(caffelite, [str(word) for word in [*words, "--precision", "int8"]])
    assert done.exit_code == 2 and "-precision int8 needs -data" in done.output and not out.exists()
    more = ["--precision", "int8", "--data", with_data(tmp_path), "--samples", 8]
    with caplog.at_level(logging.INFO, "caffelite"):
        done = CliRunner().invoke(caffelite, [str(word) for word in [*words, *more]], catch_exceptions=False)
    assert done.exit_code == 0 and out.stat().st_size < 600_000
    assert re.search(r"Accuracy: 0\.\d{4} in fp32, 0\.\d{4} in int8", caplog.text + done.output)
