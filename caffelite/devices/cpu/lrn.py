"""Local response normalization across channels on the CPU."""

import numpy as np

from .. import ops
from .kernels import channels_last, lrn
from .memory import Memory
from .registry import implements


class LRN:
    def __init__(self, device: Memory, op: ops.LRN):
        real, share = device.dtype.type, op.alpha / op.size
        self._device, self._shape, self._size, self._beta = device, (op.n, op.c, op.p), op.size, real(op.beta)
        self._share, self._k, self._factor = real(share), real(op.k), real(2 * op.alpha * op.beta / op.size)

    def forward(self, x, scale, y) -> None:
        x, scale, y = (a.reshape(self._shape) for a in (x, scale, y))
        lrn.lrn_forward(x, scale, y, self._size, self._share, self._k, self._beta)

    def backward(self, x, y, scale, dy, dx) -> None:
        arrays = (a.reshape(self._shape) for a in (x, y, scale, dy, dx))
        lrn.lrn_backward(*arrays, self._size, self._factor, self._beta)


class ChannelsLastLRN(LRN):
    """LRN of x (N, C): each position's channels in one run of memory."""

    def _space(self) -> np.ndarray:
        threads, width = self._device.threads, self._shape[1] + self._size
        return self._device.workspace(threads * 2 * width).reshape(threads, 2, width)

    def forward(self, x, scale, y) -> None:
        x, scale, y = (a.reshape(self._shape[:2]) for a in (x, scale, y))
        channels_last.lrn_forward(x, scale, y, self._size, self._share, self._k, self._beta, self._space())

    def backward(self, x, y, scale, dy, dx) -> None:
        arrays = (a.reshape(self._shape[:2]) for a in (x, y, scale, dy, dx))
        channels_last.lrn_backward(*arrays, self._size, self._factor, self._beta, self._space())


@implements(ops.LRN)
def build(device: Memory, op: ops.LRN) -> LRN:
    return ChannelsLastLRN(device, op) if op.p == 1 else LRN(device, op)
