"""Branches whose conditions are known from constants and shapes become the operators that they run."""

import numpy as np
import onnx
import onnx_nets as nets
import pytest
from onnx import helper
from onnx_nets import integers, node, weights

from caffelite.errors import CaffeliteError
from caffelite.onnx_import import convert

TRUE, FALSE = np.array(True), np.array(False)
SHAPE = (None, 4, 5, 6)


def graph(nodes, *outputs: str, **constants):
    return helper.make_graph(
        nodes,
        "branch",
        [],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list("nchw")) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )


def branch(condition: str, then, otherwise, to: str = "y"):
    return node("If", condition, to=to, then_branch=then, else_branch=otherwise)


def types(path, nodes, constants, shape=SHAPE):
    made = convert(nets.write(path / "net.onnx", nodes, constants, shape), {}, None)
    assert max(made.proof.outputs.values()) < 1e-6
    return [layer.type for layer in made.deploy.layer[1:]]


RELU, TANH = graph([node("Relu", "x", to="in")], "in"), graph([node("Tanh", "x", to="in")], "in")


@pytest.mark.parametrize("condition, expected", [(TRUE, ["ReLU"]), (FALSE, ["TanH"])])
def test_a_constant_condition(tmp_path, condition, expected):
    assert types(tmp_path, [branch("c", RELU, TANH)], {"c": condition}) == expected


def test_a_condition_on_a_shape(tmp_path):
    """As torch.squeeze is exported: the axis goes only where it has one value."""
    nodes = [node("Shape", "x", to="s"), node("Gather", "s", "one", to="side"), node("Equal", "side", "four", to="c")]
    constants = {"one": integers(1), "four": integers(4)}
    assert types(tmp_path, [*nodes, branch("c", RELU, TANH)], constants) == ["ReLU"]
    assert types(tmp_path, [*nodes, branch("c", RELU, TANH)], {**constants, "four": integers(1)}) == ["TanH"]


def test_branches_within_branches_and_behind_them(tmp_path):
    last = branch("d", graph([node("Identity", "in", to="i")], "i"), graph([node("Tanh", "x", to="o")], "o"), to="out")
    inner = graph([node("Mul", "x", "w", to="in"), last], "out", w=weights(6))
    sizes = [node("Shape", "a", to="s"), node("Gather", "s", "three", to="side"), node("Equal", "side", "six", to="e")]
    after = branch("e", graph([node("Abs", "a", to="in")], "in"), graph([node("Neg", "a", to="in")], "in"))
    constants = {"c": TRUE, "d": TRUE, "three": integers(3), "six": integers(6)}
    nodes = [branch("c", inner, RELU, to="a"), *sizes, after]
    assert types(tmp_path, nodes, constants) == ["Scale", "AbsVal"]


def test_a_branch_that_gives_what_is_outside(tmp_path):
    nodes = [
        node("Relu", "x", to="a"),
        branch("c", graph([node("Identity", "a", to="in")], "in"), TANH, to="b"),
        node("Tanh", "b"),
    ]
    assert types(tmp_path, nodes, {"c": TRUE}) == ["ReLU", "TanH"]


@pytest.mark.parametrize(
    "nodes, message",
    [
        ([node("ReduceMax", "x", to="m", keepdims=0), node("Greater", "m", "zero", to="c")], 'the values of "x"'),
        (
            [node("Shape", "x", to="s"), node("Gather", "s", "first", to="n"), node("Equal", "n", "two", to="c")],
            "the size of the batch",
        ),
    ],
)
def test_conditions_that_are_not_known(tmp_path, nodes, message):
    constants = {"zero": np.float32(0), "first": integers(0), "two": integers(2)}
    path = nets.write(tmp_path / "net.onnx", [*nodes, branch("c", RELU, TANH)], constants, SHAPE)
    with pytest.raises(CaffeliteError, match=f'If "/y/If" runs depends on {message}'):
        convert(path, {}, None)


def test_a_branch_with_values_outside_the_folder(tmp_path):
    inner = graph([node("Mul", "x", "w", to="in")], "in", w=weights(6))
    (tmp_path / "secret").write_bytes(bytes(24))
    onnx.external_data_helper.set_external_data(inner.initializer[0], str(tmp_path / "secret"), 0, 24)
    inner.initializer[0].ClearField("raw_data")
    folder = tmp_path / "net"
    folder.mkdir()
    path = nets.write(folder / "net.onnx", [branch("c", inner, RELU)], {"c": TRUE}, SHAPE)
    with pytest.raises(CaffeliteError, match="outside the folder"):
        convert(path, {}, None)


def test_loops_are_refused(tmp_path):
    kinds = {"i": onnx.TensorProto.INT64, "go": onnx.TensorProto.BOOL, "a": onnx.TensorProto.FLOAT}
    values = {
        name: helper.make_tensor_value_info(name, kind, list("nchw") if name == "a" else [])
        for name, kind in kinds.items()
    }
    ends = [
        helper.make_tensor_value_info(f"{name}s", kinds[name], list("nchw") if name == "a" else [])
        for name in ("go", "a")
    ]
    nodes = [node("Identity", "go", to="gos"), node("Relu", "a", to="as")]
    loop = node("Loop", "n", "c", "x", body=helper.make_graph(nodes, "body", list(values.values()), ends))
    made = nets.model([loop], {"n": np.array(1), "c": TRUE}, SHAPE)
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", kinds["a"], list("nchw")))
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(CaffeliteError, match="graph of its own"):
        convert(tmp_path / "net.onnx", {}, None)
