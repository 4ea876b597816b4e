"""The GPU's recurrent operations."""

from .. import ops
from ..formula import Formula
from .formula_kernels import FormulaKernels
from .registry import implements


@implements(ops.LSTM)
class LSTM:
    """A step is a product and a kernel. half: forward's products and ``hidden`` have 16 bits; backward's products are
    float32."""

    def __init__(self, device: FormulaKernels, op: ops.LSTM):
        n, d = self._cell = op.n, op.d
        self._steps, self._device, self._round = op.t, device, device.conversions()[0] if op.half else None
        self._unit, self._matmul = LSTMUnit(device, ops.LSTMUnit(n, d)), device.backend.matmul
        self._continued = device.channel_map(Formula("where(k == 0, 0, k * h)", ("h", "k")), ("k",), 1, n, d)

    def forward(self, gates, cont, w, h_0, hidden, c, h) -> None:
        n, d = self._cell
        if self._round:
            rounded = self._device.workspace(w.size, hidden.dtype).reshape(w.shape)
            self._round(w, rounded)
            w = rounded
        self._continued(h_0, cont[0], hidden[0])
        for t in range(self._steps):
            self._matmul(hidden[t], w, gates[t], n, 4 * d, d, trans_b=True, add=True)
            more = (cont[t + 1], hidden[t + 1]) if t + 1 < self._steps else (None, None)
            self._unit.step(gates[t], cont[t], c[t], c[t + 1], h[t], *more)

    def backward(self, gates, cont, w, c, dh, dh_n, dc_n, dgates) -> None:
        n, d = self._cell
        for t in reversed(range(self._steps)):
            self._unit.backward(gates[t], cont[t], c[t], c[t + 1], dh_n, dc_n, dgates[t], None if dh is None else dh[t])
            self._matmul(dgates[t], w, dh_n, n, d, 4 * d)
            self._continued(dh_n, cont[t], dh_n)


@implements(ops.LSTMUnit)
class LSTMUnit:
    def __init__(self, device: FormulaKernels, op: ops.LSTMUnit):
        self.step, self._backward = (
            device.kernel("recurrent", name, op.n * op.d, op.n, op.d) for name in ("lstm_forward", "lstm_backward")
        )

    def forward(self, gates, cont, c_0, c, h) -> None:
        self.step(gates, cont, c_0, c, h, None, None)

    def backward(self, gates, cont, c_0, c, dh, dc, dgates, above=None) -> None:
        """above: if any, joins dh."""
        self._backward(gates, cont, c_0, c, dh, above, dc, dgates)
