"""Operators of sequences (T, N, I): an LSTM is one layer for each direction, a GRU or RNN layers for each step, which
share their weights."""

from collections.abc import Callable

import numpy as np

from .. import caffelite_pb2 as pb
from .arithmetic import FIXED
from .builder import Builder, Unsupported, translates
from .reader import Operator
from .shapes import cut

MOST_STEPS = 256  # that become layers of their own
FORWARD = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
_USUAL = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}
_LAYERS = {"tanh": "TanH", "relu": "ReLU", "sigmoid": "Sigmoid"}
_STATES = {5: "an initial state", 6: "an initial cell"}

Step = Callable[[Builder, str, str, str], str]


@translates("LSTM")
def lstm(b: Builder, op: Operator) -> list[str]:
    w, r, bias = _weights(b, op, 4)
    peepholes = b.constant(op, 7)
    if not _usual(op) or op.get("input_forget"):
        raise Unsupported(op, "another form than PyTorch's nn.LSTM", "export nn.LSTM")
    if len(op.inputs) > 7 and op.inputs[7] and (peepholes is None or peepholes.any()):
        raise Unsupported(op, "peepholes", "train without them")
    size, read = op.get("hidden_size"), b.read_names()
    exposed = _is_given(b, op, 5) or _is_given(b, op, 6) or bool(read.intersection(op.outputs[2:]))
    tops, cells = [], []
    for i, backward in enumerate(FORWARD[op.get("direction", "forward")]):
        x = _turned(b, b.x(op), backward, "reversed")
        biases = np.split(bias[i], 2)
        weights = _gates(w[i]), _gates(r[i]), _gates(biases[0] + biases[1])
        # Where two biases learn, their sum learns twice as fast as one.
        rates = [{"lr_mult": 2}] if all(each.any() for each in biases) else []
        if exposed:
            y, cell = _exposed(b, op, x, i, weights, rates)
            cells.append(cell)
        else:
            param = [{}, {}, *rates] if rates else []
            y = b.add("Lstm", [x], weights, lstm_param={"num_output": size}, param=param)
        tops.append(_turned(b, y, backward, "forward"))
    made = _outputs(b, op, tops)
    if len(op.outputs) > 2 and op.outputs[2] in read:
        made[2] = _joined(b, cells, "cells")
    else:
        b.silence(cells)
    return made


def _exposed(
    b: Builder, op: Operator, x: str, direction: int, weights: tuple[np.ndarray, np.ndarray, np.ndarray], rates: list
) -> tuple[str, str]:
    """(the sequence, the last cell) of Caffe's own LSTM, which reads its first states and shows its last ones."""
    size, (steps, _, width) = op.get("hidden_size"), b.shape(op.inputs[0])
    first = cut(b, x, 0, 0, 1, steps)
    states = [_state(b, op, index, direction, first, width) for index in _STATES]
    ones = _filled(b, x, width, np.ones(1), "ones")
    ones = b.add("Reshape", [ones], suffix="goes_on", reshape_param={"shape": {"dim": [0, 0]}})
    fields = {"num_output": size, "expose_hidden": True}
    arrays, param = [weights[0], weights[2], weights[1]], [{}, *rates] if rates else []
    y, last, cell = b.add_many("LSTM", [x, ones, *states], 3, arrays, recurrent_param=fields, param=param)
    b.silence([last])
    return y, cell


def _gates(array: np.ndarray) -> np.ndarray:
    """From input, output, forget, cell to input, forget, output, cell."""
    i, o, f, c = np.split(array, 4)
    return np.concatenate([i, f, o, c])


@translates("GRU")
def gru(b: Builder, op: Operator) -> list[str]:
    w, r, bias = _weights(b, op, 3)
    size, after = op.get("hidden_size"), bool(op.get("linear_before_reset", 0))
    if not _usual(op):
        raise Unsupported(op, "another form than PyTorch's nn.GRU", "export nn.GRU")

    def direction(i: int) -> tuple[np.ndarray, np.ndarray, Step]:
        from_x, from_h = np.split(bias[i], 2)
        if after:
            return w[i], from_x, _gru_step(size, _product(r[i], from_h), None)
        gates, new = slice(0, 2 * size), slice(2 * size, None)
        step = _gru_step(size, _product(r[i, gates], from_h[gates]), _product(r[i, new], from_h[new]))
        return w[i], from_x, step

    return _unrolled(b, op, direction)


