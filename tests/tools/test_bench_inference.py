"""tools/bench_inference.py: random weights, and the programs on the same input."""

import argparse
import json

import bench_inference
import numpy as np
import pytest
from textnet import inputs

from caffelite.weights import read_model

NET = (
    inputs(data=(1, 3, 9, 9))
    + """
layer { name: "c" type: "Convolution" bottom: "data" top: "c" convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "n" type: "BatchNorm" bottom: "c" top: "c" }
layer { name: "s" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true } }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" }
layer { name: "p" type: "Softmax" bottom: "c" top: "p" }
"""
)


@pytest.fixture
def model(tmp_path) -> str:
    path = tmp_path / "deploy.prototxt"
    path.write_text(NET)
    return str(path)


def test_a_net_without_weights_gets_random_ones(model, tmp_path):
    ((actual, weights),) = bench_inference.pairs([model], str(tmp_path))
    blobs = read_model(weights)
    assert actual == model and blobs["c"][0].std() > 0.05
    assert blobs["n"][1].min() > 0 and blobs["n"][2] == 1


def test_weights_belong_to_the_net_before_them(tmp_path):
    words = ["a.prototxt", "a.caffemodel", "b.prototxt", "b.caffemodel"]
    assert bench_inference.pairs(words, str(tmp_path)) == [tuple(words[:2]), tuple(words[2:])]


def test_the_programs_give_the_same_output(model, tmp_path, capsys):
    (pair,) = bench_inference.pairs([model], str(tmp_path))
    outputs = []
    for side in ("caffelite", "opencv", "onnxruntime"):
        path = str(tmp_path / f"{side}.npz")
        options = {"inputs": json.dumps({"data": [2, 3, 9, 9]}), "outputs": json.dumps(["p"]), "seconds": 0}
        bench_inference.side(argparse.Namespace(models=pair, side=side, threads=1, save=path, **options))
        actual = json.loads(capsys.readouterr().out)
        assert len(actual["laps"]) == 5 and actual["mb"] > 0
        outputs.append(np.load(path)["p"])
    for other in outputs[1:]:
        np.testing.assert_allclose(outputs[0], other, rtol=1e-4, atol=1e-6)


def test_openvino_gives_the_same_output(model, tmp_path):
    pytest.importorskip("openvino")
    (pair,) = bench_inference.pairs([model], str(tmp_path))
    arrays = {"data": np.random.default_rng(1).standard_normal((2, 3, 9, 9)).astype(np.float32)}
    one, other = (
        run(*pair, arrays, ["p"], 1)() for run in (bench_inference.caffelite_run, bench_inference.openvino_run)
    )
    np.testing.assert_allclose(one["p"], other["p"], rtol=1e-4, atol=1e-6)
