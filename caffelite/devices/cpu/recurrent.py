"""The CPU's recurrent operations."""

import itertools
import math

import numpy as np

from .. import ops
from .kernels import panels, recurrent, reorders
from .memory import Memory
from .registry import implements

LINE = 64  # bytes: parts of the workspace start on cache lines


@implements(ops.LSTM)
class LSTM:
    """Each thread computes all steps of its sequences. half: bfloat16, to which forward rounds ``hidden`` (uint16)."""

    def __init__(self, device: Memory, op: ops.LSTM):
        t, n, d = op.t, op.n, op.d
        self._device, self._half, self._threads = device, op.half, min(device.threads, n)
        self._states, self._gates, self._cont, self._cell = (t, n, d), (t, n, 4 * d), (t, n), (n, d)

    def _space(self, w, turned: bool, *more: tuple[tuple[int, ...], type | None]) -> list[np.ndarray]:
        """Workspace: w packed, and arrays of more shapes and types."""
        depth, columns = w.shape[::-1] if turned else w.shape
        kind, width = (
            (np.uint32, panels.WIDTH // 4) if self._half else (None, panels.WIDTH // self._device.dtype.itemsize)
        )
        tile = (
            self._threads,
            *((width, 2 * reorders.CHANNELS) if turned else (reorders.ROWS, -(-columns // width) * width)),
        )
        arrays = [((-(-columns // width), depth // (1 + self._half), width), kind), *more, *[(tile, kind)] * self._half]
        kinds = [np.dtype(kind or self._device.dtype) for _, kind in arrays]
        sizes = [math.prod(shape) * kind.itemsize for (shape, _), kind in zip(arrays, kinds, strict=True)]
        sizes = [-(-size // LINE) * LINE for size in sizes]
        space, starts = self._device.space(sum(sizes)), itertools.accumulate(sizes, initial=0)
        packed = [
            self._device.view(space, start, shape, kind)
            for start, (shape, _), kind in zip(starts, arrays, kinds, strict=False)
        ]
        if self._half:
            words = packed.pop()
            (reorders.pack_outputs if turned else reorders.pack_inputs)(w, packed[0][:, None], words)
            packed[0] = packed[0].view(np.uint16)
        else:
            panels.pack(w, turned, packed[0])
        return packed

    def forward(self, gates, cont, w, h_0, hidden, c, h) -> None:
        (packed,) = self._space(w, True)
        states = hidden.reshape(self._states), c, h.reshape(self._states), h_0.reshape(self._cell)
        recurrent.sequence_forward(gates.reshape(self._gates), cont.reshape(self._cont), packed, *states, self._threads)

    def backward(self, gates, cont, w, c, dh, dh_n, dc_n, dgates) -> None:
        rows = [(self._gates[1:], np.uint16)] if self._half else []
        packed, spare, *factors = self._space(w, False, (self._cell, None), *rows)
        args = (
            gates.reshape(self._gates),
            cont.reshape(self._cont),
            packed,
            c,
            None if dh is None else dh.reshape(self._states),
        )
        recurrent.sequence_backward(
            *args, dh_n, dc_n, dgates.reshape(self._gates), factors[0] if factors else None, spare, self._threads
        )


@implements(ops.LSTMUnit)
class LSTMUnit:
    def __init__(self, device: Memory, op: ops.LSTMUnit):
        self._device, self._cell, self._gates = device, (op.n, op.d), (op.n, 4 * op.d)

    def forward(self, gates, cont, c_0, c, h) -> None:
        states = (a.reshape(self._cell) for a in (c_0, c, h))
        recurrent.unit_forward(gates.reshape(self._gates), cont.reshape(-1), *states)

    def backward(self, gates, cont, c_0, c, dh, dc, dgates) -> None:
        n, d = self._cell
        spare = self._device.workspace(n * d).reshape(self._cell)
        states = (a.reshape(self._cell) for a in (c_0, c, dh, dc))
        recurrent.unit_backward(
            gates.reshape(self._gates), cont.reshape(-1), *states, dgates.reshape(self._gates), spare
        )
