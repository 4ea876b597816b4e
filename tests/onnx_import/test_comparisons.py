"""Comparisons, what combines them, and choices: the net gives what onnxruntime gives, for any batch."""

import numpy as np
import onnx
import onnx_nets as nets
import pytest
from onnx_nets import integers, node, weights

from caffelite import caffelite_pb2 as pb
from caffelite.errors import NOWHERE
from caffelite.net import graph
from caffelite.onnx_import import convert

SHAPE = (4, 6)
MASK = np.arange(24).reshape(SHAPE) % 5 < 2  # some of each row
COMPARED = ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal")


def f(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def made_of(tmp_path, nodes, constants, shape=(None, *SHAPE), given=None):
    made = convert(nets.write(tmp_path / "net.onnx", nodes, constants, shape), {}, given)
    assert made.proof.any_batch and made.proof.outputs["y"] < 1e-6
    return [layer.type for layer in made.deploy.layer[1:]]


@pytest.mark.parametrize("other", ["number", "numbers", "first", "blob"])
@pytest.mark.parametrize("kind", COMPARED)
def test_comparisons(tmp_path, kind, other):
    """The ReLU makes half of the numbers equal."""
    constants = {"number": f(0), "numbers": np.maximum(weights(*SHAPE), 0)}
    nodes = [node("Relu", "x", to="a"), node("Neg", "x", to="n"), node("Relu", "n", to="b")]
    pair = {"first": ("number", "a"), "blob": ("a", "b")}.get(other, ("a", other))
    nodes += [node(kind, *pair, to="c"), node("Cast", "c", cast=onnx.TensorProto.FLOAT)]
    made_of(tmp_path, nodes, constants)


def test_numbers_above_a_limit_are_one_layer(tmp_path):
    nodes = [node("Greater", "x", "l", to="c"), node("Cast", "c", cast=onnx.TensorProto.FLOAT)]
    assert made_of(tmp_path, nodes, {"l": f(0.3)}) == ["Threshold"]


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("kind", ["And", "Or", "Xor"])
def test_answers_are_combined(tmp_path, kind, constant):
    nodes = [node("Greater", "x", "l", to="c"), node("Less", "x", "h", to="d"), node("Not", "d", to="e")]
    nodes += [node(kind, "mask" if constant else "c", "e", to="o"), node("Cast", "o", cast=onnx.TensorProto.FLOAT)]
    made_of(tmp_path, nodes, {"l": f(-0.4), "h": f(0.6), "mask": MASK})


@pytest.mark.parametrize("other", ["zero", "number", "lowest", "infinite", "row", "blob"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("answer", ["mask", "computed"])
def test_choices(tmp_path, answer, turned, other):
    constants = {"mask": MASK, "zero": f(0), "number": f(0.7), "row": weights(6), "limit": f(1 if turned else -1)}
    constants |= {"lowest": np.finfo(np.float32).min, "infinite": f(-np.inf)}
    nodes = [node("Relu", "x", to="blob"), node("Tanh", "x", to="a"), node("Greater", "x", "limit", to="computed")]
    choices = (other, "a") if turned else ("a", other)
    infinite = other in ("lowest", "infinite")
    nodes.append(node("Where", answer, *choices, to="w" if infinite else "y"))
    if infinite:
        nodes.append(node("Softmax", "w", axis=-1))
    types = made_of(tmp_path, nodes, constants)
    if infinite and answer == "mask":
        assert types == ["TanH", "Bias", "Softmax"]


def test_two_numbers_by_answers_of_the_first_step(tmp_path):
    """As a mask of attention is made of places that pad a sequence: (N, 1, 6) for scores (N, 4, 6)."""
    nodes = [node("Slice", "x", "0", "1", "1", to="s"), node("Less", "s", "limit", to="c")]
    nodes += [node("Where", "c", "low", "zero", to="m"), node("Add", "x", "m", to="a"), node("Softmax", "a", axis=-1)]
    numbers = {"limit": f(-1), "low": f(-np.inf), "zero": f(0)}
    made_of(tmp_path, nodes, numbers | {"0": integers(0), "1": integers(1)})


def test_no_number_is_none_behind_a_softmax(tmp_path):
    """As PyTorch exports attention with a mask of answers."""
    nodes = [node("Softmax", "x", axis=-1, to="s"), node("IsNaN", "s", to="n"), node("Where", "n", "zero", "s")]
    assert made_of(tmp_path, nodes, {"zero": f(0)}) == ["Softmax"]


def test_whole_numbers_as_answers(tmp_path):
    """Any number but 0 is true."""
    nodes = [node("Cast", "x", cast=onnx.TensorProto.BOOL, to="b"), node("Cast", "b", cast=onnx.TensorProto.FLOAT)]
    made = nets.model(nodes, {}, (None, 5))
    made.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    made = convert(tmp_path / "net.onnx", {}, {"x": np.array([[0, 1, 2, -3, 40]])})
    assert made.proof.outputs["y"] == 0 and made.proof.samples == 4


def test_nothing_learns_through_a_comparison(tmp_path):
    nodes = [node("MatMul", "x", "w", to="a"), node("Greater", "a", "l", to="c"), node("Where", "c", "a", "l")]
    path = nets.write(tmp_path / "net.onnx", nodes, {"w": weights(6, 3), "l": f(0.1)}, (None, 6))
    train = convert(path, {}, None).train
    net = graph.build(_fed(train), pb.NetState(phase=pb.TRAIN), NOWHERE)
    learned = {node.name: node.gradient_to for node in net.nodes}
    assert learned["c/above" if "c/above" in learned else "c"] == [False]


def _fed(train: pb.NetParameter) -> pb.NetParameter:
    """The net with an input in place of its data."""
    made = pb.NetParameter(name=train.name)
    layer = made.layer.add(name="data", type="Input", top=["x", "label"])
    layer.input_param.shape.add(dim=[2, 6])
    layer.input_param.shape.add(dim=[2])
    made.layer.extend(each for each in train.layer if each.type not in ("HDF5Data", "Accuracy"))
    return made
