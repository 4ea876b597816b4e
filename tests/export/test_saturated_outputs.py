"""Probabilities that are all 0 and 1 hide a difference, which logits show: in export, import, deploy and compare."""

import numpy as np
import pytest
from onnx_import import onnx_nets as nets
from onnx_import.onnx_nets import node, weights

import caffelite
from caffelite import caffelite_pb2 as pb, devices, prototxt
from caffelite.deploy.convert import convert
from caffelite.errors import CaffeliteError
from caffelite.export import onnx, torch_check, torch_module
from caffelite.net import graph
from caffelite.net.net import Net
from caffelite.onnx_import.convert import convert as imported

NET = """
layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 4 dim: 6 } } }
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "score"
  inner_product_param { num_output: 5 weight_filler { type: "msra" } } }
layer { name: "prob" type: "Softmax" bottom: "score" top: "prob" }
"""
FLAT = 'layer { name: "flat" type: "Flatten" bottom: "prob" top: "flat" }'


def opened(text, factor):
    """A net whose probabilities are all 0 and 1. factor: of its weights, which does not change that."""
    document = prototxt.parse(text, pb.NetParameter, "net")
    net = Net.of(graph.build(document.message, pb.NetState(phase=pb.TEST)), devices.open_device(), keep=True)
    rng = np.random.default_rng(2)
    param = net.graph.nodes[1].layer.params[0]
    net.dev.upload(param.data, (factor * 1e5 * rng.standard_normal(param.data.shape)).astype(np.float32))
    return net


@pytest.mark.parametrize(("more", "name"), [("", "prob"), (FLAT, "flat")])
def test_an_exported_file_with_other_logits_is_refused(more, name):
    net, other = (opened(NET + more, factor) for factor in (1, 1.01))
    body = onnx.encode(net.graph, other)
    with pytest.raises(CaffeliteError, match=f'other numbers for "logits of {name}"'):
        onnx.check(net, body)
    checked = onnx.check(other, body).outputs
    assert checked[name] == 0 and checked[f"logits of {name}"] < 1e-6


def test_a_module_with_other_logits_is_refused():
    pytest.importorskip("torch")
    net, other = (opened(NET, factor) for factor in (1, 1.01))
    params = torch_module.parameters(other)
    text, tensors = torch_module.write_module(other.graph, params, "net.safetensors")
    with pytest.raises(CaffeliteError, match='other numbers for "logits of prob"'):
        torch_check.check(net, text, tensors)
    assert set(torch_check.check(other, text, tensors)) == {"prob", "logits of prob"}


def test_a_comparison_shows_other_logits(in_tmp_path):
    with open("net.prototxt", "w") as file:
        file.write(NET)
    net = caffelite.Net("net.prototxt", seed=3)
    for name, factor in (("a", 1e5), ("b", 1.01)):
        net.params["fc"][0].data[...] *= factor
        net.save(f"{name}.caffemodel")
    found = caffelite.compare("net.prototxt,a.caffemodel", "net.prototxt,b.caffemodel", layers=False)
    rows = {row.name: row.difference for row in found.outputs}
    assert rows["prob"] == 0 and rows["logits of prob"] == pytest.approx(0.0099, rel=0.01) and not found.same
    assert caffelite.compare("net.prototxt,a.caffemodel", "net.prototxt,a.caffemodel").same


def test_an_import_compares_logits(tmp_path):
    nodes = [node("Gemm", "x", "w", to="s"), node("Softmax", "s", axis=1)]
    made = imported(nets.write(tmp_path / "net.onnx", nodes, {"w": 1e4 * weights(6, 5)}, (None, 6)), {}, None)
    assert list(made.proof.outputs) == ["y", "logits of y"]


@pytest.mark.parametrize(("name", "expected"), [("prob", {"prob", "score"}), ("score", {"score"})])
def test_a_deploy_net_is_compared_by_logits_too(name, expected):
    document = prototxt.parse(NET, pb.NetParameter, "net")
    made = convert(graph.build(document.message, pb.NetState(phase=pb.TEST)), [name])
    assert made.scores.keys() == expected
