"""Nets and their ONNX files, which onnxruntime computes alike."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, devices, prototxt
from caffelite.export import onnx
from caffelite.net import graph
from caffelite.net.net import Net

IMAGES = "input_param { shape { dim: 2 dim: 6 dim: 7 dim: 8 } }"


def exported(document: prototxt.Document, seed: int, dtype: str = "float64"):
    """(the net with random weights, its ONNX file). dtype: of the net; in float64 no formula is compiled."""
    state = pb.NetState(phase=pb.TEST)
    plain, bound, exact = (graph.build(document.message, state, document.locate) for _ in range(3))
    net = Net.of(bound, devices.open_device(), keep=True)
    rng = np.random.default_rng(seed)
    for node in net.graph.nodes:
        for i, param in enumerate(node.layer.params):
            if node.layer.spec.type in ("BatchNorm", "BN", "Scale"):
                net.dev.upload(param.data, rng.uniform(0.5, 1.5, param.data.shape).astype(np.float32))
            elif i or node.layer.spec.type == "PReLU":
                net.dev.upload(param.data, rng.normal(0, 0.3, param.data.shape).astype(np.float32))
    body = onnx.encode(plain, net)
    if dtype == "float32":
        return net, body
    other = Net.of(exact, devices.open_device(None, dtype), keep=True)
    for mine, its in zip(net.params.blobs, other.params.blobs, strict=True):
        other.dev.upload(its, net.dev.download(mine))
    return other, body


def text(layers: str, shape: str = IMAGES) -> prototxt.Document:
    document = prototxt.parse(f'layer {{ name: "in" type: "Input" top: "x" {shape} }}\n{layers}', pb.NetParameter)
    return prototxt.modern(document)


def exports(layers: Mapping[str, str], images: str = IMAGES) -> Callable[[str, str, int], None]:
    """A test that each layer over images has the same top in ONNX, for any number of images. layers: its type and its
    fields by the name of the case; %s: a filler of weights."""

    @pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
    @pytest.mark.parametrize("name", layers)
    def test_layer(name: str, dtype: str, seed: int) -> None:
        layer = layers[name].replace("%s", 'weight_filler { type: "xavier" }')
        net, body = exported(text(f'layer {{ name: "y" bottom: "x" top: "y" {layer} }}', images), seed, dtype)
        assert onnx.check(net, body, seed).outputs["y"] < 1e-5
        again = text(f'layer {{ name: "y" bottom: "x" top: "y" {layer} }}', images.replace("dim: 2", "dim: 5", 1))
        assert onnx.check(exported(again, seed, dtype)[0], body, seed).outputs["y"] < 1e-5, "the batch size is open"

    return test_layer
