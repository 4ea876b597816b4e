"""Operators of sequences, with their states, directions and forms: the net gives what onnxruntime gives."""

import onnx
import onnx_nets as nets
import pytest
from onnx_nets import integers, node, weights

from caffelite.errors import CaffeliteError
from caffelite.onnx_import import convert, recurrent

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, WIDTH, SIZE = 6, 3, 5


def sequence(kind: str, state: str, directions: int = 1, ends: str = "", steps: int = STEPS, **fields):
    """(operators, constants) of sequences, samples first, as PyTorch exports them. state: zero, constant or computed;
    ends: the outputs behind the sequence."""
    rows = GATES[kind] * SIZE
    constants = {
        "w": weights(directions, rows, WIDTH),
        "r": weights(directions, rows, SIZE),
        "b": weights(directions, 2 * rows),
    }
    states = {"zero": [], "constant": ["h0"], "computed": ["h0"]}[state]
    states += ["c0"] * bool(states and kind == "LSTM")
    nodes = [node("Transpose", "x", perm=[1, 0, 2], to="t")]
    if state == "constant":
        constants |= {f"{name}_row": weights(directions, 1, SIZE) for name in states} | {"1": integers(1)}
        constants |= {"directions": integers(directions), "size": integers(SIZE)}
        nodes += [node("Shape", "t", to="s"), node("Gather", "s", "1", to="n", axis=0)]
        nodes += [node("Concat", "directions", "n", "size", to="shape", axis=0)]
        nodes += [node("Expand", f"{name}_row", "shape", to=name) for name in states]
    elif state == "computed":
        constants |= {f"{name}_w": weights(STEPS * WIDTH, directions * SIZE) for name in states}
        constants["shape"] = integers(-1, directions, SIZE)
        nodes += [node("Flatten", "x", to="flat")]
        for name in states:
            nodes += [node("MatMul", "flat", f"{name}_w", to=f"{name}_m"), node("Tanh", f"{name}_m", to=f"{name}_t")]
            nodes += [node("Reshape", f"{name}_t", "shape", to=f"{name}_s")]
            nodes += [node("Transpose", f"{name}_s", perm=[1, 0, 2], to=name)]
    nodes += [node(kind, "t", "w", "r", "b", "", *states, to="h" + ends, hidden_size=SIZE, **fields)]
    nodes += [node("Transpose", "h", perm=[2, 0, 1, 3], to="y")]
    nodes += [node("Transpose", name, perm=[1, 0, 2], to=f"y_{name}") for name in ends.split(",") if name]
    return nodes, constants


FORMS = {
    "LSTM": [{}],
    "GRU": [{"linear_before_reset": after} for after in (0, 1)],
    "RNN": [{}, {"activations": ["Relu"]}],
}


