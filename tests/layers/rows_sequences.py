"""Rows of the table of layers: Sources and sinks, reductions, recurrent and Python layers."""

import numpy as np
import reference
from layers.layer_row import Row, distinct, labels, samples, some, starts
from textnet import BATCH, IMAGE

IN_MEMORY = np.arange(24.0).reshape(4, 3, 1, 2), np.arange(4.0)


FED = [np.arange(6.0).reshape(2, 3), np.array([1.0, 0.0])]


# A batch of states has N second.
UNLIKE = "LSTMUnit".split()

ROWS = [
    Row(
        "RNN",
        "num_output: 2 debug_info: true",
        lambda x, cont, *params: reference.rnn(x, cont, None, [np.zeros((3, 2))], params)[:1],
        [(5, 3, 4), ((5, 3), starts)],
    ),
    Row(
        "LSTM",
        "num_output: 2",
        lambda x, cont, *params: reference.lstm(x, cont, None, [np.zeros((3, 2))] * 2, params)[:1],
        [(5, 3, 4), ((5, 3), starts)],
    ),
    Row(
        "LSTMUnit",
        "",
        lambda c, x, k: reference.lstm_unit(c, x, k[..., None]),
        [(1, 3, 2), (1, 3, 8), ((1, 3), some)],
        tops=2,
        constant=(2,),
    ),
    Row("Reduction", "coeff: 2", lambda x: 2 * x.sum()),
    Row("Reduction of absolutes", "operation: ASUM axis: 1 coeff: -0.5", lambda x: -np.abs(x).sum((1, 2, 3)) / 2),
    Row("Reduction of squares", "operation: SUMSQ axis: -1", lambda x: (x * x).sum(-1)),
    Row("Reduction mean", "operation: MEAN axis: 2", lambda x: x.mean((2, 3))),
    Row("ArgMax", "", lambda x: x.reshape(len(x), -1).argmax(1).reshape(-1, 1, 1, 1), [(IMAGE, distinct)]),
    Row(
        "ArgMax with values",
        "top_k: 2 out_max_val: true",
        lambda x: np.stack([(-x).argsort(1)[:, :2], -np.sort(-x, 1)[:, :2]], 1),
        [(BATCH, distinct)],
    ),
    Row("ArgMax along an axis", "axis: 1 top_k: 3", lambda x: (-x).argsort(1)[:, :3], [(IMAGE, distinct)]),
    Row(
        "ArgMax values along an axis",
        "axis: -1 out_max_val: true",
        lambda x: x.max(-1, keepdims=True),
        [(IMAGE, distinct)],
    ),
    Row("BatchReindex", "", lambda x, i: x[i.astype(int)], [(4, 3, 2), ((6,), samples)], constant=(1,)),
    Row(
        "Filter",
        "",
        lambda a, b, s: [a, b],
        [(4, 3), (4, 2), ((4,), lambda rng, shape: rng.integers(1, 3, shape) * 1.0)],
        tops=2,
        constant=(2,),
    ),
    Row("HDF5Output", 'file_name: "out.h5"', lambda *x: [], [BATCH, ((2,), labels(3))], tops=0),
    Row("Parameter", "shape { dim: 2 dim: 3 }", lambda w: w),
    Row("Input", "shape { dim: 2 dim: 3 }", lambda: np.zeros((2, 3))),
    Row("DummyData", 'shape { dim: 2 } data_filler { type: "constant" value: 3 }', lambda: np.full(2, 3.0)),
    Row("DummyData old", "num: 2 channels: 3 height: 1 width: 4", lambda: [np.zeros((2, 3, 1, 4))] * 2, tops=2),
    Row(
        "MemoryData",
        "batch_size: 2 channels: 3 height: 1 width: 2",
        lambda: [IN_MEMORY[0][:2], IN_MEMORY[1][:2]],
        tops=2,
        prepare=lambda net: net.graph.nodes[0].layer.set_input_arrays(*IN_MEMORY),
    ),
    Row(
        "Python",
        'module: "user_scaling" layer: "Scaling" param_str: "3" share_in_parallel: true',
        lambda x: 3 * x,
        [BATCH],
    ),
    Row("Data", "", lambda: FED, tops=2, source=FED),
    Row("ImageData", "", lambda: FED, tops=2, source=FED),
    Row("WindowData", "", lambda: FED, tops=2, source=FED),
    Row("HDF5Data", "", lambda: FED[:1], source=FED),
    Row("Gather", "", lambda x, z: [x, z], [BATCH, (3, 1)], tops=2),
]
