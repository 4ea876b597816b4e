"""ONNX: layers of forks, and images of open height and width."""

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner
from export.exported_nets import exported, exports, text  # noqa: E402

from caffelite import (  # noqa: E402
    Net as Api,
    caffelite_pb2 as pb,  # noqa: E402
    devices,
    prototxt,
)
from caffelite.cli import caffelite  # noqa: E402
from caffelite.errors import CaffeliteError  # noqa: E402
from caffelite.export import onnx
from caffelite.net import graph  # noqa: E402
from caffelite.net.net import Net  # noqa: E402

IMAGES = "input_param { shape { dim: 2 dim: 8 dim: 6 dim: 4 } }"


XAVIER = 'weight_filler { type: "xavier" }'


LAYERS = {
    "unit vectors": 'type: "Normalize" normalize_param { }',
    "unit vectors L1": 'type: "Normalize" normalize_param { normalize_type: "L1" }',
    "normalize": 'type: "Normalize" norm_param { across_spatial: false channel_shared: false }',
    "normalize samples": 'type: "Normalize"',
    "below zero": 'type: "NegReLU" relu_param { negative_slope: 0.1 }',
    "lengths over channels": 'type: "ChannelNorm"',
    "pixels from channels": 'type: "PixelShuffle" pixel_shuffle_param { upscale_factor: 2 }',
    "insanity": 'type: "Insanity"',
    "unit rows": f'type: "InnerProduct" inner_product_param {{ num_output: 3 normalize: true {XAVIER} }}',
}


test_layers = exports(LAYERS, IMAGES)


CONV = f"convolution_param {{ num_output: 6 kernel_size: 3 pad: 1 {XAVIER} }}"


UP = f"convolution_param {{ num_output: 6 kernel_size: 4 stride: 4 {XAVIER} }}"


FC = f"inner_product_param {{ num_output: 3 {XAVIER} }}"


BODY = f"""
  layer {{ name: "conv" type: "Convolution" bottom: "x" top: "conv" {CONV} }}
  layer {{ name: "relu" type: "ReLU" bottom: "conv" top: "conv" }}
  layer {{ name: "max" type: "Pooling" bottom: "conv" top: "max" pooling_param {{ kernel_size: 3 stride: 2 }} }}
  layer {{ name: "mean" type: "Pooling" bottom: "max" top: "mean"
    pooling_param {{ pool: AVE kernel_size: 2 stride: 2 }} }}
  layer {{ name: "up" type: "Deconvolution" bottom: "mean" top: "up" {UP} }}
  layer {{ name: "crop" type: "Crop" bottom: "up" bottom: "conv" top: "crop" crop_param {{ axis: 2 offset: 0 }} }}
  layer {{ name: "sum" type: "Eltwise" bottom: "crop" bottom: "conv" top: "sum" }}
  layer {{ name: "rows" type: "Permute" bottom: "sum" top: "rows"
    permute_param {{ order: 0 order: 2 order: 3 order: 1 }} }}
  layer {{ name: "boxes" type: "Reshape" bottom: "rows" top: "boxes"
    reshape_param {{ shape {{ dim: 0 dim: -1 dim: 2 }} }} }}
  layer {{ name: "global" type: "Pooling" bottom: "sum" top: "global"
    pooling_param {{ pool: AVE global_pooling: true }} }}
  layer {{ name: "fc" type: "InnerProduct" bottom: "global" top: "fc" {FC} }}"""


def images(height: int, width: int) -> str:
    return f"input_param {{ shape {{ dim: 2 dim: 3 dim: {height} dim: {width} }} }}"


def built(document: prototxt.Document) -> graph.Graph:
    return graph.build(document.message, pb.NetState(phase=pb.TEST), document.locate)


def test_images_of_any_size(seed):
    """One file, checked at sizes that end in other places of the pooling windows."""
    document = text(BODY, images(16, 20))
    plain = built(document)
    larger = graph.build(onnx.larger(document.message), pb.NetState(phase=pb.TEST), document.locate)
    net, _ = exported(document, seed, "float32")
    body = onnx.encode(plain, net, onnx.free_axes(plain, larger))
    session = onnxruntime.InferenceSession(body, providers=["CPUExecutionProvider"])
    assert [i.shape for i in session.get_inputs()] == [["N", 3, "x_height", "x_width"]]
    assert {o.name: o.shape for o in session.get_outputs()} == {"boxes": ["N", "boxes_1", 2], "fc": ["N", 3]}
    for height, width in ((16, 20), (34, 24), (18, 47)):
        other = Net.of(built(text(BODY, images(height, width))), devices.open_device(), keep=True, share=net)
        assert max(onnx.check(other, body, seed).outputs.values()) < 1e-5


def test_inputs_that_are_no_images():
    message = pb.NetParameter()
    message.layer.add(name="x", type="Input").input_param.shape.add(dim=[2, 3])
    with pytest.raises(CaffeliteError, match="no input is a batch of images"):
        onnx.larger(message)


def test_weights_that_fix_the_size():
    document = text(
        f'layer {{ name: "fc" type: "InnerProduct" bottom: "x" top: "y" inner_product_param {{ num_output: 3 '
        f"{XAVIER} }} }}",
        images(16, 20),
    )
    other = graph.build(onnx.larger(document.message), pb.NetState(phase=pb.TEST), document.locate)
    with pytest.raises(CaffeliteError, match='<text>:2:1: layer "fc" .* its weights fix the size of images'):
        onnx.free_axes(built(document), other)


def test_export_of_a_net_that_ships_one_pixel(tmp_path, seed):
    """-shape gives the input its size; --free_size leaves it open."""
    model, out, weights = (tmp_path / name for name in ("net.prototxt", "net.onnx", "net.caffemodel"))
    one = f'layer {{ name: "in" type: "Input" top: "x" {images(1, 1)} }}\n{BODY}'
    model.write_text(one)

    big = tmp_path / "big.prototxt"
    big.write_text(one.replace(images(1, 1), images(16, 20)))
    Api(big, seed=seed).save(weights)
    words = ["export", "--model", model, "--weights", weights, "--out", out, "--shape", "x=3x16x20", "--free_size"]
    done = CliRunner().invoke(caffelite, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    actual = session.run(["fc"], {"x": np.zeros((1, 3, 40, 30), np.float32)})
    assert actual[0].shape == (1, 3)
