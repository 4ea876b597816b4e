"""The CPU's way from pixels to a net's input."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .kernels import pixels as kernels

SMALL = 1 << 17  # numbers that one thread makes before others are awake


class Preprocess:
    """out (N, C, h, w) = (pixels - mean) · scale, computed in float32: ``put`` gives the pixels of a pass, ``forward``
    runs it.

    mean: None, (C, 1, 1) or an image (C, H, W), which is cropped as the pixels are unless it has the crop's size.
    """

    def __init__(self, out: tuple[int, ...], mean: np.ndarray | None, scale: float):
        self._out, self._scale = out, np.float32(scale)
        self._mean = np.zeros((out[1], 1, 1), np.float32) if mean is None else np.ascontiguousarray(mean, np.float32)
        self._kernel = kernels.preprocess_parallel if math.prod(out) > SMALL else kernels.preprocess
        self._pixels = self._picks = None

    def memory(self, shape: tuple[int, ...], dtype) -> np.ndarray:
        """Memory of the host that ``forward`` reads fast."""
        return np.empty(shape, dtype)

    def wait(self) -> None:
        """Returns when the pixels of the last ``forward`` may be overwritten."""

    def put(self, which: int, pixels: np.ndarray, picks: np.ndarray, standing: bool = False) -> None:
        """pixels (M, C, H, W), uint8 or float32, of any strides, and picks (N, 4), int32, in the host's memory.

        A row of picks is a sample: which pixels, the crop's top and left, 1 where it is mirrored. Pixels that already
        have the crop's size are not cropped. standing: the pixels are always the same.
        """
        self._pixels, self._picks = pixels, picks

    def forward(self, out, fields: Sequence = (), tops: Sequence = ()) -> None:
        """fields: of the input buffer, each copied to its top."""
        for field, top in zip(fields, tops, strict=True):
            field.copy_to(top)
        cut = self._pixels.shape[2:] != self._out[2:]
        self._kernel(self._pixels, self._picks, cut, self._mean, self._scale, out.reshape(self._out))