def _gru_step(size: int, product: Step, of_reset: Step | None) -> Step:
    """h' = n + z (h - n), where z and r are sigmoids of sums, and n = tanh(x + r W h), or tanh(x + W (r h)) where
    ``of_reset`` is that product."""
    kinds = pb.EltwiseParameter

    def step(b: Builder, x: str, h: str, at: str) -> str:
        def eltwise(suffix: str, bottoms: list[str], operation: int, **more) -> str:
            return b.add("Eltwise", bottoms, suffix=f"{at}/{suffix}", eltwise_param={"operation": operation, **more})

        def divided(blob: str, point: int, suffix: str) -> list[str]:
            fields = {"axis": 2, "slice_point": [point]}
            return b.add_many("Slice", [blob], 2, suffix=f"{at}/{suffix}", slice_param=fields)

        of_h = product(b, h, "", at)
        x_gates, x_new = divided(x, 2 * size, "of_x")
        h_gates, h_new = (of_h, "") if of_reset else divided(of_h, 2 * size, "divided_h")
        sums = eltwise("sums", [x_gates, h_gates], kinds.SUM)
        update, reset = divided(b.add("Sigmoid", [sums], suffix=f"{at}/gates"), size, "divided")
        if of_reset:
            h_new = of_reset(b, eltwise("reset", [reset, h], kinds.PROD), "new", at)
        else:
            h_new = eltwise("reset", [reset, h_new], kinds.PROD)
        new = b.add("TanH", [eltwise("sum", [x_new, h_new], kinds.SUM)], suffix=f"{at}/new")
        change = eltwise("difference", [h, new], kinds.SUM, coeff=[1, -1])
        return eltwise("h", [new, eltwise("weighted", [update, change], kinds.PROD)], kinds.SUM)

    return step


@translates("RNN")
def rnn(b: Builder, op: Operator) -> list[str]:
    w, r, bias = _weights(b, op, 1)
    names = [name.lower() for name in op.get("activations") or _USUAL["RNN"] * len(w)]
    if any(name not in _LAYERS for name in names):
        raise Unsupported(op, f"the activations {', '.join(names)}", "export nn.RNN")

    def direction(i: int) -> tuple[np.ndarray, np.ndarray, Step]:
        from_x, from_h = np.split(bias[i], 2)
        product = _product(r[i], from_h)

        def step(b: Builder, x: str, h: str, at: str) -> str:
            summed = b.add("Eltwise", [x, product(b, h, "", at)], suffix=f"{at}/sum")
            return b.add(_LAYERS[names[i]], [summed], suffix=f"{at}/h")

        return w[i], from_x, step

    return _unrolled(b, op, direction)


def _product(weight: np.ndarray, bias: np.ndarray) -> Step:
    """A product with a state whose parameters belong to its first step, and are shared by the others."""
    shared: list[str] = []

    def product(b: Builder, h: str, part: str, at: str) -> str:
        fields, arrays = {"num_output": len(weight), "axis": 2}, [weight, bias]
        suffix = f"{at}/of_h{'_' * bool(part)}{part}"
        names = shared or [f"{h}/{suffix}/{i}" for i in range(len(arrays))]
        made = b.add(
            "InnerProduct",
            [h],
            None if shared else arrays,
            suffix,
            inner_product_param=fields,
            param=[{"name": name} for name in names],
        )
        shared[:] = names
        return made

    return product


def _unrolled(b: Builder, op: Operator, direction: Callable[[int], tuple[np.ndarray, np.ndarray, Step]]) -> list[str]:
    """The outputs of layers for each step. direction: the weights and biases of x, and the step from what these make of
    x and from the state before to the state."""
    steps = b.shape(op.inputs[0])[0]
    if steps > MOST_STEPS:
        remedy = "use an LSTM, which is one layer"
        raise Unsupported(op, f"{steps} steps, each of which needs layers of its own: at most {MOST_STEPS}", remedy)
    tops = []
    for i, backward in enumerate(FORWARD[op.get("direction", "forward")]):
        way = "backward" if backward else "forward"
        weight, bias, step = direction(i)
        fields = {"num_output": len(weight), "axis": 2}
        sums = b.add("InnerProduct", [b.x(op)], [weight, bias], f"{way}/of_x", inner_product_param=fields)
        points = list(range(1, steps))
        of_x = [sums]
        if steps > 1:
            of_x = b.add_many("Slice", [sums], steps, suffix=way, slice_param={"axis": 0, "slice_point": points})
        h = _state(b, op, 5, i, of_x[0], len(weight))
        states = [""] * steps
        for t in reversed(range(steps)) if backward else range(steps):
            h = states[t] = step(b, of_x[t], h, f"{way}/{t}")
        tops.append(_joined(b, states, way))
    return _outputs(b, op, tops)


