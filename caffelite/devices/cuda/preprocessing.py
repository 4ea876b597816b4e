"""The GPU's way from pixels to a net's input: bytes travel, beside the computing, and become numbers where they are
needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

STANDING_SHARE = 4  # a data set lives on the GPU where it takes at most this part of its free memory


class Preprocess:
    """out (N, C, h, w) = (pixels - mean) · scale, computed in float32: ``put`` gives the pixels of a pass, ``forward``
    is queued for it.

    mean: None, (C, 1, 1) or an image (C, H, W), which is cropped as the pixels are unless it has the crop's size.
    """

    def __init__(self, device, out: tuple[int, ...], mean: np.ndarray | None, scale: float):
        self._device, self._out, self._scale = device, out, np.float32(scale)
        mean = np.zeros((out[1], 1, 1), np.float32) if mean is None else np.ascontiguousarray(mean, np.float32)
        self._mean, self._mean_shape = device.empty(mean.shape, np.float32), mean.shape
        device.upload(self._mean, mean)
        self._inlet = device.input_buffer
        self._picks = self._inlet.field((out[0], 4), np.int32)
        self._rooms: dict = {}  # for pixels that travel, one a half of the input buffer
        self._kernels: dict = {}
        self._table, self._home = None, None  # a standing set, and the host's array that it is a copy of
        self._sets = 0  # how many have stood: each lies elsewhere
        self._sources: dict = {}  # of each half: what its kernel reads, and the kernel
        self.deep = False  # whether the last pixels stand, so that several passes can be prepared at once

    def memory(self, shape: tuple[int, ...], dtype) -> np.ndarray:
        """Memory of the host that is copied from fast."""
        return self._device.backend.pinned(shape, np.dtype(dtype))

    def wait(self) -> None:
        """Returns when the pixels that travelled last may be overwritten."""
        if not self.deep:
            self._inlet.wait_before()

    def put(self, which: int, pixels: np.ndarray, picks: np.ndarray, standing: bool = False) -> None:
        """pixels (M, C, H, W), uint8 or float32, as rows of channels or of pixels, and picks (N, 4), int32, in the
        host's memory.

        A row of picks is a sample: which pixels, the crop's top and left, 1 where it is mirrored. Pixels that already
        have the crop's size are not cropped. standing: the pixels are always the same, and stay on the GPU where there
        is room.
        """
        half = self._inlet.half
        table = self._stand(pixels) if standing else None
        self.deep = table is not None
        if table is None:
            if standing:
                rows = _flat(pixels)[picks[:, 0]]
                pixels, picks = rows if _by_channels(pixels) else rows.transpose(0, 3, 1, 2), picks.copy()
                picks[:, 0] = np.arange(len(picks))
            rows = _flat(pixels)
            key = half, rows.shape, rows.dtype
            if key not in self._rooms:
                self._rooms[key] = self._inlet.room(rows.shape, rows.dtype)
            table = self._rooms[key]
            self._inlet.carry(table, rows)
        self._picks.put(which, picks)
        self._sources[half] = table, self._kernel(pixels)

    def signature(self) -> tuple:
        """What the kernel of the half in use is given, besides what the input buffer brings."""
        table, kernel = self._sources[self._inlet.half]
        return self.deep and self._sets, table.shape, id(kernel)

    def forward(self, out, fields: Sequence = (), tops: Sequence = ()) -> None:
        """fields: of the input buffer, each copied to its top; the first of them, labels as a rule, by the same
        kernel."""
        table, kernel = self._sources[self._inlet.half]
        first = (fields[0].array, tops[0], tops[0].size) if fields else (None, None, 0)
        kernel(table, self._picks.array, self._mean, out, self._scale, *first)
        for field, top in zip(fields[1:], tops[1:], strict=True):
            field.copy_to(top)

    def _stand(self, pixels: np.ndarray):
        if self._home is not pixels:
            self._home, self._table, self._sets = pixels, None, self._sets + 1
            if pixels.nbytes * STANDING_SHARE <= self._device.backend.free_bytes():
                self._table = self._device.empty(_flat(pixels).shape, pixels.dtype)
                self._device.upload(self._table, _flat(pixels))
        return self._table

    def _kernel(self, pixels: np.ndarray):
        n, c, h, w = self._out
        rows, columns = pixels.shape[2:]
        channels_first = _by_channels(pixels)
        key = pixels.dtype, rows, columns, channels_first
        if key not in self._kernels:
            strides = (rows * columns, columns, 1) if channels_first else (1, columns * c, c)
            size = max(n * c * h * w, pixels.size)
            name = {"uint8": "preprocess_bytes", "float32": "preprocess_floats"}[pixels.dtype.name]
            cut, flat = (rows, columns) != (h, w), self._mean_shape[1:] == (1, 1)
            mean = (0, 0, 0) if flat else (self._mean_shape[2], 1, int(self._mean_shape[1:] != (h, w)))
            steps = c * rows * columns, *strides, self._mean_shape[1] * self._mean_shape[2], *mean
            self._kernels[key] = self._device.kernel(
                "pixels", name, n * c * h * w, *steps, int(cut), n, c, h, w, size=size
            )
        return self._kernels[key]


def _by_channels(pixels: np.ndarray) -> bool:
    return pixels.flags.c_contiguous


def _flat(pixels: np.ndarray) -> np.ndarray:
    """The pixels as they lie in memory: M×C×H×W or M×H×W×C."""
    return pixels if _by_channels(pixels) else pixels.transpose(0, 2, 3, 1)
