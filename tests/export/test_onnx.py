"""ONNX: onnxruntime gets our numbers from the shipped nets and from each layer; what it cannot express is named."""

from pathlib import Path

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite import devices, graph, prototxt
from caffelite.errors import CaffeliteError
from caffelite.net import Net

onnx_package = pytest.importorskip("onnx", reason="onnx, of the extra `onnx`")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime, of the extra `onnx`")

from caffelite.export import onnx  # noqa: E402
from caffelite.export.operators import OPERATORS  # noqa: E402

MODELS = Path(__file__).parent.parent.parent / "models"
IMAGES = "input_param { shape { dim: 2 dim: 6 dim: 7 dim: 8 } }"


def exported(document: prototxt.Document, seed: int):
    """(the net with random weights, its ONNX file)."""
    state = pb.NetState(phase=pb.TEST)
    plain, bound = (graph.build(document.message, state, document.locate) for _ in range(2))
    net = Net(bound, devices.open_device(), keep=True)
    rng = np.random.default_rng(seed)
    for node in net.graph.nodes:
        for i, param in enumerate(node.layer.params):
            if node.layer.spec.type in ("BatchNorm", "Scale"):
                net.dev.upload(param.data, rng.uniform(0.5, 1.5, param.data.shape).astype(np.float32))
            elif i or node.layer.spec.type == "PReLU":
                net.dev.upload(param.data, rng.normal(0, 0.3, param.data.shape).astype(np.float32))
    return net, onnx.encode(plain, net)


def text(layers: str, shape: str = IMAGES) -> prototxt.Document:
    return prototxt.parse(f'layer {{ name: "in" type: "Input" top: "x" {shape} }}\n{layers}', pb.NetParameter)


@pytest.mark.parametrize("name", ["lenet", "cifar10_quick", "cifar10_full", "squeezenet", "googlenet", "resnet18", "mobilenet"])
def test_shipped_nets(name, seed):
    net, body = exported(prototxt.read_net(MODELS / name / "deploy.prototxt"), seed)
    checked = onnx.check(net, body)
    assert set(checked.outputs) == {"prob"}


LAYERS = {
    "convolution": 'type: "Convolution" convolution_param { num_output: 4 kernel_h: 3 kernel_w: 2 stride: 2 pad_h: 1 pad_w: 0 group: 2 '
    "dilation: 2 %s }",
    "no bias": 'type: "Convolution" convolution_param { num_output: 4 kernel_size: 1 bias_term: false %s }',
    "deconvolution": 'type: "Deconvolution" convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 group: 2 %s }',
    "inner product": 'type: "InnerProduct" inner_product_param { num_output: 5 %s }',
    "transposed": 'type: "InnerProduct" inner_product_param { num_output: 5 transpose: true %s }',
    "max": 'type: "Pooling" pooling_param { kernel_size: 3 stride: 2 }',
    "max padded": 'type: "Pooling" pooling_param { kernel_size: 3 stride: 2 pad: 1 }',
    "mean": 'type: "Pooling" pooling_param { pool: AVE kernel_size: 3 stride: 2 }',
    "mean padded": 'type: "Pooling" pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }',
    "mean padded far": 'type: "Pooling" pooling_param { pool: AVE kernel_size: 4 stride: 3 pad: 2 }',
    "floor": 'type: "Pooling" pooling_param { kernel_size: 3 stride: 2 round_mode: FLOOR }',
    "gaps": 'type: "Pooling" pooling_param { pool: AVE kernel_size: 1 stride: 2 round_mode: FLOOR }',
    "global": 'type: "Pooling" pooling_param { pool: AVE global_pooling: true }',
    "global max": 'type: "Pooling" pooling_param { global_pooling: true }',
    "lrn": 'type: "LRN" lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 k: 2 }',
    "lrn within": 'type: "LRN" lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 norm_region: WITHIN_CHANNEL }',
    "batch norm": 'type: "BatchNorm"',
    "scale": 'type: "Scale" scale_param { bias_term: true }',
    "scale of two axes": 'type: "Scale" scale_param { num_axes: 2 }',
    "bias": 'type: "Bias"',
    "relu": 'type: "ReLU"',
    "leaky": 'type: "ReLU" relu_param { negative_slope: 0.1 }',
    "prelu": 'type: "PReLU"',
    "prelu shared": 'type: "PReLU" prelu_param { channel_shared: true }',
    "sigmoid": 'type: "Sigmoid"',
    "tanh": 'type: "TanH"',
    "abs": 'type: "AbsVal"',
    "bnll": 'type: "BNLL"',
    "elu": 'type: "ELU" elu_param { alpha: 0.5 }',
    "swish": 'type: "Swish" swish_param { beta: 1.5 }',
    "clip": 'type: "Clip" clip_param { min: -0.5 max: 0.25 }',
    "power": 'type: "Power" power_param { power: 2 scale: 0.5 shift: 0.25 }',
    "exp": 'type: "Exp" exp_param { base: 2 scale: 0.5 shift: 1 }',
    "log": 'type: "Log" log_param { base: 10 scale: 0.01 shift: 4 }',
    "dropout": 'type: "Dropout"',
    "flatten": 'type: "Flatten" flatten_param { axis: 2 }',
    "reshape": 'type: "Reshape" reshape_param { shape { dim: 0 dim: 3 dim: -1 } }',
    "softmax": 'type: "Softmax" softmax_param { axis: -1 }',
    "permute": 'type: "Permute" permute_param { order: 0 order: 2 order: 3 order: 1 }',
}  # fmt: skip
MANY = {
    "sum": ('bottom: "x" bottom: "x" type: "Eltwise" eltwise_param { coeff: 0.5 coeff: -2 }', 1),
    "product": ('bottom: "x" bottom: "x" type: "Eltwise" eltwise_param { operation: PROD }', 1),
    "largest": ('bottom: "x" bottom: "x" type: "Eltwise" eltwise_param { operation: MAX }', 1),
    "concat": ('bottom: "x" bottom: "x" type: "Concat" concat_param { axis: 2 }', 1),
    "slice": ('bottom: "x" type: "Slice" slice_param { slice_point: 1 slice_point: 4 }', 3),
    "split": ('bottom: "x" type: "Split"', 2),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, seed):
    layer = LAYERS[name].replace("%s", 'weight_filler { type: "xavier" }')
    net, body = exported(text(f'layer {{ name: "y" bottom: "x" top: "y" {layer} }}'), seed)
    assert onnx.check(net, body, seed).outputs["y"] < 1e-5
    again = text(f'layer {{ name: "y" bottom: "x" top: "y" {layer} }}', IMAGES.replace("dim: 2", "dim: 5", 1))
    assert onnx.check(exported(again, seed)[0], body, seed).outputs["y"] < 1e-5, "the batch size is open"