def _weights(b: Builder, op: Operator, gates: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(of x, of the state, biases of both) by direction. Errors: a form that no layer has."""
    w, r, bias, lengths = (b.constant(op, i) for i in range(1, 5))
    if w is None or r is None or bias is None and len(op.inputs) > 3 and op.inputs[3]:
        raise Unsupported(op, "its weights are computed in the net")
    if op.get("layout", 0) or op.get("clip"):
        raise Unsupported(op, "limited sums" if op.get("clip") else "the batch first", "export without it")
    if len(op.inputs) > 4 and op.inputs[4] and (lengths is None or (lengths != b.shape(op.inputs[0])[0]).any()):
        raise Unsupported(op, "sequences of different lengths", "export for sequences of one length")
    if bias is None:
        bias = np.zeros((len(w), 2 * gates * op.get("hidden_size")), np.float32)
    return w, r, bias


def _usual(op: Operator) -> bool:
    """Whether its activations are the usual ones, named or not."""
    usual = _USUAL[op.kind]
    return [name.lower() for name in op.get("activations") or []] in ([], usual, usual * 2)


def _is_given(b: Builder, op: Operator, index: int) -> bool:
    """Whether this state is another than zeros."""
    value = b.constant(op, index)
    return index < len(op.inputs) and bool(op.inputs[index]) and (value is None or bool(value.any()))


def _state(b: Builder, op: Operator, index: int, direction: int, first: str, width: int) -> str:
    """The state (1, N, D) at the start of a direction. first: a blob (1, N, width) that has the batch."""
    name, suffix = _STATES[index], f"{('h', 'c')[index - 5]}_{direction}"
    value = b.constant(op, index)
    if value is None and _is_given(b, op, index):
        count = b.shape(op.inputs[index])[0]
        return cut(b, b.x(op, index), 0, direction, direction + 1, count)
    row = np.zeros(op.get("hidden_size"))
    if value is not None:
        row = value[direction, 0]
        if (value[direction] != row).any():
            raise Unsupported(op, f"{name} for each sample of the batch", "export with an open batch: dynamic_axes")
    return _filled(b, first, width, row, suffix, learns=bool(row.any()))


def _filled(b: Builder, x: str, width: int, row: np.ndarray, suffix: str, learns: bool = False) -> str:
    """These numbers for each row of x (.., .., width)."""
    fields, arrays = {"num_output": len(row), "axis": 2}, [np.zeros((len(row), width)), row]
    param = [FIXED, {}] if learns else [FIXED, FIXED]
    return b.add("InnerProduct", [x], arrays, suffix, inner_product_param=fields, param=param)


def _turned(b: Builder, x: str, backward: bool, suffix: str) -> str:
    return b.add("Reverse", [x], suffix=suffix, reverse_param={"axis": 0}) if backward else x


def _joined(b: Builder, blobs: list[str], suffix: str) -> str:
    """Along the first axis."""
    return b.add("Concat", blobs, suffix=suffix, concat_param={"axis": 0}) if len(blobs) > 1 else blobs[0]


def _outputs(b: Builder, op: Operator, tops: list[str]) -> list[str]:
    """The sequence (T, directions, N, D), and the last states (directions, N, D); no cells."""
    steps, size, read = b.shape(op.inputs[0])[0], op.get("hidden_size"), b.read_names()
    made = [""] * max(2, len(op.outputs))
    if op.outputs[0] in read:
        parts = [b.add("Reshape", [y], suffix="axis", reshape_param={"shape": {"dim": [0, 1, -1, size]}}) for y in tops]
        made[0] = b.add("Concat", parts, suffix="both") if len(parts) > 1 else parts[0]
    if len(op.outputs) > 1 and op.outputs[1] in read:
        ends = [0 if backward else steps - 1 for backward in FORWARD[op.get("direction", "forward")]]
        made[1] = _joined(b, [cut(b, y, 0, end, end + 1, steps) for y, end in zip(tops, ends, strict=True)], "states")
    return made
