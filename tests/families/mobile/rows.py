"""Rows of the table of layers: mobile nets."""

import numpy as np
import reference
from layers.layer_row import Row, off_kinks
from textnet import IMAGE

from caffelite.devices import Window


def spread(rng, shape):
    """Also beyond 3 to either side, where a HardSwish bends."""
    return 4 * off_kinks(rng, shape) + 0.01


def depthwise(window: Window):
    """A convolution of each channel apart; an output channel m belongs to the input channel m // (M / C)."""

    def oracle(x, w, b):
        each = len(w) // x.shape[1]
        parts = [
            reference.convolution(x[:, c : c + 1], w[each * c : each * (c + 1)], None, window)
            for c in range(x.shape[1])
        ]
        return [np.concatenate(parts, 1) + b[:, None, None]]

    return oracle


def shuffled(group: int):
    return lambda x: [x[:, [c % group * (x.shape[1] // group) + c // group for c in range(x.shape[1])]]]


ROWS = [
    Row("HardSwish", "", lambda x: x * np.clip(x + 3, 0, 6) / 6, [(IMAGE, spread)]),
    Row(
        "DepthwiseConvolution",
        "num_output: 4 kernel_size: 3 pad: 1 stride: 2 group: 4",
        depthwise(Window((3, 3), (2, 2), (1, 1))),
    ),
    Row(
        "ConvolutionDepthwise of as many outputs as channels",
        "num_output: 8 group: 3 kernel_h: 2 kernel_w: 3",
        depthwise(Window((2, 3))),
    ),
    Row(
        "DepthwiseConvolution of two outputs a channel",
        "num_output: 8 kernel_h: 2 kernel_w: 3",
        depthwise(Window((2, 3))),
    ),
    Row("ReLU6", "", lambda x: np.clip(x, 0, 6), [((3, 40), lambda rng, shape: 8 * off_kinks(rng, shape))]),
    Row(
        "ReLU6 leaky",
        "negative_slope: 0.125",
        lambda x: np.where(x < 0, 0.125 * x, np.minimum(x, 6)),
        [((3, 40), lambda rng, shape: 8 * off_kinks(rng, shape))],
    ),
    Row("ShuffleChannel", "group: 3", shuffled(3), [(2, 6, 2, 3)]),
    Row("ShuffleChannel of vectors", "group: 2", shuffled(2), [(3, 4)]),
    Row("ShuffleChannel of one group", "", lambda x: x, [(3, 4)]),
]
