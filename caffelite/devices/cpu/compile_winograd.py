"""The second process of ahead.py: compiles Winograd's kernels for windows of SIZE², of images with more tiles than
channels; few nets begin with others."""

import numpy as np

from ..algorithms import EXACT_TILE
from ..ops import Convolution
from ..window import Window
from .device import CPU
from .winograd import WinogradConvolution

CHANNELS, SIDE = 16, 32


def main(size: int) -> None:
    shape, outputs = (1, CHANNELS, SIDE, SIDE), EXACT_TILE if size == 3 else 4
    op = Convolution(shape, shape, Window((size, size), pad=(size // 2,) * 2))
    built = WinogradConvolution(CPU(), op, outputs)
    x, w, b = (np.zeros(s, np.float32) for s in (shape, (CHANNELS, CHANNELS, size, size), CHANNELS))
    built.forward(x, w, b, np.empty_like(x))
    if size == 3:
        built.weight_gradient(x, x, np.empty_like(w))
