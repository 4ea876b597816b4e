"""ONNX operators of recurrent layers: a Scan over the steps of a sequence, of any number. States that a layer keeps
from one pass to the next are 0 at the start of each run."""

from collections.abc import Sequence

import numpy as np

from .base.exporting import EXAMPLES, Node, Writer, layer_of, operator
from .recurrent import LSTM, RNN, Lstm, Recurrent


def _sums(w: Writer, node: Node, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
    """W x_t + b of all steps (T, N, G·D), of x (T, N, I)."""
    products = w.add("MatMul", [x, w.array(f"{node.layer.name} of x", weight.T)])
    return w.add("Add", [products, w.array(f"{node.layer.name} bias", bias)])


def _of_all_steps(w: Writer, node: Node, layer: Recurrent, x: list[str], params: list[np.ndarray]) -> str:
    sums = _sums(w, node, w.add("Reshape", [x[0], w.numbers([0, 0, -1])]), params[0], params[1])
    if not layer.static:
        return sums
    weight = w.array(f"{node.layer.name} of static", params[2].T)
    return w.add("Add", [sums, w.add("MatMul", [w.add("Flatten", [x[2]], axis=1), weight])])


def _states(w: Writer, layer: Recurrent, x: list[str]) -> list[str]:
    """The states to start with (N, D)."""
    if layer.exposed:
        return [w.add("Squeeze", [name, w.numbers([0])]) for name in x[-len(layer.states) :]]
    zeros = w.array(f"zeros {layer.n}x{layer.d}", np.zeros((layer.n, layer.d), np.float32))
    return [zeros] * len(layer.states)


def _tops(w: Writer, layer: Recurrent, y: str, last: Sequence[str]) -> list[str]:
    return [y, *(w.add("Unsqueeze", [state, w.numbers([0])]) for state in last[: len(layer.exposed)])]


def _lstm(w: Writer, name: str, starts: list[str], sums: str, k: str | None, weight: np.ndarray) -> list[str]:
    """(h_T, c_T, h of all steps). k (T, N, 1): 0 where a sequence starts; None: nowhere."""

    def step(inner: Writer, states: list[str], rows: list[str]) -> tuple[list[str], list[str]]:
        h, c = states
        if k:
            h, c = (inner.add("Mul", [state, rows[1]]) for state in states)
        gates = inner.add("Add", [rows[0], inner.add("MatMul", [h, inner.array(f"{name} of h", weight.T)])])
        i, f, o, g = inner.add_many("Split", [gates], 4, axis=1)
        i, f, o = (inner.add("Sigmoid", [gate]) for gate in (i, f, o))
        old, new = inner.add("Mul", [f, c]), inner.add("Mul", [i, inner.add("Tanh", [g])])
        c = inner.add("Add", [old, new])
        h = inner.add("Mul", [o, inner.add("Tanh", [c])])
        return [h, c], [inner.add("Identity", [h])]

    return w.scan(starts, [sums, *([k] if k else [])], step)


@operator("LSTM")
def lstm(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    layer = layer_of(node, LSTM)
    sums, k = _of_all_steps(w, node, layer, x, params), w.add("Unsqueeze", [x[1], w.numbers([2])])
    h, c, y = _lstm(w, layer.name, _states(w, layer, x), sums, k, params[2 + layer.static])
    return _tops(w, layer, y, [h, c])


@operator("RNN")
def rnn(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    layer = layer_of(node, RNN)
    weight = params[2 + layer.static].T

    def step(inner: Writer, states: list[str], rows: list[str]) -> tuple[list[str], list[str]]:
        hidden = inner.add("Mul", [states[0], rows[1]])
        product = inner.add("MatMul", [hidden, inner.array(f"{layer.name} of h", weight)])
        h = inner.add("Tanh", [inner.add("Add", [rows[0], product])])
        return [h], [inner.add("Identity", [h])]

    sums, k = _of_all_steps(w, node, layer, x, params), w.add("Unsqueeze", [x[1], w.numbers([2])])
    last, hidden = w.scan(_states(w, layer, x), [sums, k], step)
    products = w.add("MatMul", [hidden, w.array(f"{layer.name} to y", params[-2].T)])
    y = w.add("Tanh", [w.add("Add", [products, w.array(f"{layer.name} bias of y", params[-1])])])
    return _tops(w, layer, y, [last])


@operator("Lstm")
def lstm_of_rows(w: Writer, node: Node, x: list[str], params: list[np.ndarray]) -> list[str]:
    layer = layer_of(node, Lstm)
    rows = w.add("Reshape", [x[0], w.numbers([-1, layer.n, layer.inputs])])
    sums, k = _sums(w, node, rows, params[0], params[2]), None
    if len(x) > 1:
        starts = w.add("Equal", [w.add("Reshape", [x[1], w.numbers([-1, layer.n, 1])]), w.scalar(0)])
        k = w.add("Where", [starts, w.scalar(0), w.scalar(1)])
    zeros = w.array(f"zeros {layer.n}x{layer.d}", np.zeros((layer.n, layer.d), np.float32))
    y = _lstm(w, layer.name, [zeros, zeros], sums, k, params[1])[2]
    return [y if len(node.tops[0].shape) == 3 else w.add("Reshape", [y, w.numbers([-1, layer.d])])]


def continues(node: Node, rng: np.random.Generator) -> np.ndarray:
    """0 where a sequence starts and 1 where it continues."""
    return (rng.uniform(size=node.bottoms[1].shape) < 0.8).astype(np.float32)


EXAMPLES.update({(kind, 1): continues for kind in ("LSTM", "RNN", "Lstm")})
