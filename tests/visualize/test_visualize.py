"""Pictures of what a net has learned: the numbers behind them, and `caffelite visualize`."""

import itertools
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import cv2
import numpy as np
import pytest

import caffelite
from caffelite import caffelite_pb2 as pb, devices, prototxt, weights
from caffelite.cli import main
from caffelite.data.writers import write_hdf5
from caffelite.errors import CaffeliteError
from caffelite.net import graph
from caffelite.net.net import Net
from caffelite.runs.open_net import open_net
from caffelite.visualize import features, snapshots
from caffelite.visualize.explained import ExplainedNet, probabilities
from caffelite.zoo import trained

NET = """
name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 6 } }
  transform_param { scale: 0.01 mean_value: 100 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
deploy_param { label: "cat" label: "dog" label: "cow" weights: "net_iter_9.caffemodel" }
"""
DATA = """
layer { name: "rows" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "rows.txt" batch_size: 4 } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "y" top: "loss" }
"""


def save(net, path):
    blobs = [(node.layer.spec, arrays) for node, arrays in net.layer_blobs()]
    path.write_bytes(weights.sealed(weights.encode_net(net.graph.message, blobs)))


def built(path, seed):
    document, state = prototxt.read_net(path), pb.NetState(phase=pb.TEST)
    return Net.of(graph.build(document.message, state, document.locate), devices.open_device(), seed=seed)


@pytest.fixture
def folder(tmp_path, in_tmp_path):
    """The working directory with a deploy net, its weights in three snapshots, an image, and a net with data."""
    (tmp_path / "net.prototxt").write_text(NET)
    for i, iteration in enumerate((3, 6, 9, 12)):
        save(built("net.prototxt", seed=i), tmp_path / f"net_iter_{iteration}.caffemodel")
    rng = np.random.default_rng(1)
    cv2.imwrite("image.png", rng.integers(0, 255, (8, 6, 3), dtype=np.uint8))
    (tmp_path / "data.prototxt").write_text(DATA)
    write_hdf5(tmp_path / "rows.h5", {"x": rng.standard_normal((13, 5)), "y": np.arange(13.0) % 3})
    return tmp_path


@pytest.fixture
def explained(folder):
    return ExplainedNet(prototxt.read_net("net.prototxt"), devices.open_device())


def run(*arguments):
    """The exit status of a command."""
    try:
        main(["visualize", *map(str, arguments)])
    except SystemExit as end:
        return end.code or 0
    return 0


# Numbers


def test_the_picture_shows_the_pixels_of_the_file(explained, folder):
    picture = explained.picture(folder / "image.png")
    pixels = cv2.imread("image.png")
    assert np.array_equal(picture.pixels, pixels[:, :, ::-1]), "red, green, blue"
    expected = (pixels.transpose(2, 0, 1) - 100.0) * 0.01
    assert np.allclose(picture.input[0], expected, atol=1e-6)


def test_scores_are_those_before_softmax(explained, folder):
    picture = explained.picture(folder / "image.png")
    net = caffelite.Net("net.prototxt")
    assert np.allclose(probabilities(explained.scores(picture.input)), net.forward(data=picture.input)["prob"][0])


@pytest.mark.parametrize("number", range(3))
def test_saliency_is_the_magnitude_of_the_gradient(explained, folder, number):
    values = explained.picture(folder / "image.png").input
    actual = explained.saliency(values, number)
    step, slopes = 1e-2, np.zeros(values.shape)
    for place in np.ndindex(values.shape):
        sides = []
        for sign in (1, -1):
            moved = values.copy()
            moved[place] += sign * step
            sides.append(explained.scores(moved)[number])
        slopes[place] = (sides[0] - sides[1]) / (2 * step)
    assert actual.shape == (8, 6) and np.median(np.abs(actual - np.abs(slopes[0]).max(0))) < 1e-4