@pytest.mark.parametrize("name", MANY)
def test_layers_of_several_blobs(name, seed):
    layer, tops = MANY[name]
    net, body = exported(text(f'layer {{ name: "y" {layer} {" ".join(f"top: {chr(34)}y{i}{chr(34)}" for i in range(tops))} }}'), seed)
    assert len(onnx.check(net, body, seed).outputs) == tops


def test_in_place_and_shared_weights(seed):
    share = 'param { name: "w" } inner_product_param { num_output: 3 bias_term: false weight_filler { type: "xavier" } }'
    net, body = exported(text(f"""
      layer {{ name: "a" type: "InnerProduct" bottom: "x" top: "a" {share} }}
      layer {{ name: "relu" type: "ReLU" bottom: "a" top: "a" }}
      layer {{ name: "b" type: "InnerProduct" bottom: "x" top: "b" {share} }}"""), seed)  # fmt: skip
    assert set(onnx.check(net, body).outputs) == {"a", "b"}
    assert len(onnx_package.load_from_string(body).graph.initializer) == 1


def test_every_mistake_at_once():
    net = text("""
      layer { name: "pool" type: "Pooling" bottom: "x" top: "p" pooling_param { pool: STOCHASTIC kernel_size: 2 } }
      layer { name: "mvn" type: "MVN" bottom: "p" top: "m" }""")
    with pytest.raises(CaffeliteError) as caught:
        exported(net, 1)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2 and "<text>:3" in lines[0] and "STOCHASTIC cannot be said in ONNX" in lines[0] and '"mvn" (MVN)' in lines[1]


def test_a_difference_is_found_out(seed, monkeypatch):
    monkeypatch.setitem(OPERATORS, "ReLU", OPERATORS["AbsVal"])
    net, body = exported(text('layer { name: "y" type: "ReLU" bottom: "x" top: "y" }'), seed)
    with pytest.raises(CaffeliteError, match='onnxruntime gets other numbers for "y"'):
        onnx.check(net, body)


def test_metadata(seed):
    net = prototxt.parse(f'layer {{ name: "in" type: "Input" top: "x" {IMAGES} transform_param {{ scale: 0.5 }} }}\n'
                         'layer { name: "y" type: "ReLU" bottom: "x" top: "y" }\n'
                         'deploy_param { label: "ash" label: "oak" }', pb.NetParameter)  # fmt: skip
    found = {p.key: p.value for p in onnx_package.load_from_string(exported(net, seed)[1]).metadata_props}
    assert found["labels"] == "ash\noak" and found["transform_param in"].strip() == "scale: 0.5" and "deploy_param" in found
