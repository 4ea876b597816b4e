"""caffelite compare: which two programs it takes, what it finds, and what a user does wrong."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from onnx_import import onnx_nets as nets
from onnx_import.onnx_nets import node, weights

import caffelite
from caffelite.errors import CaffeliteError
from caffelite.zoo import trained

NET = """
layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } }
  transform_param { mean_value: 100 scale: 0.02 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "msra" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "score"
  inner_product_param { num_output: 5 weight_filler { type: "msra" } } }
layer { name: "prob" type: "Softmax" bottom: "score" top: "prob" }
"""


@pytest.fixture
def made(in_tmp_path, call):
    """A net with random weights, its ONNX file, and other weights whose last layer differs."""
    Path("net.prototxt").write_text(NET)
    net = caffelite.Net("net.prototxt", seed=3)
    net.save("a.caffemodel")
    net.params["fc"][0].data[2] += 0.5
    net.save("b.caffemodel")
    assert call("export -model net.prototxt -weights a.caffemodel -out net.onnx").ok


def write_pictures(count: int = 4) -> None:
    Path("pictures").mkdir()
    for i in range(count):
        pixels = np.random.default_rng(i).integers(0, 256, (8, 8, 3), np.uint8)
        cv2.imwrite(f"pictures/{i}.png", pixels)


def test_a_net_and_its_onnx_file(made, call):
    result = call("compare net.prototxt,a.caffemodel net.onnx").ok
    assert "8 samples, outputs equal" in result.out and "first layer" not in result.out
    rows = [line.split()[:2] for line in result.out.splitlines()[3:8]]
    assert rows == [["layer", "shape"], ["conv", "1×4×6×6"], ["relu", "1×4×6×6"], ["pool", "1×4×3×3"], ["fc", "1×5"]]


def test_the_first_layer_that_differs(made, call):
    result = call("compare net.prototxt,b.caffemodel net.onnx")
    assert result.status == 1 and "The first layer that differs: fc, by " in result.out
    record = json.loads(call("compare net.prototxt,b.caffemodel net.onnx -json").out)
    assert record["first"] == "fc" and not record["same"]
    assert [row["difference"] < 1e-5 for row in record["layers"]] == [True, True, True, False, False]
    assert call("compare net.prototxt,b.caffemodel net.onnx -near 10").status == 0


def test_accuracy_of_both(made, call):
    write_pictures(20)
    scores = [caffelite.Net("net.prototxt", "a.caffemodel").classify(f"pictures/{i}.png", 1) for i in range(20)]
    Path("list.txt").write_text("".join(f"pictures/{i}.png {best[0].index}\n" for i, best in enumerate(scores)))
    found = caffelite.compare("net.prototxt,a.caffemodel", "net.onnx", "list.txt")
    assert found.accuracy == (1, 1) and found.samples == 20
    found = caffelite.compare("net.prototxt,b.caffemodel", "net.onnx", "list.txt")
    expected = [caffelite.Net("net.prototxt", "b.caffemodel").classify(f"pictures/{i}.png", 1) for i in range(20)]
    equal = sum(one[0].index == other[0].index for one, other in zip(scores, expected, strict=True))
    assert found.accuracy == (equal / 20, 1) and equal < 20
    assert "Accuracy: 1.0000 of A" in call("compare net.onnx net.prototxt,a.caffemodel -data list.txt").ok.out


def test_pictures_without_classes(made, call):
    write_pictures()
    assert "4 samples, outputs equal" in call("compare net.prototxt,a.caffemodel net.onnx -data pictures").ok.out
    assert "2 samples" in call("compare net.onnx net.prototxt,a.caffemodel -data pictures -samples 2").ok.out


def test_arrays_with_classes(made, call):
    values = np.random.default_rng(1).normal(size=(18, 3, 8, 8)).astype(np.float32)
    net = caffelite.Net("net.prototxt", "a.caffemodel")
    best = [net.forward(data=row[None])["prob"].argmax() for row in values]
    np.savez("given.npz", data=values, labels=best)
    found = caffelite.compare("net.prototxt,a.caffemodel", "net.onnx", "given.npz")
    assert found.samples == 18 and found.same and found.accuracy == (1, 1)
    np.savez("given.npz", data=values, labels=best[:4])
    assert "not of the same samples" in call("compare net.prototxt,a.caffemodel net.onnx -data given.npz").refused.err
    np.savez("given.npz", x=values)
    assert "other arrays" in call("compare net.prototxt,a.caffemodel net.onnx -data given.npz").refused.err


def test_test_data(folder, call):
    assert call("train -solver solver.prototxt").ok
    assert call("deploy -model net.prototxt -weights run_iter_20.caffemodel -out deploy.prototxt").ok
    assert call("export -model deploy.prototxt -out net.onnx").ok
    found = caffelite.compare("deploy.prototxt", "net.onnx", "net.prototxt", samples=8)
    assert found.same and found.samples == 8 and found.accuracy == (None, None)


def test_the_folder_of_a_run(folder, call):
    assert call("train -solver solver.prototxt -record made").ok
    assert call("deploy -model net.prototxt -weights run_iter_20.caffemodel -out deploy.prototxt").ok
    assert call("compare made deploy.prototxt").status == 0
    assert call("compare made deploy.prototxt,run_iter_10.caffemodel").status == 1


def test_an_imported_net(in_tmp_path, call):
    nodes = [
        node("Conv", "x", "c.weight", to="a"),
        node("BatchNormalization", "a", "n.weight", "n.bias", "n.running_mean", "n.running_var", to="n"),
        node("Relu", "n", to="r"),
        node("GlobalAveragePool", "r"),
    ]
    constants = {"c.weight": weights(6, 3, 3, 3), "n.running_var": abs(weights(6))}
    constants |= {name: weights(6) for name in ("n.weight", "n.bias", "n.running_mean")}
    nets.write(Path("net.onnx"), nodes, constants, (1, 3, 8, 8))
    assert call("import net.onnx -out made").ok
    found = caffelite.compare("made", "net.onnx")
    assert found.same and [row.name for row in found.layers][:1] == ["c"] and len(found.layers) >= 3
    assert found.first is None


def test_opencv(made, call):
    assert call("compare net.onnx opencv:net.onnx").ok.out.count("conv") == 1
    text = NET.replace("transform_param { mean_value: 100 scale: 0.02 }", "")
    Path("plain.prototxt").write_text(text)
    found = caffelite.compare("plain.prototxt,a.caffemodel", "opencv:plain.prototxt,a.caffemodel")
    assert found.same and [row.name for row in found.layers] == ["conv", "relu", "pool", "fc", "prob"]
    refused = call("compare net.prototxt,a.caffemodel opencv:net.onnx -data none.npz").refused
    assert "no file none.npz" in refused.err
    Path("bad.prototxt").write_text(text + 'layer { name: "y" type: "NegReLU" bottom: "prob" top: "y" }')
    refused = call("compare plain.prototxt,a.caffemodel opencv:bad.prototxt,a.caffemodel").refused
    assert "OpenCV" in refused.err and "NegReLU" in refused.err


def test_a_module_for_pytorch(made, call):
    pytest.importorskip("torch")
    assert call("export -model net.prototxt -weights a.caffemodel -to torch -out net_torch").ok
    found = caffelite.compare("net.prototxt,a.caffemodel", "net_torch/net.py")
    assert found.same and [row.name for row in found.layers] == ["conv", "fc"]
    assert caffelite.compare("net.prototxt,b.caffemodel", "net_torch/net.py").first.name == "fc"
    assert "takes pixels" in call("compare net.onnx net_torch/net.py").refused.err
    Path("net_torch/net.py").write_text("raise ValueError(3)")
    assert "ValueError: 3" in call("compare net.prototxt,a.caffemodel net_torch/net.py").refused.err


def test_numbers_that_are_none_are_no_proof(made, call):
    net = caffelite.Net("net.prototxt", "a.caffemodel")
    net.params["fc"][0].data[:] = np.nan
    net.save("nan.caffemodel")
    result = call("compare net.onnx net.prototxt,nan.caffemodel -json")
    assert result.status == 1 and json.loads(result.out)["first"] == "fc" and "NaN" not in result.out
    assert "outputs different: at most nan" in call("compare net.prototxt,nan.caffemodel net.onnx").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("net.prototxt net.onnx", "net.prototxt names no weights; name them behind a comma"),
        ("none.onnx net.onnx", "none.onnx"),
        ("none.prototxt net.onnx", "none.prototxt"),
        ("a.caffemodel.onnx net.onnx", "a.caffemodel.onnx"),
        ("opencv: net.onnx", "no such file"),
        ("net.onnx none.py", "none.py"),
        ("net.onnx net.onnx -data none", "no file none"),
        ("net.onnx net.onnx -data list.txt", "list.txt:1"),
        ("net.onnx damaged.onnx", "cannot read damaged.onnx"),
        ("net.onnx other.onnx", "other.onnx has other inputs than net.onnx"),
        ("net.onnx digits", 'the inputs "data" of net.onnx and "data" of digits differ'),
        ("digits cifar10_resnet", "differ; expected 1x1x28x28, found 1x3x32x32"),
        ("net.onnx net.onnx -near -1", "near"),
    ],
)
def test_mistakes_are_told(made, call, words, message):
    Path("list.txt").write_text("pictures/none.png 7\n")
    Path("damaged.onnx").write_bytes(Path("net.onnx").read_bytes()[:200])
    two = nets.model([node("Add", "x", "z")], {}, (1, 2))
    two.graph.input.append(nets.helper.make_tensor_value_info("z", 1, (1, 2)))
    Path("other.onnx").write_bytes(two.SerializeToString())
    assert message in call(f"compare {words}").refused.err


def test_values_outside_of_the_folder_are_refused(made, call, tmp_path):
    (tmp_path / "secret").write_bytes(bytes(400))
    model = nets.onnx.load("net.onnx")
    tensor = model.graph.initializer[0]
    size = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = nets.onnx.TensorProto.EXTERNAL
    tensor.external_data.extend(
        nets.onnx.StringStringEntryProto(key=key, value=value)
        for key, value in (("location", "../secret"), ("length", str(size)))
    )
    Path("net.onnx").write_bytes(model.SerializeToString())
    assert "outside the folder" in call("compare net.onnx net.prototxt,a.caffemodel").refused.err


def test_other_shapes_are_an_infinite_difference(made):
    Path("wide.prototxt").write_text(NET.replace("num_output: 5", "num_output: 6"))
    caffelite.Net("wide.prototxt").save("wide.caffemodel")
    found = caffelite.compare("wide.prototxt,wide.caffemodel", "net.onnx")
    assert not found.same and found.outputs[0].difference == np.inf


def test_python_raises_what_the_command_prints(made):
    with pytest.raises(CaffeliteError, match="names no weights"):
        caffelite.compare("net.prototxt", "net.onnx")


def test_detections_are_compared_whatever_their_order(in_tmp_path, call):
    assert call("deploy -model ssd_shapes -samples 0 -for opencv -out ssd.prototxt")
    folder = trained.find("ssd_shapes").folder
    found = caffelite.compare("ssd_shapes", f"opencv:ssd.prototxt,{folder}/ssd_shapes.caffemodel", folder / "pictures")
    assert found.same and found.first is None and found.samples == 4
