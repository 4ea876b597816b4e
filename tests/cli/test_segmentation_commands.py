"""classify with a net that classifies pixels."""

import json

import cv2
import numpy as np
import pytest

import caffelite
from caffelite.deploy import annotate

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 8 } } }
layer { name: "score" type: "Convolution" bottom: "data" top: "score"
  convolution_param { num_output: 3 kernel_size: 1 } }
layer { name: "prob" type: "Softmax" bottom: "score" top: "prob" }
deploy_param { label: "ground" label: "blue" label: "red" }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A net that finds blue and red pixels, and a picture of two thirds ground and a third blue."""
    path = tmp_path_factory.mktemp("pixels")
    (path / "net.prototxt").write_text(NET)
    net = caffelite.Net(path / "net.prototxt", seed=1)
    w, b = net.params["score"]
    w.data[...] = np.array([[0, 0, 0], [1, 0, -1], [-1, 0, 1]]).reshape(3, 3, 1, 1)
    b.data[...] = 10, 0, 0
    net.save(path / "net.caffemodel")
    picture = np.full((6, 12, 3), 60, np.uint8)
    picture[:, :4, 0] = 255
    cv2.imwrite(str(path / "picture.png"), picture)
    return path


def classify(folder, call, *options):
    net = "-model", str(folder / "net.prototxt"), "-weights", str(folder / "net.caffemodel")
    return call("classify", *net, str(folder / "picture.png"), *options)


def test_classify_prints_the_share_of_each_class(folder, call):
    result = classify(folder, call)
    assert result.status == 0, result.err
    lines = [line.split() for line in result.out.splitlines()[1:]]
    assert [line[-1] for line in lines] == ["ground", "blue"]
    assert [float(line[0]) for line in lines] == pytest.approx([66.7, 33.3], abs=10)


def test_classify_colors_the_pixels(folder, call, tmp_path):
    result = classify(folder, call, "-annotate", str(tmp_path / "out"), "-json")
    assert result.status == 0, result.err
    (entry,) = json.loads(result.out)
    assert [one["class"] for one in entry["answers"]] == [0, 1]
    assert sum(one["share"] for one in entry["answers"]) == pytest.approx(1)
    page = cv2.imread(str(tmp_path / "out" / "picture.png"))
    assert page[5, 5].tolist() == [128, 30, 94] and page[5, 230].tolist() == [60, 60, 60]


def test_options_of_whole_images_are_refused(folder, call):
    result = classify(folder, call, "-oversample")
    assert result.status == 2 and "-oversample does not apply to a net that classifies pixels" in result.err


def test_palette_is_that_of_pascal_voc():
    expected = [[0, 0, 0], [0, 0, 128], [0, 128, 0], [0, 128, 128], [128, 0, 0]]  # blue, green, red
    assert annotate.palette(5).tolist() == expected and annotate.palette(256)[255].tolist() == [192, 224, 224]
