"""Rows of the table of layers: Sources and sinks, reductions, recurrent and Python layers."""

from __future__ import annotations

import numpy as np
import reference
from layer_row import BATCH, FILL, IMAGE, Row, distinct, labels, off_kinks, samples, some, starts

IN_MEMORY = np.arange(24.0).reshape(4, 3, 1, 2), np.arange(4.0)
FED = [np.arange(6.0).reshape(2, 3), np.array([1.0, 0.0])]

ROWS = [
    Row(
        "RNN",
        f"recurrent_param {{ num_output: 2 debug_info: true {FILL} }}",
        [((5, 3, 4), off_kinks), ((5, 3), starts)],
        lambda x, cont, *params: reference.rnn(x, cont, None, [np.zeros((3, 2))], params)[:1],
        constant=(1,),
    ),
    Row(
        "LSTM",
        f"recurrent_param {{ num_output: 2 {FILL} }}",
        [((5, 3, 4), off_kinks), ((5, 3), starts)],
        lambda x, cont, *params: reference.lstm(x, cont, None, [np.zeros((3, 2))] * 2, params)[:1],
        constant=(1,),
    ),
    Row(
        "LSTMUnit",
        "",
        [((1, 3, 2), off_kinks), ((1, 3, 8), off_kinks), ((1, 3), some)],
        lambda c, x, k: reference.lstm_unit(c, x, k[..., None]),
        tops=2,
        constant=(2,),
    ),
    Row("Reduction", "reduction_param { coeff: 2 }", [(IMAGE, off_kinks)], lambda x: [2 * x.sum()]),
    Row(
        "Reduction",
        "reduction_param { operation: ASUM axis: 1 coeff: -0.5 }",
        [(IMAGE, off_kinks)],
        lambda x: [-np.abs(x).sum((1, 2, 3)) / 2],
        name="of absolutes",
    ),
    Row(
        "Reduction",
        "reduction_param { operation: SUMSQ axis: -1 }",
        [(IMAGE, off_kinks)],
        lambda x: [(x * x).sum(-1)],
        name="of squares",
    ),
    Row(
        "Reduction",
        "reduction_param { operation: MEAN axis: 2 }",
        [(IMAGE, off_kinks)],
        lambda x: [x.mean((2, 3))],
        name="mean",
    ),
    Row("ArgMax", "", [(IMAGE, distinct)], lambda x: [x.reshape(len(x), -1).argmax(1).reshape(-1, 1, 1, 1)]),
    Row(
        "ArgMax",
        "argmax_param { top_k: 2 out_max_val: true }",
        [(BATCH, distinct)],
        lambda x: [np.stack([(-x).argsort(1)[:, :2], -np.sort(-x, 1)[:, :2]], 1)],
        name="with values",
    ),
    Row(
        "ArgMax",
        "argmax_param { axis: 1 top_k: 3 }",
        [(IMAGE, distinct)],
        lambda x: [(-x).argsort(1)[:, :3]],
        name="along an axis",
    ),
    Row(
        "ArgMax",
        "argmax_param { axis: -1 out_max_val: true }",
        [(IMAGE, distinct)],
        lambda x: [x.max(-1, keepdims=True)],
        name="values along an axis",
    ),
    Row("BatchReindex", "", [((4, 3, 2), off_kinks), ((6,), samples)], lambda x, i: [x[i.astype(int)]], constant=(1,)),
    Row(
        "Filter",
        "",
        [((4, 3), off_kinks), ((4, 2), off_kinks), ((4,), lambda rng, shape: rng.integers(1, 3, shape) * 1.0)],
        lambda a, b, s: [a, b],
        tops=2,
        constant=(2,),
    ),
    Row(
        "HDF5Output",
        'hdf5_output_param { file_name: "out.h5" }',
        [(BATCH, off_kinks), ((2,), labels(3))],
        lambda *x: [],
        tops=0,
    ),
    Row("Parameter", "parameter_param { shape { dim: 2 dim: 3 } }", [], lambda w: [w]),
    Row("Input", "input_param { shape { dim: 2 dim: 3 } }", [], lambda: [np.zeros((2, 3))]),
    Row(
        "DummyData",
        'dummy_data_param { shape { dim: 2 } data_filler { type: "constant" value: 3 } }',
        [],
        lambda: [np.full(2, 3.0)],
    ),
    Row(
        "DummyData",
        "dummy_data_param { num: 2 channels: 3 height: 1 width: 4 }",
        [],
        lambda: [np.zeros((2, 3, 1, 4))] * 2,
        tops=2,
        name="old",
    ),
    Row(
        "MemoryData",
        "memory_data_param { batch_size: 2 channels: 3 height: 1 width: 2 }",
        [],
        lambda: [IN_MEMORY[0][:2], IN_MEMORY[1][:2]],
        tops=2,
        prepare=lambda net: net.graph.nodes[0].layer.set_input_arrays(*IN_MEMORY),
    ),
    Row(
        "Python",
        'python_param { module: "user_scaling" layer: "Scaling" param_str: "3" share_in_parallel: true }',
        [(BATCH, off_kinks)],
        lambda x: [3 * x],
    ),
    Row("Data", "", [], lambda: FED, tops=2, source=FED),
    Row("VideoData", "", [], lambda: FED, tops=2, source=FED),
    Row("AnnotatedData", "", [], lambda: FED, tops=2, source=FED),
    Row("ImageData", "", [], lambda: FED, tops=2, source=FED),
    Row("WindowData", "", [], lambda: FED, tops=2, source=FED),
    Row(
        "ImageGtData",
        "image_gt_data_param { field_w: 8 field_h: 8 downsample_rate: 4 }",
        [],
        lambda: FED,
        tops=2,
        source=FED,
    ),
    Row("HDF5Data", "", [], lambda: FED[:1], source=FED),
    Row("DenseImageData", "", [], lambda: FED, tops=2, source=FED),
    Row("MultiLabelImageData", "", [], lambda: FED, tops=2, source=FED),
    Row("ImageLabelmapData", "", [], lambda: FED, tops=2, source=FED),
    Row("ImageSegData", "", [], lambda: FED, tops=2, source=FED),
    Row("VideoFrames", "", [], lambda: FED, tops=2, source=FED),
    Row("VideoClips", "", [], lambda: FED, tops=2, source=FED),
    Row("Gather", "", [(BATCH, off_kinks), ((3, 1), off_kinks)], lambda x, z: [x, z], tops=2),
    Row("WindowSegData", "", [], lambda: FED, tops=2, source=FED),
]