@pytest.mark.parametrize("name", ["ssd_shapes", "segnet_shapes", "ctc_words"])
def test_nets_without_scores_of_classes(in_tmp_path, capsys, name):
    picture = trained.find(name).pictures[0]
    assert run("saliency", picture, "-model", name, "-out", "a.png") == 2
    assert "a net with scores of classes is needed; expected N×C, found" in capsys.readouterr().err
    assert run("activations", picture, "-model", name, "-layer", "conv1", "-out", "a.png") == 0


def test_smoothed_saliency_repeats(explained, folder):
    values = explained.picture(folder / "image.png").input
    one, other = (explained.saliency(values, 0, samples=5) for _ in range(2))
    assert np.array_equal(one, other) and not np.array_equal(one, explained.saliency(values, 0))


def test_grad_cam_weighs_channels_with_mean_gradients(explained, folder):
    name, value = explained.last_map()
    explained.scores(explained.picture(folder / "image.png").input)
    blobs = weights.read_model(folder / "net_iter_9.caffemodel")
    maps = explained.values(value)
    assert name == "conv" and (maps >= 0).all() and maps.shape == (4, 8, 6), "after the ReLU"
    gradient = blobs["ip"][0].reshape(3, 4, 8, 6)[2]
    expected = np.maximum((gradient.mean((1, 2))[:, None, None] * maps).sum(0), 0)
    assert np.allclose(explained.grad_cam(2, value), expected, atol=1e-5)


def test_activations_are_of_the_named_layer(explained, folder):
    explained.scores(explained.picture(folder / "image.png").input)
    before, after = explained.values(explained.top("conv")), explained.values(explained.top("relu"))
    assert before.min() < 0 and np.array_equal(np.maximum(before, 0), after)


def test_features_are_rows_of_the_data(folder):
    with closing(open_net(prototxt.read_net("data.prototxt"), devices.open_device(), 1, keep=True)) as net:
        actual = features.collect(net, "x", 100)
        assert actual.rows.shape == (13, 5) and actual.labels.tolist() == [i % 3 for i in range(13)]
        with pytest.raises(CaffeliteError, match='did you mean "ip"'):
            features.collect(net, "ipp", 10)
        with pytest.raises(CaffeliteError, match="has no features"):
            features.collect(net, "loss", 10)


def test_projections(folder):
    rows = np.random.default_rng(0).standard_normal((30, 4)) * [9, 3, 0.1, 0.1]
    points, text = features.project(features.Features(rows, None), "pca")
    centered = rows - rows.mean(0)
    assert np.allclose(np.abs(points), np.abs(centered @ np.linalg.svd(centered)[2][:2].T)) and text.startswith(
        "PCA: 9"
    )
    one, other = (features.project(features.Features(rows, None), "tsne", 3)[0] for _ in range(2))
    assert one.shape == (30, 2) and np.array_equal(one, other)
    with pytest.raises(CaffeliteError, match="too few"):
        features.project(features.Features(rows[:2], None), "pca")


def test_snapshots_of_a_run_are_in_order(folder):
    paths = snapshots.in_order([Path("net_iter_12.caffemodel"), Path("net_iter_3.caffemodel")])
    assert [path.name for path in paths] == ["net_iter_3.caffemodel", "net_iter_12.caffemodel"]
    actual = snapshots.parameter_history(snapshots.load_snapshots(paths), ["ip"], 1)
    assert [(at, values.shape) for at, values in actual["ip"]] == [(3, (3,)), (12, (3,))]


def test_filters_keep_their_shape(folder):
    assert snapshots.filters("net_iter_3.caffemodel", None)[1].shape == (4, 3, 3, 3)
    assert snapshots.filters("net_iter_3.caffemodel", "ip")[1].shape == (3, 192)


# The command