@pytest.mark.parametrize("state", ["zero", "constant", "computed"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", FORMS)
def test_sequences(tmp_path, kind, direction, state):
    directions, ends = 1 + (direction == "bidirectional"), ",l" + ",c" * (kind == "LSTM")
    for fields in FORMS[kind]:
        if "activations" in fields:
            fields = {"activations": fields["activations"] * directions}
        nodes, constants = sequence(kind, state, directions, ends, direction=direction, **fields)
        outputs = ",".join(["y", *(f"y_{name}" for name in ends.split(",") if name)])
        path = nets.write(tmp_path / "net.onnx", nodes, constants, (None, STEPS, WIDTH), output=outputs)
        made = convert(path, {}, None)
        assert made.proof.any_batch and max(made.proof.outputs.values()) < 2e-6


def test_steps_share_their_weights(tmp_path):
    nodes, constants = sequence("GRU", "zero", linear_before_reset=1)
    made = convert(nets.write(tmp_path / "net.onnx", nodes, constants, (None, STEPS, WIDTH)), {}, None)
    products = [layer for layer in made.deploy.layer if layer.name.endswith("/of_h")]
    assert len(products) == STEPS and len({tuple(p.name for p in layer.param) for layer in products}) == 1
    assert [layer.name in made.blobs for layer in products] == [True] + [False] * (STEPS - 1)


def test_one_lstm_layer_where_the_states_are_zeros(tmp_path):
    nodes, constants = sequence("LSTM", "zero")
    made = convert(nets.write(tmp_path / "net.onnx", nodes, constants, (None, STEPS, WIDTH)), {}, None)
    assert [layer.type for layer in made.deploy.layer] == ["Input", "Permute", "Lstm", "Reshape", "Permute"]


@pytest.mark.parametrize("state", ["zero", "computed"])
@pytest.mark.parametrize("biases, rate", [(2, 2), (1, 1)])
def test_the_sum_of_two_biases_learns_twice_as_fast(tmp_path, state, biases, rate):
    nodes, constants = sequence("LSTM", state)
    constants["b"][:, constants["b"].shape[1] // 2 * biases :] = 0
    made = convert(nets.write(tmp_path / "net.onnx", nodes, constants, (None, STEPS, WIDTH)), {}, None)
    layer = next(layer for layer in made.deploy.layer if layer.type in ("Lstm", "LSTM"))
    rates = dict(zip([array.ndim for array in made.blobs[layer.name]], [p.lr_mult for p in layer.param], strict=False))
    assert rates.get(1, 1) == rate and rates.get(2, 1) == 1


@pytest.mark.parametrize(
    "kind, fields, message",
    [
        ("GRU", {"steps": recurrent.MOST_STEPS + 1}, "257 steps.*LSTM"),
        ("GRU", {"activations": ["HardSigmoid", "Tanh"]}, "another form"),
        ("RNN", {"activations": ["Softsign"]}, "activations softsign"),
        ("LSTM", {"clip": 1.0}, "limited sums"),
    ],
)
def test_sequences_that_no_layer_computes(tmp_path, kind, fields, message):
    nodes, constants = sequence(kind, "zero", **fields)
    path = nets.write(tmp_path / "net.onnx", nodes, constants, (None, fields.get("steps", STEPS), WIDTH))
    with pytest.raises(CaffeliteError, match=message):
        convert(path, {}, None)


def test_states_that_differ_by_sample_are_refused(tmp_path):
    nodes, constants = sequence("LSTM", "zero")
    nodes[1].input[4:] = ["", "h0"]
    constants["h0"] = weights(1, 2, SIZE)
    path = nets.write(tmp_path / "net.onnx", nodes, constants, (2, STEPS, WIDTH))
    with pytest.raises(CaffeliteError, match="an initial state for each sample"):
        convert(path, {}, None)


def _fed(path, kind: str, states_first: bool):
    """Sequences whose first states are inputs, samples along their second axis; x (N, T, I) or (T, N, I)."""
    nodes, constants = sequence(kind, "zero", ends=",l")
    names = ["h0", "c0"][: 1 + (kind == "LSTM")]
    nodes[1].input[4:] = ["", *names]
    if states_first:
        nodes[1].input[0] = "x"
        nodes.pop(0)
    made = nets.model(nodes, constants, (STEPS, "n", WIDTH) if states_first else ("n", STEPS, WIDTH), output="y,y_l")
    for name in names:
        made.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, "n", SIZE)))
    path.write_bytes(made.SerializeToString())
    return names


@pytest.mark.parametrize("states_first", [False, True])
@pytest.mark.parametrize("kind", GATES)
def test_first_states_that_are_inputs(tmp_path, kind, states_first):
    names = _fed(tmp_path / "net.onnx", kind, states_first)
    given = {"x": weights(STEPS, 4, WIDTH) if states_first else weights(4, STEPS, WIDTH)}
    given |= {name: weights(1, 4, SIZE) for name in names}
    made = convert(tmp_path / "net.onnx", {}, given)
    assert made.proof.any_batch and made.proof.samples == 7 and max(made.proof.outputs.values()) < 2e-6
    found = {layer.name: list(layer.input_param.shape[0].dim) for layer in made.deploy.layer if layer.type == "Input"}
    assert found == dict.fromkeys(names, [1, 1, SIZE]) | {"x": [STEPS, 1, WIDTH] if states_first else [1, STEPS, WIDTH]}
    given["h0"] = given["h0"][:, :3]
    with pytest.raises(CaffeliteError, match=r"-inputs does not fit.*h0 of \[1, 'N', 5\]"):
        convert(tmp_path / "net.onnx", {}, given)


def test_open_steps_of_one_sample_are_no_batch(tmp_path):
    """Of one input of one sample the open size is that of the steps."""
    path = nets.write(tmp_path / "net.onnx", *sequence("LSTM", "zero"), (1, None, WIDTH))
    with pytest.raises(CaffeliteError, match='"x" has open axes'):
        convert(path, {}, None)


def test_states_without_the_axis_of_directions(tmp_path):
    """As dynamo unrolls an RNN: (1, N, D) and (N, D) are added."""
    nodes = [node("Unsqueeze", "x", "0", to="u"), node("Relu", "x", to="r"), node("Add", "u", "r")]
    made = convert(nets.write(tmp_path / "net.onnx", nodes, {"0": integers(0)}, (None, SIZE)), {}, None)
    assert made.proof.any_batch and made.proof.outputs["y"] == 0
