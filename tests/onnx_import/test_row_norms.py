"""Normalization of rows in the forms that exporters write: one operator, Keras's sums, Keras 2's batch norm."""

import numpy as np
import onnx
import onnx_nets as nets
import pytest
from onnx_nets import integers, node, weights

from caffelite.onnx_import import convert

STEPS, WIDTH = 3, 8
SHAPE = (None, STEPS, WIDTH)
NORM = ["Reshape", "GroupNorm", "Scale", "Reshape"]
EPSILON = np.float32(1e-3)


def keras(mean: str, scale: bool, bias: bool):
    """x s + (b - mean s), as Keras 3 has it."""
    fields = {"axes": [-1]} if mean == "ReduceMean" else {}
    nodes = [node(mean, "x", to="m", **fields), node("Sub", "x", "m", to="c"), node("Mul", "c", "c", to="q")]
    nodes += [node(mean, "q", to="v", **fields), node("Add", "v", "e", to="a"), node("Sqrt", "a", to="d")]
    nodes += [node("Reciprocal", "d", to="i"), node("Neg", "m", to="n")]
    if scale:
        nodes.append(node("Mul", "i", "scale", to="s"))
    factor = "s" if scale else "i"
    nodes += [node("Mul", "x", factor, to="l"), node("Mul", "n", factor, to="r")]
    if bias:
        nodes.append(node("Add", "r", "bias", to="o"))
    nodes.append(node("Add", "l", "o" if bias else "r"))
    return nodes, {"e": EPSILON, "scale": weights(1, 1, WIDTH), "bias": weights(1, 1, WIDTH)}


@pytest.mark.parametrize("mean", ["ReduceMean", "GlobalAveragePool"])
@pytest.mark.parametrize("scale, bias", [(True, True), (True, False), (False, True), (False, False)])
def test_sums_of_keras(tmp_path, mean, scale, bias):
    made = convert(nets.write(tmp_path / "net.onnx", *keras(mean, scale, bias), SHAPE), {}, None)
    types = NORM if scale or bias else ["Reshape", "GroupNorm", "Reshape"]
    assert [layer.type for layer in made.deploy.layer[1:]] == types
    assert made.proof.outputs["y"] < 1e-6


def test_the_same_sums_over_other_axes(tmp_path):
    """Of images GlobalAveragePool takes rows and columns: no norm of rows."""
    nodes, constants = keras("GlobalAveragePool", False, False)
    made = convert(nets.write(tmp_path / "net.onnx", nodes, constants, (None, 2, STEPS, WIDTH)), {}, None)
    assert "GroupNorm" not in [layer.type for layer in made.deploy.layer] and made.proof.outputs["y"] < 1e-6


def rows_as_channels(width: int, opset: int):
    """A batch norm of (1, rows, width, 1), with the moments of each row."""
    axes = {"axes": [0, 2, 3]}
    squeeze = [node("Squeeze", "m", to="mean", **axes)] if opset < 13 else [node("Squeeze", "m", "axes", to="mean")]
    nodes = [
        node("Reshape", "x", "flat", to="r"),
        node("Shape", "r", to="shape"),
        node("Gather", "shape", "one", to="n", axis=0),
        node("Expand", "1", "n", to="ones"),
        node("Expand", "0", "n", to="zeros"),
        node("ReduceMean", "r", to="m", **axes),
        node("Sub", "r", "m", to="c"),
        node("ReduceSumSquare", "c", to="q", keepdims=0, **axes),
        *squeeze,
        node("Div", "q", "width", to="v"),
        node("BatchNormalization", "r", "ones", "zeros", "mean", "v", epsilon=1e-3, to="b"),
        node("Reshape", "b", "back"),
    ]
    constants = {"flat": integers(1, -1, width, 1), "back": integers(-1, STEPS, width), "one": integers(1)}
    constants |= {"1": np.float32(1), "0": np.float32(0), "width": np.float32(width), "axes": integers(0, 2, 3)}
    if opset < 13:
        del constants["axes"]
    return nodes, constants


@pytest.mark.parametrize("opset", [11, 15])
def test_rows_as_channels_of_a_batch_norm(tmp_path, opset):
    path = nets.write(tmp_path / "net.onnx", *rows_as_channels(WIDTH, opset), SHAPE, opset)
    made = convert(path, {}, None)
    assert [layer.type for layer in made.deploy.layer[1:]] == ["Reshape", "Reshape", "GroupNorm", "Reshape", "Reshape"]
    assert made.proof.any_batch and made.proof.outputs["y"] < 1e-6


def test_rows_whose_batch_is_another_axis(tmp_path):
    """As in nn.Transformer, whose steps are the first axis: the net takes other batches than that of the trace."""
    nodes = [node("Transpose", "x", perm=[1, 0, 2], to="t"), node("LayerNormalization", "t", "s", to="n")]
    nodes.append(node("Transpose", "n", perm=[1, 0, 2]))
    path = nets.write(tmp_path / "net.onnx", nodes, {"s": weights(WIDTH)}, SHAPE)
    made = convert(path, {}, {"x": weights(6, STEPS, WIDTH)})
    assert made.proof.any_batch and made.proof.outputs["y"] < 1e-6


def test_gelu_with_an_operator_of_tensorflow(tmp_path):
    """x / 2 erfc(-x / sqrt(2)), as tf2onnx leaves it of Keras's gelu."""
    nodes = [node("Mul", "x", "half", to="h"), node("Neg", "x", to="n"), node("Mul", "n", "root", to="r")]
    nodes += [node("Erf", "r", to="e"), node("Mul", "h", "e")]
    made = nets.model(nodes, {"half": np.float32(0.5), "root": np.float32(0.5**0.5)}, (None, WIDTH))
    made.graph.node[3].op_type = "Erfc"
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(made)
    made = convert(tmp_path / "net.onnx", {}, None)
    assert [layer.type for layer in made.deploy.layer] == ["Input", "GELU"] and made.proof.outputs["y"] < 1e-6
