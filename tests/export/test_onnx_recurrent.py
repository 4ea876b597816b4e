"""ONNX: sequences, of any number of steps, with states that start anew."""

import numpy as np
import onnxruntime
import pytest
from export.exported_nets import exported

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.export import onnx

FILLER = '{ type: "gaussian" std: 0.5 }'
FILLERS = f"num_output: 3 weight_filler {FILLER} bias_filler {FILLER}"
LAYERS = {
    "lstm": (f'type: "LSTM" recurrent_param {{ {FILLERS} }}', "xk"),
    "lstm with a constant input": (f'type: "LSTM" recurrent_param {{ {FILLERS} }}', "xks"),
    "lstm with states": (f'type: "LSTM" recurrent_param {{ {FILLERS} expose_hidden: true }}', "xkhc"),
    "rnn": (f'type: "RNN" recurrent_param {{ {FILLERS} }}', "xk"),
    "rnn with a constant input and state": (f'type: "RNN" recurrent_param {{ {FILLERS} expose_hidden: true }}', "xksh"),
    "lstm of rows": (f'type: "Lstm" lstm_param {{ {FILLERS} }}', "x"),
    "lstm of rows that start": (f'type: "Lstm" lstm_param {{ {FILLERS} }}', "xk"),
}
SHAPES = {"x": (5, 2, 4), "k": (5, 2), "s": (2, 6), "h": (1, 2, 3), "c": (1, 2, 3)}


def net(layer: str, bottoms: str, steps: int = 5) -> prototxt.Document:
    lines = []
    for name in bottoms:
        dims = " ".join(f"dim: {steps if size == 5 else size}" for size in SHAPES[name])
        lines.append(f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}')
    tops = ["y", *(f"{name}_T" for name in states(layer, bottoms))]
    names = " ".join([*(f'bottom: "{name}"' for name in bottoms), *(f'top: "{top}"' for top in tops)])
    lines.append(f'layer {{ name: "y" {names} {layer} }}')
    return prototxt.modern(prototxt.parse("\n".join(lines), pb.NetParameter))


def states(layer: str, bottoms: str) -> list[str]:
    """The states that leave a layer, and enter it."""
    return [name for name in bottoms if name in "hc" and "expose" in layer]


@pytest.mark.parametrize("name", LAYERS)
def test_sequences(name, seed):
    layer, bottoms = LAYERS[name]
    made, body = exported(net(layer, bottoms), seed, "float32")
    outputs = onnx.check(made, body, seed).outputs
    assert max(outputs.values()) < 1e-5 and len(outputs) == 1 + len(states(layer, bottoms))
    other, _ = exported(net(layer, bottoms, steps=7), seed, "float32")
    assert max(onnx.check(other, body, seed).outputs.values()) < 1e-5, "the number of steps is open"


def test_a_sequence_starts_anew_where_its_indicator_is_0(seed):
    _, body = exported(net(*LAYERS["lstm"]), seed, "float32")
    session = onnxruntime.InferenceSession(body, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(seed).normal(size=SHAPES["x"]).astype(np.float32)
    k = np.ones(SHAPES["k"], np.float32)
    k[3] = 0
    (y,) = session.run(None, {"x": x, "k": k})
    (rest,) = session.run(None, {"x": x[3:], "k": k[3:]})
    np.testing.assert_allclose(y[3:], rest, rtol=1e-5)
    assert abs(session.run(None, {"x": x, "k": np.ones_like(k)})[0][3:] - rest).max() > 1e-3