PICTURES = [
    ("filters", "-weights", "net_iter_3.caffemodel"),
    ("filters", "-weights", "net_iter_3.caffemodel", "-layer", "ip"),
    ("activations", "image.png", "-model", "net.prototxt"),
    ("activations", "image.png", "-model", "net.prototxt", "-layer", "ip"),
    ("saliency", "image.png", "-model", "net.prototxt", "-class", "dog", "-class", "2", "-samples", 2),
    ("gradcam", "image.png", "-model", "net.prototxt", "-top", 2, "-layer", "conv"),
    ("features", "-model", "data.prototxt", "-weights", "net_iter_3.caffemodel", "-blob", "x", "-method", "pca"),
    ("parameters", "net_iter_3.caffemodel", "net_iter_6.caffemodel"),
]
FORMATS = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


def in_every_format() -> Iterator:
    """Each picture and format; in the first tier each picture once, and each format."""
    for number, (picture, form) in enumerate(itertools.product(PICTURES, FORMATS)):
        first = number % len(FORMATS) == number // len(FORMATS) % len(FORMATS)
        yield pytest.param(picture, form, marks=() if first else pytest.mark.slow)


@pytest.mark.parametrize("arguments, form", list(in_every_format()))
def test_every_picture_in_every_format(folder, arguments, form):
    if arguments[0] == "features":
        text = DATA.replace("rows.txt", str(folder / "rows.txt"))
        (folder / "data.prototxt").write_text(text)
        net = open_net(prototxt.read_net("data.prototxt"), devices.open_device(), 1)
        save(net, folder / "net_iter_3.caffemodel")
    assert run(*arguments, "-out", f"picture.{form}") == 0
    assert (folder / f"picture.{form}").read_bytes().startswith(FORMATS[form])


def test_captions_name_class_and_probability(folder):
    assert run("gradcam", "image.png", "-model", "net.prototxt", "-top", 3, "-out", "all.svg") == 0
    drawn = (folder / "all.svg").read_text()
    assert all(f"<!-- {label} (" in drawn for label in ("cat", "dog", "cow")) and "<!-- Grad-CAM, conv -->" in drawn


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("filters", "-weights", "net_iter_3.caffemodel", "-layer", "cnv"), 'did you mean "conv"'),
        (("filters", "-weights", "none.caffemodel"), "none.caffemodel"),
        (("activations", "image.png", "-model", "net.prototxt", "-layer", "cnv"), 'did you mean "conv"'),
        (("activations", "none.png", "-model", "net.prototxt"), "none.png"),
        (("saliency", "image.png", "-model", "net.prototxt", "-class", "dgo"), 'did you mean "dog"'),
        (("saliency", "image.png", "-model", "net.prototxt", "-class", "3"), "from 0 to 2"),
        (("gradcam", "image.png", "-model", "net.prototxt", "-layer", "ip"), "has no maps"),
        (("gradcam", "image.png", "-model", "data.prototxt"), "caffelite deploy"),
        (("parameters", "."), "not the folder of a run"),
        (("parameters", "net.prototxt"), "is no snapshot"),
        (("parameters", "net_iter_3.caffemodel", "-layer", "cnv"), 'did you mean "conv"'),
        (("parameters", "net_iter_3.caffemodel", "-blob", "2"), "no layer has a parameter 2"),
    ],
)
def test_mistakes_of_visualize(folder, capsys, arguments, message):
    assert run(*arguments, "-out", "picture.png") == 2
    assert message in capsys.readouterr().err and not (folder / "picture.png").exists()


def test_a_picture_of_another_format_is_refused(folder, capsys):
    assert run("filters", "-weights", "net_iter_3.caffemodel", "-out", "picture.gif") == 2
    assert ".svg, .png or .pdf" in capsys.readouterr().err


def test_features_without_scikit_learn_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.decomposition", None)
    with pytest.raises(CaffeliteError, match=r'pip install "caffelite\[features\]"'):
        features.project(features.Features(np.zeros((5, 5)), None), "pca")
