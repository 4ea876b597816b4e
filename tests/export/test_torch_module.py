"""Nets as modules for PyTorch: the same outputs, batch norm in training too, and what cannot be written."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, devices, prototxt
from caffelite.errors import NOWHERE, CaffeliteError
from caffelite.export import torch_check, torch_module
from caffelite.export.tensor_files import encode_safetensors
from caffelite.net import graph
from caffelite.net.net import Net
from caffelite.proof.torch_runner import open_module

torch = pytest.importorskip("torch")
MODELS = Path(__file__).parent.parent.parent / "models"
INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 4 dim: 6 dim: 6 } } }'
CONV = 'layer { name: "c/1" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 4 kernel_size: 3'
IN_PLACE = """
layer { name: "n" type: "BatchNorm" bottom: "c" top: "c" batch_norm_param { moving_average_fraction: 0.9 } }
layer { name: "s" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true } }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" }
"""


def layer(kind: str, params: str = "", bottoms: str = "x", tops: str = "y") -> str:
    names = "".join(f' bottom: "{name}"' for name in bottoms.split()) + "".join(f' top: "{t}"' for t in tops.split())
    return f'layer {{ name: "{kind}" type: "{kind}"{names} {params} }}'


LAYERS = {
    "in place": CONV + " } }" + IN_PLACE,
    "depthwise": CONV + " group: 4 dilation: 2 bias_term: false pad: 2 stride: 2 } }",
    "transposed": layer("Deconvolution", "convolution_param { num_output: 3 kernel_h: 3 kernel_w: 2 stride: 2 }"),
    "rows": layer("InnerProduct", "inner_product_param { num_output: 3 axis: -1 }"),
    "all": layer("InnerProduct", "inner_product_param { num_output: 3 transpose: true }"),
    "max": layer("Pooling", "pooling_param { kernel_size: 3 stride: 2 pad: 1 }"),
    "mean": layer("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }"),
    "inner mean": layer("Pooling", "pooling_param { pool: AVE_EXC_PAD kernel_size: 3 stride: 2 pad: 1 }"),
    "down": layer("Pooling", "pooling_param { kernel_size: 3 stride: 2 round_mode: FLOOR }"),
    "global": layer("Pooling", "pooling_param { pool: AVE global_pooling: true }"),
    "leaky": layer("ReLU", "relu_param { negative_slope: 0.2 }"),
    "slopes": layer("PReLU"),
    "lrn": layer("LRN", "lrn_param { local_size: 3 alpha: 2 beta: 0.6 k: 1.5 }"),
    "power": layer("Power", "power_param { scale: -0.5 shift: 2 power: 2 }"),
    "exp": layer("Exp", "exp_param { base: 3 shift: 0.5 }"),
    "softplus": layer("BNLL"),
    "groups": layer("GroupNorm", "group_norm_param { group_num: 2 }"),
    "columns": layer("Scale", "scale_param { axis: 2 num_axes: 1 bias_term: true }"),
    "bias": layer("Bias", "bias_param { axis: 1 num_axes: 3 }"),
    "difference": layer("TanH", tops="t") + layer("Eltwise", "eltwise_param { coeff: 1 coeff: -2 }", "x t"),
    "larger": layer("TanH", tops="t") + layer("Eltwise", "eltwise_param { operation: MAX }", "x t"),
    "parts": layer("Slice", "slice_param { slice_point: 1 }", tops="a b") + layer("Concat", "", "b a"),
    "gate": layer("Pooling", "pooling_param { pool: AVE global_pooling: true }", tops="g")
    + layer("Flatten", bottoms="g", tops="f")
    + layer("Scale", "scale_param { axis: 0 }", "x f"),
    "shape": layer("Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: -1 } }"),
    "order": layer("Permute", "permute_param { order: 0 order: 2 }"),
    "softmax": layer("Softmax", "softmax_param { axis: 2 }"),
    "sum": layer("Reduction", "reduction_param { operation: SUMSQ axis: 2 coeff: 0.5 }"),
    "border": layer("Padding", "padding_param { pad_l: 1 pad_t: -1 value: 3 }"),
    "repeated": layer("Tile", "tile_param { tiles: 2 }"),
    "shuffle": layer("ShuffleChannel", "shuffle_channel_param { group: 2 }"),
    "resized": layer("Interp", "interp_param { height: 9 width: 4 }"),
    "activations": "".join(
        layer(kind, bottoms="x", tops=kind.lower())
        for kind in ("Sigmoid", "ELU", "Swish", "ReLU6", "HardSwish", "Mish", "GELU", "AbsVal")
    ),
}


def exported(message, phase=pb.TEST):
    """(net with random parameters, text, weights)"""
    plain, bound = (graph.build(message, pb.NetState(phase=phase), NOWHERE) for _ in range(2))
    net = Net.of(bound, devices.open_device(), keep=True)
    rng = np.random.default_rng(1)
    for node in net.graph.nodes:
        statistics = node.layer.spec.type == "BatchNorm"
        for i, param in enumerate(node.layer.params):
            values = rng.uniform(0.5, 1.5, param.data.shape) if statistics else rng.normal(0, 0.2, param.data.shape)
            net.dev.upload(param.data, values if not statistics or i < 2 else np.full(param.data.shape, 10.0))
    text, tensors = torch_module.write_module(plain, torch_module.parameters(net), "net.safetensors")
    return net, text, tensors


def parsed(body):
    return prototxt.parse(INPUT + body, pb.NetParameter).message


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    net, text, weights = exported(parsed(LAYERS[name]))
    assert max(torch_check.check(net, text, weights).values()) < 1e-5


@pytest.mark.parametrize("name", ["lenet", "cifar10_quick", "mobilenet", "resnet18", "squeezenet", "googlenet"])
def test_shipped_nets(name):
    message = prototxt.read_net(str(MODELS / name / "deploy.prototxt")).message
    net, text, weights = exported(message)
    assert max(torch_check.check(net, text, weights).values()) < 1e-5
    lines = text.splitlines()
    convolutions = [layer for layer in message.layer if layer.type == "Convolution"]
    assert sum("nn.Conv2d(" in line for line in lines) == len(convolutions) and max(map(len, lines)) < 160


def test_a_written_module_needs_only_pytorch(tmp_path, monkeypatch):
    """`Net.load()` reads the weights without the package safetensors."""
    _, text, weights = exported(parsed(LAYERS["in place"]))
    (tmp_path / "net_by_itself.py").write_text(text)
    (tmp_path / "net.safetensors").write_bytes(encode_safetensors(weights))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    loaded = importlib.import_module("net_by_itself").Net.load()
    assert not loaded.training
    for name, values in loaded.state_dict().items():
        np.testing.assert_array_equal(values.numpy(), weights[name])


def test_training_of_batch_norm():
    """A pass in training gives the outputs of the batch's moments, and moves the averages alike."""
    net, text, weights = exported(parsed(LAYERS["in place"]), pb.TRAIN)
    module = open_module(text, weights).train()
    x = np.random.default_rng(2).normal(size=(3, 4, 6, 6)).astype(np.float32)
    net.set_inputs(x=x)
    net.forward(0)
    with torch.no_grad():
        theirs = module(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(net.blobs["c"], theirs, rtol=1e-5, atol=1e-5)
    plain = graph.build(parsed(LAYERS["in place"]), pb.NetState(phase=pb.TRAIN), NOWHERE)
    _, tensors = torch_module.write_module(plain, torch_module.parameters(net), "net.safetensors")
    for name in ("running_mean", "running_var"):
        np.testing.assert_allclose(tensors[f"n.{name}"], getattr(module.n, name).numpy(), rtol=1e-4, atol=1e-5)


def test_dropout_is_for_training():
    dropped = layer("Dropout", "dropout_param { dropout_ratio: 0.25 }")
    net, text, weights = exported(parsed(dropped))
    assert torch_check.check(net, text, weights) == {"y": 0.0}
    share = (open_module(text, weights).train()(torch.ones(99, 4, 6, 6)) == 0).float().mean()
    assert 0.2 < share < 0.3


def test_what_cannot_be_written_is_named():
    mean = 'layer { name: "m" type: "MVN" bottom: "x" top: "m" }'
    pool = 'layer { name: "p" type: "Pooling" bottom: "x" top: "p" pooling_param { pool: STOCHASTIC kernel_size: 2 } }'
    with pytest.raises(CaffeliteError, match=r'(?s)layer "m".*MVN.*layer "p".*this pooling'):
        exported(parsed(mean + pool))


def test_a_difference_is_an_error():
    net, text, weights = exported(parsed(LAYERS["leaky"]))
    with pytest.raises(CaffeliteError, match='PyTorch gets other numbers for "y"'):
        torch_check.check(net, text.replace("0.2", "0.21"), weights)
