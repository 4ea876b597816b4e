"""What is no whole ONNX net, or reads files elsewhere, is refused with the reason."""

import os

import numpy as np
import onnx
import onnx_nets as nets
import pytest
from onnx import external_data_helper
from onnx_nets import integers, node, weights

from caffelite.errors import CaffeliteError
from caffelite.onnx_import import convert, images

CONV = [node("Conv", "x", "w")], {"w": weights(2, 3, 3, 3)}, (1, 3, 5, 5)


def refused(path, message, shapes=None):
    with pytest.raises(CaffeliteError, match=message):
        convert(path, shapes or {}, None)


def external(path, location: str, length: int | None = None, offset: int = 0):
    """The net with its weights in another file."""
    made = nets.model(*CONV)
    tensor = made.graph.initializer[0]
    external_data_helper.set_external_data(tensor, location, offset, len(tensor.raw_data) if length is None else length)
    values = bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    path.write_bytes(made.SerializeToString())
    return values


def test_values_in_a_file_beside_the_net(tmp_path):
    values = external(tmp_path / "net.onnx", "net.onnx.data", offset=8)
    (tmp_path / "net.onnx.data").write_bytes(bytes(8) + values)
    made = convert(tmp_path / "net.onnx", {}, None)
    assert made.blobs["y"][0].tobytes() == values


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../secret", "link", "", "net.onnx\0"])
def test_values_outside_the_folder(tmp_path, location):
    folder = tmp_path / "net"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(1000))
    (folder / "link").symlink_to(tmp_path / "secret")
    external(folder / "net.onnx", location)
    refused(folder / "net.onnx", "outside the folder|cannot read")


@pytest.mark.parametrize("location", ["values", "../values"])
def test_values_of_a_constant_in_another_file(tmp_path, monkeypatch, location):
    """Beside the net they are read, wherever the program runs."""
    folder = tmp_path / "net"
    folder.mkdir()
    made = nets.model(
        [node("Constant", to="c", value=onnx.numpy_helper.from_array(weights(6))), node("Mul", "x", "c")], {}, (None, 6)
    )
    tensor = made.graph.node[0].attribute[0].t
    values = bytes(tensor.raw_data)
    external_data_helper.set_external_data(tensor, location, 0, len(values))
    tensor.ClearField("raw_data")
    (folder / "net.onnx").write_bytes(made.SerializeToString())
    (folder / location).write_bytes(values)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "values").write_bytes(bytes(len(values)))
    if location == "values":
        assert convert(folder / "net.onnx", {}, None).blobs["y"][0].tobytes() == values
    else:
        refused(folder / "net.onnx", "outside the folder")


@pytest.mark.parametrize("name", [b"/y/Relu", b"the_x"])
def test_names_that_are_no_text(tmp_path, name):
    nodes = [node("Relu", "the_x"), node("Identity", "x", to="the_x")][::-1]
    data = nets.model(nodes, {}, (1, 3)).SerializeToString()
    assert name in data
    (tmp_path / "net.onnx").write_bytes(data.replace(name, name[:-1] + b"\xff"))
    refused(tmp_path / "net.onnx", "names that are no text")


def test_values_that_end_early_or_are_no_file(tmp_path):
    external(tmp_path / "net.onnx", "values")
    refused(tmp_path / "net.onnx", "values")
    (tmp_path / "values").write_bytes(bytes(7))
    refused(tmp_path / "net.onnx", "ends before")
    external(tmp_path / "net.onnx", "values", length=10**12)
    refused(tmp_path / "net.onnx", "do not fit its shape")
    os.remove(tmp_path / "values")
    os.mkfifo(tmp_path / "values")
    external(tmp_path / "net.onnx", "values")
    refused(tmp_path / "net.onnx", "no regular file")


def test_open_axes_need_a_shape(tmp_path):
    path = nets.write(
        tmp_path / "net.onnx", [node("Conv", "x", "w")], {"w": weights(2, 3, 3, 3)}, (None, 3, None, None)
    )
    refused(path, "-shape x=")
    refused(path, "does not fit", {"x": (4, 8, 8)})
    made = convert(path, {"x": (3, 8, 9)}, None)
    assert list(made.deploy.layer[0].input_param.shape[0].dim) == [1, 3, 8, 9]


def test_extensions_and_old_and_huge_nets(tmp_path):
    made = nets.model(*CONV)
    made.graph.node[0].domain = "com.microsoft"
    (tmp_path / "a.onnx").write_bytes(made.SerializeToString())
    refused(tmp_path / "a.onnx", 'Conv "/y/Conv" of the domain "com.microsoft"')
    made = nets.model(*CONV)
    made.opset_import[0].version = 4
    (tmp_path / "a.onnx").write_bytes(made.SerializeToString())
    refused(tmp_path / "a.onnx", "opset")
    huge = integers(1, 3, 1 << 20, 1 << 20)
    path = nets.write(tmp_path / "b.onnx", [node("Expand", "x", "s")], {"s": huge}, (1, 3, 1, 1))
    refused(path, "too large")


def test_an_input_that_nobody_reads(tmp_path):
    made = nets.model(*CONV)
    made.graph.input.append(onnx.helper.make_tensor_value_info("unread", onnx.TensorProto.DOUBLE, (2, 1)))
    (tmp_path / "a.onnx").write_bytes(made.SerializeToString())
    read = convert(tmp_path / "a.onnx", {}, None)
    assert [layer.type for layer in read.deploy.layer] == ["Input", "Convolution"] and read.train is None


def test_weights_without_a_net(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros(3))
    refused(tmp_path / "a.npz", "-model")
    (tmp_path / "a.onnx").write_bytes(b"")
    refused(tmp_path / "a.onnx", "whole ONNX net")


def test_a_net_that_differs_is_refused(tmp_path, monkeypatch):
    path = nets.write(tmp_path / "net.onnx", *CONV)
    weights_of = images.weights
    monkeypatch.setattr(images, "weights", lambda b, op: (weights_of(b, op)[0] * 1.001, None))
    refused(path, "gets other numbers .* than onnxruntime")


def test_given_inputs_are_compared(tmp_path):
    path = nets.write(tmp_path / "net.onnx", *CONV)
    given = {"x": weights(3, 3, 5, 5)}
    assert convert(path, {}, given).proof.samples == 5
    assert onnx.load(path).graph.input[0].name == "x"
    with pytest.raises(CaffeliteError, match="-inputs"):
        convert(path, {}, {"z": given["x"]})
    with pytest.raises(CaffeliteError, match="-inputs"):
        convert(path, {}, {"x": given["x"][:, :2]})


@pytest.mark.parametrize(
    "kind, remedy",
    [
        ("ZipMap", "keep the scores alone, by onnx.utils.extract_model"),
        ("Scaler", "export the net without it"),
        ("TreeEnsembleClassifier", "keep such a model in onnxruntime"),
    ],
)
def test_operators_of_classic_machine_learning(tmp_path, kind, remedy):
    made = nets.model([node("Softmax", "x", to="s"), node("Identity", "s")], {}, (None, 3))
    made.graph.node[1].op_type, made.graph.node[1].domain = kind, "ai.onnx.ml"
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    refused(tmp_path / "net.onnx", f'{kind} "/y/Identity" of the domain "ai.onnx.ml".*{remedy}')
