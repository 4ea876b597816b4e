"""ONNX: onnxruntime gets our numbers from the shipped nets and from each layer; what it cannot express is named."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from export.exported_nets import IMAGES, exported, exports, text

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError
from caffelite.net import graph

onnx_package = pytest.importorskip("onnx", reason="onnx, of the extra `onnx`")

from caffelite.export import onnx  # noqa: E402
from caffelite.layers.base.exporting import OPERATORS  # noqa: E402

MODELS = Path(__file__).parent.parent.parent / "models"


QUICK = ("lenet", "cifar10_quick", "cifar10_full")
SHIPPED = sorted(path.parent.name for path in MODELS.glob("*/deploy.prototxt"))


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in SHIPPED])
def test_shipped_nets(name, seed):
    net, body = exported(prototxt.read_net(MODELS / name / "deploy.prototxt"), seed, "float32")
    checked = onnx.check(net, body)
    assert set(checked.outputs) == {"prob", "logits of prob"}


LAYERS = {
    "convolution": 'type: "Convolution" convolution_param { num_output: 4 kernel_h: 3 kernel_w: 2 stride: 2 pad_h: 1 '
    "pad_w: 0 group: 2 "
    "dilation: 2 %s }",
    "pads by side": 'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad_r: 1 pad_b: 2 '
    "bias_term: false %s }",
    "means without padding": 'type: "Pooling" pooling_param { pool: AVE_EXC_PAD kernel_size: 3 stride: 2 pad: 1 }',
    "means with pads by side": 'type: "Pooling" pooling_param { pool: AVE kernel_size: 3 stride: 2 pad_l: 1 pad_b: 2 }',
    "means without pads by side": 'type: "Pooling" pooling_param { pool: AVE_EXC_PAD kernel_size: 3 pad_r: 1 }',
    "max with pads by side": 'type: "Pooling" pooling_param { kernel_size: 2 stride: 2 pad_r: 1 pad_b: 1 }',
    "deconvolution with pads by side": 'type: "Deconvolution" convolution_param { num_output: 4 kernel_size: 3 '
    "pad_r: 1 stride: 2 pad_t: 1 %s }",
    "no bias": 'type: "Convolution" convolution_param { num_output: 4 kernel_size: 1 bias_term: false %s }',
    "deconvolution": 'type: "Deconvolution" convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 group: '
    "2 %s }",
    "inner product": 'type: "InnerProduct" inner_product_param { num_output: 5 %s }',
    "transposed": 'type: "InnerProduct" inner_product_param { num_output: 5 transpose: true %s }',
    "max": 'type: "Pooling" pooling_param { kernel_size: 3 stride: 2 }',
    "max padded": 'type: "Pooling" pooling_param { kernel_size: 3 stride: 2 pad: 1 }',
    "mean": 'type: "Pooling" pooling_param { pool: AVE kernel_size: 3 stride: 2 }',
    "mean padded": 'type: "Pooling" pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }',
    "mean padded far": 'type: "Pooling" pooling_param { pool: AVE kernel_size: 4 stride: 3 pad: 2 }',
    "floor": 'type: "Pooling" pooling_param { kernel_size: 3 stride: 2 round_mode: FLOOR }',
    "floor of forks": 'type: "Pooling" pooling_param { kernel_size: 3 stride: 2 ceil_mode: false }',
    "larger than the image": 'type: "Pooling" pooling_param { pool: AVE kernel_size: 9 stride: 4 }',
    "max larger than the image": 'type: "Pooling" pooling_param { kernel_size: 9 stride: 4 }',
    "larger than the padded image": 'type: "Pooling" pooling_param { pool: AVE kernel_size: 11 stride: 4 pad: 1 }',
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
    "dropout that scales in TEST": 'type: "Dropout" dropout_param { dropout_ratio: 0.75 scale_train: false }',
    "flatten": 'type: "Flatten" flatten_param { axis: 2 }',
    "reshape": 'type: "Reshape" reshape_param { shape { dim: 0 dim: 3 dim: -1 } }',
    "softmax": 'type: "Softmax" softmax_param { axis: -1 }',
    "transpose": 'type: "Transpose" transpose_param { dim: 0 dim: 2 dim: 3 dim: 1 }',
    "reverse": 'type: "Reverse" reverse_param { axis: 2 }',
    "selu": 'type: "SeLu"',
    "mish": 'type: "Mish"',
    "sums": 'type: "Reduction" reduction_param { axis: 2 coeff: 0.5 }',
    "sums of sizes": 'type: "Reduction" reduction_param { axis: -1 operation: ASUM }',
    "sums of squares": 'type: "Reduction" reduction_param { axis: 1 operation: SUMSQ }',
    "means": 'type: "Reduction" reduction_param { axis: 2 operation: MEAN }',
    "rows": 'type: "InnerProduct" inner_product_param { num_output: 3 axis: -1 %s }',
    "rows of images": 'type: "InnerProduct" inner_product_param { num_output: 3 axis: 2 transpose: true %s }',
    "tiles": 'type: "Tile" tile_param { axis: 2 tiles: 3 }',
    "best classes": 'type: "ArgMax" argmax_param { axis: 1 }',
    "best scores": 'type: "ArgMax" argmax_param { axis: 1 out_max_val: true }',
    "best of all": 'type: "ArgMax" argmax_param { out_max_val: true }',
    "moments": 'type: "MVN"',
    "moments of images": 'type: "MVN" mvn_param { across_channels: true eps: 0.1 }',
    "means taken off": 'type: "MVN" mvn_param { normalize_variance: false }',
    "permute": 'type: "Permute" permute_param { order: 0 order: 2 order: 3 order: 1 }',
}
MANY = {
    "sum": ('bottom: "x" bottom: "x" type: "Eltwise" eltwise_param { coeff: 0.5 coeff: -2 }', 1),
    "product": ('bottom: "x" bottom: "x" type: "Eltwise" eltwise_param { operation: PROD }', 1),
    "smallest": ('bottom: "x" bottom: "x" type: "Eltwise" eltwise_param { operation: MIN }', 1),
    "largest": ('bottom: "x" bottom: "x" type: "Eltwise" eltwise_param { operation: MAX }', 1),
    "concat": ('bottom: "x" bottom: "x" type: "Concat" concat_param { axis: 2 }', 1),
    "slice": ('bottom: "x" type: "Slice" slice_param { slice_point: 1 slice_point: 4 }', 3),
    "split": ('bottom: "x" type: "Split"', 2),
}


test_layers = exports(LAYERS)


@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MANY)
def test_layers_of_several_blobs(name, dtype, seed):
    layer, tops = MANY[name]
    net, body = exported(
        text(f'layer {{ name: "y" {layer} {" ".join(f"top: {chr(34)}y{i}{chr(34)}" for i in range(tops))} }}'),
        seed,
        dtype,
    )
    assert len(onnx.check(net, body, seed).outputs) == tops


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Convolution", "Deconvolution"])
def test_convolutions_without_spatial_axes(kind, seed):
    how = 'convolution_param { num_output: 4 group: 2 weight_filler { type: "xavier" } }'
    net, body = exported(
        text(
            f'layer {{ name: "y" type: "{kind}" bottom: "x" top: "y" {how} }}',
            "input_param { shape { dim: 3 dim: 6 } }",
        ),
        seed,
    )
    assert onnx.check(net, body, seed).outputs["y"] < 1e-5


def test_in_place_and_shared_weights(seed):
    share = (
        'param { name: "w" } inner_product_param { num_output: 3 bias_term: false weight_filler { type: "xavier" } }'
    )
    net, body = exported(
        text(f"""
      layer {{ name: "a" type: "InnerProduct" bottom: "x" top: "a" {share} }}
      layer {{ name: "relu" type: "ReLU" bottom: "a" top: "a" }}
      layer {{ name: "b" type: "InnerProduct" bottom: "x" top: "b" {share} }}"""),
        seed,
    )
    assert set(onnx.check(net, body).outputs) == {"a", "b"}
    assert len(onnx_package.load_from_string(body).graph.initializer) == 1


def test_every_mistake_at_once():
    net = text("""
      layer { name: "pool" type: "Pooling" bottom: "x" top: "p" pooling_param { pool: STOCHASTIC kernel_size: 2 } }
      layer { name: "im" type: "Im2col" bottom: "p" top: "m" convolution_param { kernel_size: 2 } }""")
    with pytest.raises(CaffeliteError) as caught:
        exported(net, 1)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2 and "<text>:3" in lines[0] and lines[0].endswith("STOCHASTIC cannot be expressed in ONNX")
    assert '"im" (Im2col)' in lines[1] and lines[1].endswith("end the net before it: caffelite deploy -output p")


def test_a_difference_is_found_out(seed, monkeypatch):
    monkeypatch.setitem(OPERATORS, "ReLU", OPERATORS["AbsVal"])
    net, body = exported(text('layer { name: "y" type: "ReLU" bottom: "x" top: "y" }'), seed)
    with pytest.raises(CaffeliteError, match='onnxruntime gets other numbers for "y"'):
        onnx.check(net, body)


IN_PLACE = """
  layer { name: "scale" type: "Scale" bottom: "x" top: "x" scale_param { bias_term: true } }
  layer { name: "conv" type: "Convolution" bottom: "x" top: "y" convolution_param { num_output: 2 kernel_size: 3
    weight_filler { type: "xavier" } } }"""


def test_layer_in_place_on_the_input(seed, monkeypatch):
    net, body = exported(text(IN_PLACE), seed)
    assert onnx.check(net, body, seed).outputs["y"] < 1e-5
    # Feeds what the layer overwrites.
    monkeypatch.setattr(graph.Graph, "inputs", property(lambda self: {"x": self.values["x"]}))
    with pytest.raises(CaffeliteError, match='onnxruntime gets other numbers for "y"'):
        onnx.check(exported(text(IN_PLACE), seed)[0], body, seed)


def test_output_that_an_in_place_layer_makes_of_the_input(seed):
    net, body = exported(text('layer { name: "abs" type: "AbsVal" bottom: "x" top: "x" }'), seed)
    assert onnx.check(net, body, seed).outputs == {"x_out": 0}


def test_numbers_that_are_not_finite_are_found_out(seed):
    net, body = exported(text(IN_PLACE), seed)
    model = onnx_package.load_from_string(body)
    weights = next(t for t in model.graph.initializer if t.name == "conv.0")
    array = onnx_package.numpy_helper.to_array(weights).copy()
    array[0] = np.nan
    weights.CopyFrom(onnx_package.numpy_helper.from_array(array, weights.name))
    message = (
        'onnxruntime gets other numbers for "y" than the net; expected at most 0.0001 of the greatest value, found nan'
    )
    with pytest.raises(CaffeliteError, match=message):
        onnx.check(net, model.SerializeToString(), seed)


@pytest.mark.parametrize(
    "how",
    [
        "mean_value: 104 mean_value: 117 mean_value: 123",
        "mean_value: 100 scale: 0.0078125",
        'mean_file: "mean.binaryproto" crop_size: 4 scale: 0.5',
        "scale: 0.25 crop_size: 4",
    ],
)
def test_mean_and_scale_are_in_the_graph(how, in_tmp_path, seed):
    rng = np.random.default_rng(seed)
    mean = rng.uniform(80, 150, (3, 6, 7)).astype(np.float32)
    content = pb.BlobProto(num=1, channels=3, height=6, width=7, data=mean.ravel().tolist()).SerializeToString()
    Path("mean.binaryproto").write_bytes(content)
    size, stored = ("dim: 4 dim: 4", "deploy_param { height: 6 width: 7 }") if "crop" in how else ("dim: 6 dim: 7", "")
    net, body = exported(
        text(
            f'layer {{ name: "y" type: "Power" bottom: "x" top: "y" power_param {{ shift: 1 }} }} {stored}',
            f"input_param {{ shape {{ dim: 2 dim: 3 {size} }} }} transform_param {{ {how} }}",
        ),
        seed,
    )
    Path("mean.binaryproto").unlink()
    session = onnxruntime.InferenceSession(body, providers=["CPUExecutionProvider"])
    pixels = rng.integers(0, 256, (1, 3, 6, 7)).astype(np.float32)
    cut = (slice(None), slice(None), slice(1, 5), slice(1, 5)) if "crop" in how else ...
    less = {"mean_value: 104": np.reshape([104, 117, 123], (3, 1, 1)), "mean_value: 100": 100, "mean_file": mean}
    taken = next((value for name, value in less.items() if how.startswith(name)), 0)
    scale = {"0.0078125": 0.0078125, "0.5": 0.5, "0.25": 0.25}.get(how.split("scale: ")[-1].split()[0], 1)
    (actual,) = session.run(None, {"x": np.ascontiguousarray(pixels[cut])})
    np.testing.assert_allclose(actual, ((pixels - taken) * scale)[cut] + 1, rtol=1e-6)
    properties = {p.key: p.value for p in onnx_package.load_from_string(body).metadata_props}
    assert "mean" not in properties["transform_param in"] and properties["input x"].startswith("pixels, 0 to 255")


def test_the_check_of_a_net_with_a_mean(tmp_path, monkeypatch, seed):
    how = "input_param { shape { dim: 2 dim: 3 dim: 6 dim: 7 } } transform_param { mean_value: 100 scale: 0.5 }"
    net, body = exported(text(IN_PLACE, how), seed)
    assert onnx.check(net, body, seed).outputs["y"] < 1e-5
    monkeypatch.setattr(onnx, "write_pixels", lambda writer, name, transform: name)
    with pytest.raises(CaffeliteError, match='onnxruntime gets other numbers for "y"'):
        onnx.check(net, exported(text(IN_PLACE, how), seed)[1], seed)


def test_metadata(seed):
    square = IMAGES.replace("dim: 8", "dim: 7")
    net = prototxt.parse(
        f'layer {{ name: "in" type: "Input" top: "x" {square} transform_param {{ scale: 0.5 crop_size: 7 }} }}\n'
        'layer { name: "y" type: "ReLU" bottom: "x" top: "y" }\n'
        'deploy_param { label: "ash" label: "oak" }',
        pb.NetParameter,
    )
    actual = {p.key: p.value for p in onnx_package.load_from_string(exported(net, seed)[1]).metadata_props}
    assert actual["labels"] == "ash\noak" and actual["transform_param in"].strip() == "crop_size: 7"
    assert "deploy_param" in actual
