"""The GPU's conversion of pixels to a net's input: bytes are copied while the GPU computes, and converted on it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .. import ops
from ..types import Array, Kernel
from .kernels import Kernels
from .registry import implements

RESIDENT_SHARE = 4  # a data set is kept on the GPU if it takes at most 1/RESIDENT_SHARE of the free memory


@implements(ops.Preprocess)
class Preprocess:
    def __init__(self, device: Kernels, op: ops.Preprocess):
        self._device, self._out, self._scale, self._last = device, op.out, np.float32(op.scale), op.channels_last
        mean = np.ascontiguousarray(np.zeros((op.out[1], 1, 1)) if op.mean is None else op.mean, np.float32)
        self._mean, self._mean_shape = device.uploaded(mean), mean.shape
        self._inputs: Any = op.context.input_buffer
        self._picks = self._inputs.field((op.out[0], 4), np.int32)
        self._pixels: dict[tuple[Any, ...], Array] = {}  # of batches that are copied, one array for each bank
        # The resident data set on the device, and the host's array that it is a copy of.
        self._resident: Array | None = None
        self._resident_host: np.ndarray | None = None
        self._resident_count = 0  # how many were resident: each has another address
        self._sources: dict[int, tuple[Array, Kernel]] = {}  # of each bank: the array that its kernel reads, the kernel
        self.deep = False  # whether the last pixels are resident, so that several passes can be prepared at once

    def host_buffer(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """Pinned memory."""
        return self._device.backend.pinned(shape, np.dtype(dtype))

    def wait(self) -> None:
        if not self.deep:
            self._inputs.wait_before()

    def set_batch(self, which: int, pixels: np.ndarray, picks: np.ndarray, resident: bool = False) -> None:
        """resident: the pixels stay on the GPU where it has enough free memory."""
        bank = self._inputs.bank
        table = self._make_resident(pixels) if resident else None
        self.deep = table is not None
        if table is None:
            if resident:
                rows = _flat(pixels)[picks[:, 0]]
                pixels, picks = rows if _by_channels(pixels) else rows.transpose(0, 3, 1, 2), picks.copy()
                picks[:, 0] = np.arange(len(picks))
            rows = _flat(pixels)
            key = bank, rows.shape, rows.dtype
            if key not in self._pixels:
                self._pixels[key] = self._inputs.empty(rows.shape, rows.dtype)
            table = self._pixels[key]
            self._inputs.upload(table, rows)
        self._picks.set(which, picks)
        self._sources[bank] = table, self._kernel(pixels)

    def signature(self) -> tuple[Any, ...]:
        """The kernel's arguments in this bank that do not come from the input buffer."""
        table, kernel = self._sources[self._inputs.bank]
        return self.deep and self._resident_count, table.shape, table.dtype, id(kernel)

    def forward(self, out: Array, fields: Sequence[Any] = (), tops: Sequence[Array] = ()) -> None:
        """The first field, which usually holds the labels, is copied by the same kernel."""
        table, kernel = self._sources[self._inputs.bank]
        first = (fields[0].array, tops[0], tops[0].size) if fields else (None, None, 0)
        pixels = (table, None) if table.dtype == np.uint8 else (None, table)
        kernel(*pixels, self._picks.array, self._mean, out, self._scale, *first)
        for field, top in zip(fields[1:], tops[1:], strict=True):
            field.copy_to(top)

    def _make_resident(self, pixels: np.ndarray) -> Array | None:
        """The data set on the device; None where it takes too much of the free memory."""
        if self._resident_host is not pixels:
            self._resident_host, self._resident = pixels, None
            self._resident_count += 1
            if pixels.nbytes * RESIDENT_SHARE <= self._device.backend.free_bytes():
                self._resident = self._device.uploaded(_flat(pixels))
        return self._resident

    def _kernel(self, pixels: np.ndarray) -> Kernel:
        n, c, h, w = self._out
        rows, columns = pixels.shape[2:]
        strides = (rows * columns, columns, 1) if _by_channels(pixels) else (1, columns * c, c)
        cut, flat = (rows, columns) != (h, w), self._mean_shape[1:] == (1, 1)
        mean = (0, 0, 0) if flat else (self._mean_shape[2], 1, int(self._mean_shape[1:] != (h, w)))
        steps = c * rows * columns, *strides, self._mean_shape[1] * self._mean_shape[2], *mean
        fixed = *steps, int(cut), int(self._last), n, c, h, w
        return self._device.cached_kernel("pixels", "preprocess", n * c * h * w, *fixed)


def _by_channels(pixels: np.ndarray) -> bool:
    return pixels.flags.c_contiguous


def _flat(pixels: np.ndarray) -> np.ndarray:
    """The pixels in their memory order: M×C×H×W or M×H×W×C."""
    return pixels if _by_channels(pixels) else pixels.transpose(0, 2, 3, 1)
