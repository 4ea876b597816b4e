"""The CPU's recurrent operations."""

from __future__ import annotations

import numpy as np

from .kernels import panels, recurrent


class LSTM:
    """T steps of N sequences of D units: c = k σ(f) c + σ(i) tanh(g), h = σ(o) tanh(c), sums (i, f, o, g) = gates + w (k h).

    cont (T, N): k, where 0 nothing goes on; w (4D, D). Each thread takes its sequences through all of time.
    """

    def __init__(self, device, t: int, n: int, d: int):
        self._device, self._d, self._threads = device, d, min(device.threads, n)
        self._states, self._gates, self._cont, self._cell = (t, n, d), (t, n, 4 * d), (t, n), (n, d)
        self._lanes = panels.WIDTH // device.dtype.itemsize
        self._none = np.empty((0, 0, 0), device.dtype)

    def _space(self, columns: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
        """Workspace: packed weights, and a row of D for each sequence."""
        shape = -(-columns // self._lanes), depth, self._lanes
        count = shape[0] * depth * self._lanes
        space = self._device.workspace(count + self._cell[0] * self._d)
        return space[:count].reshape(shape), space[count:].reshape(self._cell)

    def forward(self, gates, cont, w, last, hidden, c, h) -> None:
        """gates (T, N, 4D): what the sums take from elsewhere, then σ(i), σ(f), σ(o), tanh(g); last (N, D): h before, c (T + 1, N, D)
        with c before in c[0]; hidden (T, N, D): k h before each step, for the gradient of w; h (T, N, D)."""
        packed, _ = self._space(4 * self._d, self._d)
        panels.pack(w, True, packed)
        states = hidden.reshape(self._states), c, h.reshape(self._states), last.reshape(self._cell)
        recurrent.sequence_forward(gates.reshape(self._gates), cont.reshape(self._cont), packed, *states, self._threads)

    def backward(self, gates, cont, w, c, above, dh, dc, dgates) -> None:
        """dgates (T, N, 4D): the gradients of the sums, from gates as forward leaves them; above: h's gradient or None; dh, dc (N, D):
        the last states' gradients, then the first's."""
        packed, spare = self._space(self._d, 4 * self._d)
        panels.pack(w, False, packed)
        judged = above is not None
        more = above.reshape(self._states) if judged else self._none
        args = gates.reshape(self._gates), cont.reshape(self._cont), packed, c, more, judged
        recurrent.sequence_backward(*args, dh, dc, dgates.reshape(self._gates), spare, self._threads)


class LSTMUnit:
    """One step of an LSTM from all of its sums, gates (N, 4D), which become σ(i), σ(f), σ(o), tanh(g)."""

    def __init__(self, device, n: int, d: int):
        self._device, self._cell, self._gates = device, (n, d), (n, 4 * d)

    def forward(self, gates, cont, before, c, h) -> None:
        states = (a.reshape(self._cell) for a in (before, c, h))
        recurrent.unit_forward(gates.reshape(self._gates), cont.reshape(-1), *states)

    def backward(self, gates, cont, before, c, dh, dc, dgates) -> None:
        """dgates (N, 4D): the gradient of the sums; dc: that of c from above, then that of the cell before."""
        n, d = self._cell
        spare = self._device.workspace(n * d).reshape(self._cell)
        states = (a.reshape(self._cell) for a in (before, c, dh, dc))
        recurrent.unit_backward(gates.reshape(self._gates), cont.reshape(-1), *states, dgates.reshape(self._gates), spare)
